# expect: [6, 1, "DeprecationWarning", "old_sum is deprecated, use new_sum", "old_sum is deprecated, use new_sum", "expected 7, got 6"]
import warnings
from functools import wraps


def deprecated(replacement):
    def decorate(func):
        @wraps(func)
        def wrapper(*args, **kwargs):
            warnings.warn(f"{func.__name__} is deprecated, use {replacement}", DeprecationWarning, stacklevel=2)
            return func(*args, **kwargs)

        return wrapper

    return decorate


@deprecated("new_sum")
def old_sum(*numbers):
    return sum(numbers)


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    value = old_sum(1, 2, 3)

with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        old_sum(1)
    except DeprecationWarning as warning:
        raised = str(warning)

try:
    assert value == 7, f"expected 7, got {value}"
except AssertionError as error:
    failed = error.args[0]
[value, len(caught), caught[0].category.__name__, str(caught[0].message), raised, failed]
