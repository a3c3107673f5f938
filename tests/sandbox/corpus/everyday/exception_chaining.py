# expect: [[80, ["port 'http' is not a number", "ValueError", ["while reading http"]], ["port out of range", null, ["while reading 99999"]]], ["80", "http", "99999", "x"], "ConfigError: port 'x' is not a number"]
import traceback


class ConfigError(Exception):
    """Raised when a configuration can't be read."""


def parse_port(text):
    try:
        port = int(text)
    except ValueError as error:
        raise ConfigError(f"port {text!r} is not a number") from error
    else:
        if not 0 < port < 65536:
            raise ConfigError("port out of range")
        return port
    finally:
        calls.append(text)


calls = []
results = []
for candidate in ("80", "http", "99999"):
    try:
        results.append(parse_port(candidate))
    except ConfigError as error:
        error.add_note(f"while reading {candidate}")
        cause = type(error.__cause__).__name__ if error.__cause__ else None
        results.append([str(error), cause, error.__notes__])

try:
    parse_port("x")
except ConfigError as error:
    last = traceback.format_exception_only(error)[-1].strip()

[results, calls, last]
