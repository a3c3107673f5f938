"""Python types and JSON: the schema of a type, and the value of a type from JSON.

The same types both ways, so that what a schema promises is what a function gets.
"""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any

MAX_DEPTH = 40
PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    Any: {},
    object: {},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    decimal.Decimal: {"type": "string", "pattern": r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    bytes: {"type": "string"},
}
FILE: dict[str, Any] = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "bytes": {"type": "integer"}},
    "required": ["file", "bytes"],
}
LISTS: dict[Any, Any] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
DICTS = {
    dict,
    collections.abc.Mapping,
    collections.abc.MutableMapping,
    collections.defaultdict,
    collections.OrderedDict,
}


class NotExpressible(Exception):
    """Raised when a type has no JSON Schema; the message says which, and what to write instead."""


def name_of(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or str(annotation)


def _bare(annotation: Any) -> tuple[Any, str | None]:
    """Without what only describes it: Annotated, aliases, NewType, Required. With a text that Annotated gave."""
    text = None
    for _ in range(MAX_DEPTH):
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            text = text or next((note for note in annotation.__metadata__ if isinstance(note, str)), None)
            annotation = annotation.__origin__
        elif origin in (typing.Required, typing.NotRequired, typing.ReadOnly, typing.Final):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.TypeAliasType):
            annotation = annotation.__value__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            break
    return annotation, text


class Schemas:
    """Makes schemas that share their definitions. In a *result*, bytes that are no text are files of the run."""

    def __init__(self, *, result: bool = False) -> None:
        self._result = result
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def of(self, annotation: Any, depth: int = 0) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise NotExpressible("a type that nests without end")
        annotation, text = _bare(annotation)
        schema = self._of(annotation, depth)
        return {**schema, "description": text} if text else schema

    def _of(self, annotation: Any, depth: int) -> dict[str, Any]:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if annotation is bytes and self._result:
            return {"anyOf": [PLAIN[bytes], FILE]}
        try:
            if annotation in PLAIN:
                return dict(PLAIN[annotation])
        except TypeError:
            pass
        if origin is typing.Literal:
            if not all(value is None or isinstance(value, str | int | bool) for value in args):
                raise NotExpressible("a Literal of something that JSON does not have")
            return {"enum": list(args)}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(arg, depth + 1) for arg in args]}
        if annotation in LISTS or origin in LISTS:
            schema: dict[str, Any] = {"type": "array"}
            if args:
                schema["items"] = self.of(args[0], depth + 1)
            if LISTS[origin or annotation] in (set, frozenset):
                schema["uniqueItems"] = True
            return schema
        if annotation is tuple or origin is tuple:
            return self._tuple(args, depth)
        if annotation in DICTS or origin in DICTS:
            return self._dict(args, depth)
        if isinstance(annotation, type):
            return self._class(annotation, depth)
        if isinstance(annotation, typing.TypeVar):
            raise NotExpressible(f"the type variable {annotation}: write the type itself")
        raise NotExpressible(f"the type {name_of(annotation)}")

    def _tuple(self, args: tuple[Any, ...], depth: int) -> dict[str, Any]:
        if not args:
            return {"type": "array"}
        if len(args) == 2 and args[1] is ...:
            return {"type": "array", "items": self.of(args[0], depth + 1)}
        items = [self.of(arg, depth + 1) for arg in args if arg != ()]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _dict(self, args: tuple[Any, ...], depth: int) -> dict[str, Any]:
        if not args:
            return {"type": "object"}
        key, _ = _bare(args[0])
        is_text = (
            key is Any
            or typing.get_origin(key) is typing.Literal
            or (isinstance(key, type) and issubclass(key, str | enum.Enum))
        )
        if not is_text:
            raise NotExpressible(f"a dict with keys of type {name_of(key)}: JSON has only text for keys")
        schema: dict[str, Any] = {
            "type": "object",
            "additionalProperties": self.of(args[1], depth + 1) if len(args) > 1 else {},
        }
        if key is not Any and key is not str:
            schema["propertyNames"] = self.of(args[0], depth + 1)
        return schema

    def _class(self, kind: Any, depth: int) -> dict[str, Any]:
        if issubclass(kind, enum.Enum):
            values = [member.value for member in kind]
            if not values or not all(value is None or isinstance(value, str | int | float | bool) for value in values):
                raise NotExpressible(f"the Enum {kind.__name__}: its values must be text or numbers")
            return self._defined(kind, lambda: {"enum": values})
        if typing.is_typeddict(kind):
            return self._defined(kind, lambda: self._typed_dict(kind, depth))
        if dataclasses.is_dataclass(kind):
            return self._defined(kind, lambda: self._dataclass(kind, depth))
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._tuple(
                tuple(typing.get_type_hints(kind, include_extras=True).get(name, Any) for name in kind._fields), depth
            )
        for plain in (bool, int, float, str):
            if issubclass(kind, plain):
                return dict(PLAIN[plain])
        raise NotExpressible(f"the class {kind.__name__}: use a TypedDict or a dataclass")

    def _defined(self, kind: Any, make: Any) -> dict[str, Any]:
        """A reference to the definition of a class; made once, so that classes may refer to themselves."""
        if kind not in self._names:
            name, number = kind.__name__, 2
            while name in self.definitions:
                name, number = f"{kind.__name__}{number}", number + 1
            self._names[kind] = name
            self.definitions[name] = {}
            made = make()
            own = kind.__dict__.get("__doc__")
            if own and not own.startswith(f"{kind.__name__}(") and own != enum.Enum.__doc__:
                made = {**made, "description": own.strip()[:500]}
            self.definitions[name].update(made)
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _typed_dict(self, kind: Any, depth: int) -> dict[str, Any]:
        hints = typing.get_type_hints(kind, include_extras=True)
        return self._object(hints, kind.__required_keys__, f"{kind.__name__}.", depth)

    def _dataclass(self, kind: Any, depth: int) -> dict[str, Any]:
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = [field for field in dataclasses.fields(kind) if field.init]
        needed = {
            f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        }
        return self._object({field.name: hints[field.name] for field in fields}, needed, f"{kind.__name__}.", depth)

    def _object(self, hints: dict[str, Any], required: Any, where: str, depth: int) -> dict[str, Any]:
        properties = {}
        for name, hint in hints.items():
            try:
                properties[name] = self.of(hint, depth + 1)
            except NotExpressible as error:
                raise NotExpressible(f"{where}{name}: {error}") from None
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if needed := [name for name in hints if name in required]:
            schema["required"] = needed
        return schema


def _duration(text: str) -> datetime.timedelta:
    sign = -1 if text.startswith("-") else 1
    date, _, time = text.lstrip("+-").removeprefix("P").partition("T")
    total, number = 0.0, ""
    for part, units in ((date, {"W": 604800, "D": 86400}), (time, {"H": 3600, "M": 60, "S": 1})):
        for letter in part:
            if letter in units:
                total += float(number) * units[letter]
                number = ""
            else:
                number += letter
    if number:
        raise ValueError(f"not a duration: {text!r}")
    return datetime.timedelta(seconds=sign * total)


_FROM_TEXT: dict[Any, Any] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    datetime.timedelta: _duration,
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: uuid.UUID,
    bytes: str.encode,
}
_AS_IS = {str, int, bool, type(None), None, Any, object, list, dict}


def build(annotation: Any, value: Any, path: str) -> Any:
    """The value of that type that *value*, which came as JSON and fits the type's schema, stands for."""
    annotation, _ = _bare(annotation)
    try:
        if annotation is bytes and isinstance(value, bytes):
            return value
        if annotation in _AS_IS and not (annotation is int and value.__class__ is float):
            return value
        if annotation is int and value.__class__ is float and value.is_integer():
            return int(value)  # 2.0 is an integer to JSON Schema
        if annotation is float:
            return float(value) if isinstance(value, int) else value
        if annotation in _FROM_TEXT:
            return _FROM_TEXT[annotation](value)
    except TypeError:
        if isinstance(annotation, type):
            raise ValueError(f"{path}: not a {name_of(annotation)}") from None
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"{path}: {error or 'not a ' + name_of(annotation)}") from None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _one_of(args, value, path)
    if origin is typing.Literal:
        if value not in args:
            raise ValueError(f"{path}: {value!r} is not one of {', '.join(map(repr, args))}")
        return value
    if annotation in LISTS or origin in LISTS:
        item = args[0] if args else Any
        return LISTS[origin or annotation](
            build(item, part, f"{path}[{index}]") for index, part in enumerate(_list(value, path))
        )
    if annotation is tuple or origin is tuple:
        return _build_tuple(args, value, path)
    if annotation in DICTS or origin in DICTS:
        of_key, of_value = args if len(args) == 2 else (str, Any)
        made = {
            build(of_key, key, path): build(of_value, part, f"{path}[{key!r}]")
            for key, part in _dict(value, path).items()
        }
        return made if (origin or annotation) not in (collections.OrderedDict,) else collections.OrderedDict(made)
    return _build_class(annotation, value, path)


def _list(value: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{path}: a list is needed")
    return value


def _dict(value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: an object is needed")
    return value


def _build_tuple(args: tuple[Any, ...], value: Any, path: str) -> Any:
    value = _list(value, path)
    if not args:
        return tuple(value)
    kinds = [args[0]] * len(value) if len(args) == 2 and args[1] is ... else list(args)
    if len(kinds) != len(value):
        raise ValueError(f"{path}: {len(kinds)} values are needed")
    return tuple(
        build(kind, part, f"{path}[{index}]") for index, (kind, part) in enumerate(zip(kinds, value, strict=True))
    )


def _build_class(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(kind, type):
        return value
    if issubclass(kind, enum.Enum):
        return kind(value)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {key: build(hints.get(key, Any), part, f"{path}.{key}") for key, part in _dict(value, path).items()}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        made: Any = kind
        return made(
            **{key: build(hints.get(key, Any), part, f"{path}.{key}") for key, part in _dict(value, path).items()}
        )
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields: Any = kind._fields
        parts = zip(fields, _list(value, path), strict=True)
        named: Any = kind
        return named(*(build(hints.get(name, Any), part, f"{path}.{name}") for name, part in parts))
    plain: Any = kind
    return plain(value)


def _fits(annotation: Any, value: Any) -> bool:
    """Whether JSON of that kind is what the type is written as; enough to choose between the members of a union."""
    annotation, _ = _bare(annotation)
    kind = typing.get_origin(annotation) or annotation
    if kind in (Any, object):
        return True
    if kind in (None, type(None)):
        return value is None
    if kind is typing.Literal:
        return any(value == arg and type(value) is type(arg) for arg in typing.get_args(annotation))
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int)
    if kind is float:
        return isinstance(value, int | float)
    if kind is str or kind in _FROM_TEXT:
        return isinstance(value, str) or (kind is bytes and isinstance(value, bytes))
    if kind in DICTS or typing.is_typeddict(kind):
        return isinstance(value, dict)
    if kind in LISTS or kind is tuple:
        return isinstance(value, list)
    return True


def _one_of(args: tuple[Any, ...], value: Any, path: str) -> Any:
    problems = []
    for arg in sorted(args, key=lambda arg: _bare(arg)[0] is str):  # text fits most: a date is tried before it
        if _fits(arg, value):
            try:
                return build(arg, value, path)
            except (ValueError, TypeError, KeyError) as error:
                problems.append(str(error))
    raise ValueError(problems[0] if problems else f"{path}: none of the types fits")


def build_arguments(function: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a call of *function* from JSON."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: build(hints.get(name, Any), value, name) for name, value in inputs.items()}
