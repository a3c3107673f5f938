# expect: [1, null, [1, 2, 3], 3, "Underscore", "Look *key* up.", true, true, {}, 2]
"""Underscore names, dunder module variables and friends, as modules have them."""
import sys
from typing import Any, Final, overload

__version__ = "1.2.3"
__author__ = "somebody"
__all__ = ["lookup", "VERSION_INFO"]

_MISSING: Final = object()
VERSION_INFO = tuple(int(part) for part in __version__.split("."))


@overload
def lookup(table: dict[str, int], key: str) -> int: ...
@overload
def lookup(table: dict[str, int], key: str, default: Any) -> Any: ...
def lookup(table, key, default=_MISSING):
    """Look *key* up."""
    value = table.get(key, _MISSING)
    if value is not _MISSING:
        return value
    if default is _MISSING:
        raise LookupError(key)
    return default


def _private_helper(__x, _y=1):
    _ = __x + _y
    return _


if __debug__:
    checked = True
if sys.version_info >= (3, 8) and sys.maxsize > 2**30:
    modern = True
if __name__ != "__main__":
    raise RuntimeError("imported?")
[lookup({"a": 1}, "a"), lookup({}, "b", None), VERSION_INFO, _private_helper(2), __doc__[:10], lookup.__doc__, checked, modern, lookup.__annotations__, len(__all__)]
