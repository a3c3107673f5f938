"""The templates: those of the package, and a trusted project's own in their place.

They run in Jinja's sandbox, on plain data. What a template may do is bounded: how large it is, how much it writes, how
often it goes round a loop. That holds against mistakes; people whom a project trusts with its templates may also name
programs to start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import (
    FunctionLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from go_ent.composer.project.files import STATE, read_bounded
from go_ent.composer.project.items import reason
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts.files import inside

FOLDER = Path(STATE) / "prompts"
MAX_BYTES = 64 << 10
MAX_ROUNDS = 20_000
FILTERS = (
    "abs capitalize count d default dictsort first int items last length list lower map max min reject "
    "rejectattr reverse "
    "select selectattr sort title trim truncate unique upper wordcount"
).split()
METHODS = frozenset(
    "changed cycle endswith get items keys lower lstrip rstrip split "
    "splitlines startswith strip title upper values".split()
)
NEVER = frozenset({"*", "**", "%"})


@dataclass(slots=True)
class _Allowance:
    """What one rendering may still do."""

    characters: int
    rounds: int = MAX_ROUNDS


_ALLOWANCE: ContextVar[_Allowance] = ContextVar("_ALLOWANCE")


class Templates:
    """Renders templates by name. An override that changes is read again."""

    def __init__(self, project: Path, *, trusted: bool) -> None:
        self.folder = project / FOLDER
        self.trusted = trusted
        self._environment = _Sandbox(
            loader=FunctionLoader(self._load),
            undefined=StrictUndefined,
            finalize=_plain,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )

    def render(self, name: str, data: Mapping[str, Any], *, characters: int) -> str:
        """The text of a template, at most *characters* of it. `BadTask` has the file and the line of what is wrong."""
        token = _ALLOWANCE.set(_Allowance(characters))
        try:
            return self._environment.get_template(name).render(data)
        except BadTask:
            raise
        except TemplateSyntaxError as error:
            raise BadTask(f"{error.filename or error.name}, line {error.lineno}: {error.message}") from None
        except TemplateNotFound as error:
            raise BadTask(
                f"{self._where(error, name)}: there is no template {error.name}; there are: {', '.join(names())}"
            ) from None
        except RecursionError as error:
            raise BadTask(f"{self._where(error, name)}: it goes on into itself without an end") from None
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise BadTask(f"{self._where(error, name)}: {error}") from None
        finally:
            _ALLOWANCE.reset(token)

    def notes(self) -> list[str]:
        """Files in the project's folder that are not used, and why."""
        try:
            found = sorted(entry.name for entry in os.scandir(self.folder) if entry.name.endswith(".j2"))
        except OSError:
            return []
        if found and not self.trusted:
            return [f"{FOLDER}: not used, the project is not trusted"]
        return [
            f"{FOLDER / name}: not used, the templates are {', '.join(names())}"
            for name in found
            if name not in names()
        ]

    def check(self) -> list[str]:
        """What is wrong with the project's own templates, as far as can be seen without data."""
        found = []
        token = _ALLOWANCE.set(_Allowance(0))
        try:
            for name in names():
                try:
                    self._environment.get_template(name)
                except BadTask as error:
                    found.append(str(error))
                except TemplateSyntaxError as error:
                    found.append(f"{error.filename or error.name}, line {error.lineno}: {error.message}")
                except RecursionError:
                    found.append(f"{FOLDER / name}: it is nested too deeply")
                except Exception as error:
                    found.append(f"{FOLDER / name}: {reason(error, name)}")
        finally:
            _ALLOWANCE.reset(token)
        return found

    def _load(self, name: str) -> tuple[str, str, Callable[[], bool]] | None:
        if name not in names():
            return None
        path = self.folder / name
        stamp = _stamp(path) if self.trusted else None
        if stamp is None:
            text, shown = names()[name], f"the built-in {name}"
        else:
            text, shown = self._read(path), str(FOLDER / name)
        return text, shown, lambda: not self.trusted or _stamp(path) == stamp

    def _read(self, path: Path) -> str:
        shown = FOLDER / path.name
        if not inside(self.folder, self.folder.parents[1]):
            raise BadTask(f"{FOLDER}: it is a link that leads out of the project")
        try:
            data = read_bounded(path, MAX_BYTES)
        except OSError as error:
            why = "a template is an ordinary file, not a link" if path.is_symlink() else error.strerror or error
            raise BadTask(f"{shown}: it can't be read: {why}") from None
        if len(data) > MAX_BYTES:
            raise BadTask(f"{shown}: it is larger than {MAX_BYTES} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadTask(f"{shown}: it is not UTF-8: {error.reason} at byte {error.start}") from None

    def _where(self, error: BaseException, name: str) -> str:
        """The template and the line an error came from: Jinja gives each template's frame its file's name."""
        files = {str(FOLDER / one) for one in names()} | {f"the built-in {one}" for one in names()}
        where, trace = name, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename in files:
                where = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
            trace = trace.tb_next
        return where


@cache
def names() -> Mapping[str, str]:
    """The templates of the package, by name."""
    files = [
        file
        for file in resources.files("go_ent.engine.prompts").joinpath("templates").iterdir()
        if file.name.endswith(".j2")
    ]
    return {file.name: file.read_text("utf-8") for file in sorted(files, key=lambda file: file.name)}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadTask(f"{FOLDER / path.name}: it can't be read: {error.strerror}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, StrictUndefined):
        return str(value)  # raises, with the name that is not there
    raise SecurityError(f"a template writes texts and numbers, this is a {type(value).__name__}: use join or tojson")


def _concat(parts: Iterable[Any]) -> str:
    """Every text that a template makes goes through here: its output, and what a macro or a block gives."""
    found, left = [], _ALLOWANCE.get().characters
    for part in parts:
        text = str(_plain(part))
        left -= len(text)
        if left < 0:
            raise SecurityError(f"it writes more than {_ALLOWANCE.get().characters} characters")
        found.append(text)
    return "".join(found)


def _join(values: Iterable[Any], between: str = "") -> str:
    return _concat(part for at, value in enumerate(values) for part in ((between, value) if at else (value,)))


def _tojson(value: Any) -> str:
    return _concat(json.JSONEncoder(ensure_ascii=False, indent=2, default=str).iterencode(value))


def _rounds(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _one_more()
        yield value


def _one_more() -> None:
    allowance = _ALLOWANCE.get()
    allowance.rounds -= 1
    if allowance.rounds < 0:
        raise SecurityError(f"its loops, calls and includes are more than {MAX_ROUNDS}")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a smaller language: no filter, method or operator by which a short template makes a huge
    text.
    """

    intercepted_binops = NEVER | {"+"}
    concat = staticmethod(_concat)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.globals = {"range": self.globals["range"]}
        self.filters = {name: self.filters[name] for name in FILTERS}
        self.filters |= {"join": _join, "concat": _concat, "tojson": _tojson, "rounds": _rounds}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator in NEVER:
            raise SecurityError(f"a template can't use {operator}")
        if isinstance(left, str) and isinstance(right, str):
            return _concat((left, right))
        if isinstance(left, int | float) and isinstance(right, int | float):
            return left + right
        raise SecurityError(f"a template can't add a {type(left).__name__} and a {type(right).__name__}")

    def is_safe_callable(self, obj: Any) -> bool:
        known = isinstance(obj, Macro | LoopContext | BlockReference) or obj is self.globals["range"]
        return known or getattr(obj, "__name__", "") in METHODS

    def call(self, context: Context, obj: Any, /, *arguments: Any, **named: Any) -> Any:
        _one_more()
        return super().call(context, obj, *arguments, **named)

    def get_template(self, name: str | Template, parent: str | None = None, globals: Any = None) -> Template:
        _one_more()
        return super().get_template(name, parent, globals)

    def _generate(self, source: nodes.Template, *arguments: Any, **options: Any) -> str:
        """Jinja's hook before a template becomes code: its loops are counted, and its `~` is bounded."""
        for loop in source.find_all(nodes.For):
            loop.iter = self._filtered(loop.iter, "rounds")
        for joined in [*source.find_all(nodes.Concat)]:
            joined.nodes = [self._filtered(nodes.List(joined.nodes, lineno=joined.lineno), "concat")]
        return super()._generate(source, *arguments, **options)

    def _filtered(self, node: nodes.Node, name: str) -> nodes.Expr:
        made = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
        made.set_environment(self)
        return made
