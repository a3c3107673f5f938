"""Python functions as tools: their arguments are validated on the host before they run."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, PydanticSerializationError, to_json

from go_ent.sandbox.errors import ToolDefinitionError, ToolError
from go_ent.sandbox.media.marks import marked, revived
from go_ent.sandbox.messages.validation import misfits
from go_ent.sandbox.worker.outside import parse

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
MAX_MESSAGE = 2000
MAX_PROBLEMS = 100
_NESTED = frozenset((dict, list))
_TEXTS = str, bytes, bytearray


class CallFailed(Exception):
    """Internal: raised when a tool call did not work, in the words that may reach the guest as its ToolError."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(_encodable(message))
        self.kind = _encodable(kind)


class HostTool(Protocol):
    """What a guest's call needs of a tool: a function, and the check that its arguments pass before it runs."""

    name: str
    is_async: bool

    @property
    def function(self) -> Callable[..., Any]: ...

    def bind(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The checked arguments; raises CallFailed."""

    def named(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, for somebody who has to approve the call."""


class Granted(Protocol):
    """The tools that a run may call."""

    names_json: bytes

    def find(self, name: str, call_id: int) -> HostTool | None:
        """The tool of that name, for the run's call of that number. None, or CallFailed with a reason, if it may not
        be called.
        """


class Tool:
    """A function under a name, with its arguments' types."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        if not callable(function):
            raise ToolDefinitionError(f"{function!r:.80} is not a function")
        target = function.func if isinstance(function, functools.partial) else function
        name = name or str(getattr(target, "__name__", ""))
        if not NAME.fullmatch(name) or any(
            keyword.iskeyword(part) or part.startswith("__") for part in name.split(".")
        ):
            raise ToolDefinitionError(
                f"{name!r} is not a tool name: letters, digits and underscores, no keyword, dots between namespaces"
            )
        self.name: str = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
        self.description = inspect.getdoc(function) or ""
        self.signature = self._signature()
        self._arguments = self._adapter(target)
        self._checked = self._arguments.validator.validate_python

    def _signature(self) -> inspect.Signature:
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError) as error:
            raise ToolDefinitionError(f"tool {self.name}: its signature can't be read: {error}") from None
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise ToolDefinitionError(
                    f"tool {self.name}: *{parameter.name} can't be offered; give the parameter a name and the "
                    "type list[…]"
                )
        return signature

    def _adapter(self, target: Any) -> TypeAdapter[Any]:
        """What checks its arguments, and knows their schema."""

        def capture(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return args, kwargs

        try:
            hints = get_type_hints(
                target if inspect.isfunction(target) or inspect.ismethod(target) else target.__call__,
                include_extras=True,
            )
        except (NameError, AttributeError, TypeError) as error:
            raise ToolDefinitionError(f"tool {self.name}: its type hints can't be resolved: {error}") from None
        hints.pop("return", None)
        capture.__signature__ = self.signature.replace(  # type: ignore[attr-defined]
            parameters=[p.replace(annotation=hints.get(p.name, Any)) for p in self.signature.parameters.values()],
            return_annotation=inspect.Signature.empty,
        )
        capture.__annotations__ = {name: hints.get(name, Any) for name in self.signature.parameters}
        capture.__name__ = capture.__qualname__ = self.name.rpartition(".")[2]
        try:
            described: Any = capture
            return TypeAdapter(described)
        except Exception as error:
            raise ToolDefinitionError(f"tool {self.name}: its parameters can't be validated: {error}") from None

    @functools.cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self._arguments.json_schema()

    def bind(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The validated arguments; nothing of the function has run yet."""
        try:
            if not (_NESTED.isdisjoint(map(type, args)) and _NESTED.isdisjoint(map(type, kwargs.values()))):
                # There may be bytes in there.
                args = [revived(value) for value in args]
                kwargs = {name: revived(value) for name, value in kwargs.items()}
            checked: tuple[tuple[Any, ...], dict[str, Any]] = self._checked(ArgsKwargs(tuple(args), kwargs))
            return checked
        except ValidationError as error:
            raise CallFailed("InvalidArguments", explain(error, list(self.signature.parameters))) from None

    def named(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, as far as they have one."""
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError:
            return dict(kwargs)


def explain(error: ValidationError, names: list[str]) -> str:
    """What is wrong with the arguments, one phrase each, without the values."""
    count = error.error_count()
    if count > MAX_PROBLEMS:  # listing them would take longer than finding them
        return f"{count} of the values are not valid"
    return scrub(misfits(error, names, most=8))


class Toolset(Mapping[str, Tool]):
    """The tools a sandbox grants, by full name. A name may not be both a tool and a namespace."""

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] | Mapping[str, Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        if isinstance(tools, Mapping):
            self._add_namespace("", tools)
        elif not isinstance(tools, Iterable):
            raise ToolDefinitionError(
                f"tools must be a list of functions, or names with functions, not {type(tools).__name__}"
            )
        else:
            for tool in tools:
                self._add(tool if isinstance(tool, Tool) else Tool(tool))
        for name in self._tools:
            while name := name.rpartition(".")[0]:
                if name in self._tools:
                    raise ToolDefinitionError(f"{name!r} is both a tool and a namespace; rename one of them")
        self.names = sorted(self._tools)
        self.names_json = to_json(self.names)

    def _add_namespace(self, prefix: str, tools: Mapping[str, Any]) -> None:
        for name, value in tools.items():
            full = f"{prefix}{name}"
            if isinstance(value, Mapping):
                self._add_namespace(f"{full}.", value)
            else:
                self._add(value if isinstance(value, Tool) else Tool(value, full))

    def _add(self, tool: Tool) -> None:
        if tool.name in self._tools:
            raise ToolDefinitionError(f"two tools are called {tool.name!r}; rename one of them")
        self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The tool of that full name, or *default*."""
        return self._tools.get(name, default)

    def find(self, name: str, call_id: int) -> Tool | None:
        """The tool for a call, or None."""
        return self._tools.get(name)

    def __iter__(self) -> Any:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def encode_result(value: Any, limit: int | None) -> bytes:
    """A tool's result as JSON, within *limit* bytes."""
    if limit is not None and isinstance(value, _TEXTS) and len(value) > limit:
        raise CallFailed("ResultTooLarge", _too_large(len(value), limit))
    try:
        data = to_json_marked(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise CallFailed("ResultNotEncodable", f"its result can't be encoded as JSON: {scrub(str(error))}") from None
    if limit is not None and len(data) > limit:
        raise CallFailed("ResultTooLarge", _too_large(len(data), limit))
    if len(data) > MAX_DIGITS and TOO_MANY_DIGITS in data.translate(_DIGITS) and not _readable(data):
        raise CallFailed(
            "ResultNotEncodable", f"its result holds a number of more than {MAX_DIGITS} digits: return it as a text"
        )
    return data


def to_json_marked(value: Any) -> bytes:
    """A value as JSON; bytes that are no text are marked as such."""
    try:
        return to_json(value, by_alias=True)
    except (PydanticSerializationError, ValueError):
        with_marks = marked(value)
        if with_marks is value:
            raise
        return to_json(with_marks, by_alias=True)


# Python reads no longer number, in the guest as little as here.
MAX_DIGITS = 4300
TOO_MANY_DIGITS = b"0" * (MAX_DIGITS + 1)
_DIGITS = bytes(ord("0") if code in b"0123456789" else ord(" ") for code in range(256))


def _readable(data: bytes) -> bool:
    """Whether those digits stand in a text."""
    try:
        parse(data, None)
    except ValueError:
        return False
    return True


def _too_large(size: int, limit: int) -> str:
    return f"its result is {size} bytes long; max_call_bytes={limit}"


# An absolute path: a root that does not continue a word, an address or another path, and all that hangs on it.
_PATH = re.compile(r"(?<![\w/.:~+@-])(?:/|[A-Za-z]:\\|~/)(?=[\w.])[^\s'\"<>|,;:()\[\]{}]+")


def scrub(message: str) -> str:
    """A message without paths of the host, cut to a length, and always text that can be encoded."""
    message = _encodable(message[: MAX_MESSAGE * 2])
    message = _PATH.sub("<path>", message)
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}… [cut]"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure(error: BaseException) -> CallFailed:
    """What the guest may know of an exception that a tool raised: never a traceback, never a host path.

    The exception is the tool's own, and so is its class: asking either of them anything may raise.
    """
    kind: str = type.__dict__["__name__"].__get__(type(error))[:100]
    try:
        if isinstance(error, CallFailed):
            return error
        if isinstance(error, ToolError):
            return CallFailed("ToolError", str(error)[:MAX_MESSAGE])
        text = scrub(error.strerror if isinstance(error, OSError) and isinstance(error.strerror, str) else str(error))
    except BaseException:  # an exception that can't even say what it is
        text = ""
    return CallFailed(kind, f"{kind}: {text}" if text else kind)
