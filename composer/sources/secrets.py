"""Secrets that a project's file holds word for word, where it should name a variable: they are refused.

A file of settings is committed, copied and shown. What names itself a secret there, or looks like one, is a mistake
that is told before anything is started, without its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from go_ent.composer.sources.server_config import REFERENCE

# By section: its tables of names and values, and its addresses.
PLACES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "servers": (("env", "headers"), ("url",)),
    "openapi": (("headers",), ("base_url",)),
    "runners": (("set",), ()),
    "commands": (("set",), ()),
}
REFER = "write it as a reference, ${env:NAME}, so that no file holds the secret"
_NAME = re.compile(
    r"(?:^|[^a-z])(?:api_?key|key|token|secret|credentials?|auth|cookie|pat)$|passw(?:or)?d$|passphrase$|authorization$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(?:bearer|basic) +\S|sk-[\w-]{16}|gh[pousr]_\w{20}|github_pat_\w{20}|xox[a-z]-\w{8}|-----BEGIN ", re.IGNORECASE
)


def is_spelled_out(name: str, value: object) -> bool:
    """Whether a value is a secret, by its *name* or by its looks, and not a reference to one."""
    if not isinstance(value, str) or not value or REFERENCE.search(value):
        return False
    return _NAME.search(name[-100:]) is not None or _VALUE.match(value) is not None


def spelled_out(table: Mapping[str, Any], section: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The secrets in a section as it is written, and what to do about each. It need not be valid otherwise."""
    names, addresses = PLACES[section]
    for one, settings in _items(table.get(section)):
        for where in names:
            for name, value in _items(settings.get(where) if isinstance(settings, Mapping) else None):
                if is_spelled_out(name, value):
                    in_env = f'name it in env = ["{name}"] instead, so that no file holds the secret'
                    yield (section, one, where, name), in_env if where == "set" else REFER
        for where in addresses:
            if isinstance(settings, Mapping) and _has_secret(settings.get(where)):
                yield (section, one, where), REFER


def _items(table: Any) -> Iterator[tuple[str, Any]]:
    return iter(table.items() if isinstance(table, Mapping) else ())


def _has_secret(address: object) -> bool:
    if not isinstance(address, str):
        return False
    try:
        parts = urlsplit(REFERENCE.sub("", address))
        return bool(parts.password) or any(is_spelled_out(name, value) for name, value in parse_qsl(parts.query))
    except ValueError:
        return False
