"""The language policy: RestrictedPython's transformer, subclassed to check and never to change the code.

It refuses, before anything runs, code that reaches for the interpreter instead of the task. It is the whitelisted
surface, not the wall: the wall is WebAssembly.
"""

import ast
import builtins
import difflib
import functools
import re
import sys
from collections.abc import Iterator
from typing import Any

from guest import surface
from RestrictedPython.transformer import RestrictingNodeTransformer

FORMAT_FIELD = re.compile(r"\{[^{}]*[.\[][^{}]*\}")
WORD = re.compile(r"\w+")
HOME = "/home/guest"  # what the run's own folder is called, where an absolute name is needed
_CATCHES_IMPORT = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
DYNAMIC_ACCESS = frozenset(("getattr", "setattr", "delattr", "hasattr"))


class Refused(Exception):
    """Raised for code that the policy refuses: what, where, and what to write instead."""

    def __init__(self, message: str, hint: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.line = line
        self.column = column


class RefusedImport(Refused, ImportError):
    """A refused import, met while the code runs: code that can do without the module may catch it as ImportError."""


class RefusedAttribute(Refused, AttributeError):
    """A refused part of sys or os, met while the code runs: code that can do without it may catch it."""


for _class in (Refused, RefusedImport, RefusedAttribute):
    _class.__module__ = "builtins"
    _class.__qualname__ = _class.__name__ = "PolicyRefusal"


def importable() -> list[str]:
    """The top-level modules that guest code may import."""
    names = {name for name in sys.modules if "." not in name and not name.startswith("_")}
    return [*sorted(name for name in names if surface.refused_module(name) is None), "__future__"]


def why_not_import(name: str, *, private: bool = False) -> tuple[str, str] | None:
    """The refusal for importing *name*, as (message, hint), or None when it may be imported.

    The library itself imports private modules of its own (`private`), also while guest code runs.
    """
    reason = surface.refused_module(name) or surface.missing_module(name)
    if reason is None and name in sys.modules and name != "__main__":
        if private or not name.startswith("_") or name == "__future__":
            return None
        reason = "it is a private module"
    if reason is not None:
        return f"module {name!r} is not available in the sandbox", reason
    if name == "__main__":
        return "module '__main__' is not available in the sandbox", "use the names directly"
    top = name.partition(".")[0]
    known = importable()
    if top in known and name != top:
        return f"module {name!r} does not exist in the sandbox's image", f"{top!r} itself can be imported"
    near = difflib.get_close_matches(top, known, 3, 0.75)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "the Python standard library can be imported, pure-Python packages when `.go-ent/config.toml` names them"
    )
    return f"module {name!r} is not in the sandbox's image", hint


class Policy(RestrictingNodeTransformer):
    """One walk over the tree; the first refusal ends it.

    Only node types that can carry a forbidden name are looked at, and the walk is a loop, not a recursion:
    the everyday program pays little, and a deeply nested one can't overflow it.
    """

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(errors=[], warnings=[], used_names={})
        self.modules: dict[str, str] = {}
        self.own = _OwnNames(tree)
        self.optional: set[int] = set()
        self.texts: dict[str, ast.Constant] = {}  # names that were given a literal, such as a template

    def check(self, tree: ast.AST) -> None:
        table = _TABLE
        stack: list[Any] = [tree]
        pop = stack.pop
        while stack:
            node = pop()
            kind = node.__class__
            found = table.get(kind)
            if found is None:
                found = table[kind] = _HANDLERS.get(kind), _child_fields(kind)
            handler, fields = found
            if handler is not None and handler(self, node):
                continue
            for name in fields:
                value = getattr(node, name)
                if value.__class__ is list:
                    stack += value[::-1]
                else:
                    stack.append(value)

    def error(self, node: ast.AST, info: str, hint: str = "") -> None:
        """RestrictedPython's own way to report, made immediate."""
        raise Refused(info, hint, getattr(node, "lineno", None), getattr(node, "col_offset", -1) + 1 or None)

    def refuse_import(self, node: ast.AST, name: str) -> None:
        refusal = why_not_import(name)
        # A module that is merely missing may be asked for by code that can do without it.
        if refusal is not None and not (id(node) in self.optional and surface.refused_module(name) is None):
            self.error(node, *refusal)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.refuse_import(node, alias.name)
            top = alias.name.partition(".")[0]
            self.modules[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.error(
                node,
                "relative imports are not available in the sandbox",
                "the code is one file: there is no package around it",
            )
        module = node.module or ""
        self.refuse_import(node, module)
        for alias in node.names:
            self.member(node, module, alias.name)
            if f"{module}.{alias.name}" in sys.modules:
                self.modules[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            if any(kind is None or (isinstance(kind, ast.Name) and kind.id in _CATCHES_IMPORT) for kind in kinds):
                self.optional.update(id(inner) for inner in node.body)

    def visit_If(self, node: ast.If) -> Any:
        """Imports for the type checker alone are never made."""
        test = node.test
        name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
        if name == "TYPE_CHECKING" and all(
            isinstance(inner, ast.Import | ast.ImportFrom | ast.Pass) for inner in node.body
        ):
            self.check(ast.Module(node.orelse, []))
            return True
        return False

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Constant):
            self.texts.update((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
            return
        module = self.module_of(node.value)
        if module is not None:
            self.modules.update((target.id, module) for target in node.targets if isinstance(target, ast.Name))

    def shadowed(self, node: ast.AST) -> bool:
        """Whether the name at the root of `a.b.c` may hold something else than a module; looked into only when it
        matters.
        """
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.own.shadows

    def module_of(self, node: ast.AST) -> str | None:
        """The module that an expression is, as far as that can be read: `logging`, `os.path`, or a name given to
        one.
        """
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self.module_of(node.value)
            if outer is not None:
                value = getattr(sys.modules.get(outer), node.attr, None)
                if value.__class__ is _Module:
                    return str(value.__name__)
        return None

    def member(self, node: ast.AST, module: str, name: str) -> None:
        """`module.name`, where module is known to be a module of that name."""
        allowed = surface.PARTIAL_MODULES.get(module)
        if allowed is not None and name != "__dict__":
            missing = name not in allowed and name != "*"
            if missing and (name in surface.REFUSED_MEMBERS[module] or isinstance(node, ast.ImportFrom)):
                self.error(node, f"{module}.{name} is not available in the sandbox", partial_hint(module, name))
            return
        if surface.refused_attribute(name) or name == "__dict__":
            self.refuse_attribute(node, name)
        value = getattr(sys.modules.get(module), name, None)
        if value.__class__ is _Module:
            inner = value.__name__
            if inner in surface.PARTIAL_MODULES:
                self.error(node, f"module {inner!r} is not available through {module}.{name}", f"write: import {inner}")
            reason = surface.refused_module(inner)
            if reason is not None:
                self.error(node, f"module {inner!r} is not available in the sandbox", reason)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        module = self.module_of(node.value)
        if module is not None:
            try:
                self.member(node, module, name)
            except Refused:
                if not self.shadowed(node):
                    raise
        elif (
            name == "__self__"
            and isinstance(node.value, ast.Name)
            and hasattr(builtins, node.value.id)
            and node.value.id not in self.own
        ):
            self.refuse_attribute(node, name)  # a builtin function's is the module of all builtins
        elif surface.refused_attribute(name) or (name in surface.MODULE_ATTRIBUTES and name not in self.own.attributes):
            self.refuse_attribute(node, name)

    def refuse_attribute(self, node: ast.AST, name: str) -> None:
        self.error(
            node,
            f"attribute {name!r} is not available in the sandbox",
            "it belongs to the interpreter's internals; use the object's ordinary methods",
        )

    def visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if name in surface.REFUSED_NAMES:
            if node.ctx.__class__ is ast.Load and name not in self.own:
                self.error(node, f"{name!r} is not available in the sandbox", surface.REFUSED_NAMES[name])
        elif name[:2] == "__" and node.ctx.__class__ is ast.Load and surface.refused_attribute(name):
            self.error(node, f"{name!r} is not available in the sandbox", "it belongs to the interpreter's internals")

    def visit_Call(self, node: ast.Call) -> None:
        function, args = node.func, node.args
        if function.__class__ is ast.Attribute:
            if function.attr in ("format", "format_map"):
                template = self.texts.get(function.value.id) if isinstance(function.value, ast.Name) else function.value
                if isinstance(template, ast.Constant):
                    self.check_format(template)
            elif function.attr == "__getattribute__":
                for wanted in args:
                    self.check_name_constant(wanted)
        elif function.__class__ is ast.Name and args:
            if function.id in DYNAMIC_ACCESS and len(args) > 1:
                self.check_name_constant(args[1])
            elif function.id == "open" and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
                outside = outside_folder(args[0].value)
                if outside is not None:
                    self.error(args[0], *outside)

    def check_name_constant(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and surface.refused_attribute(node.value):
            self.refuse_attribute(node, node.value)

    def check_format(self, node: ast.Constant) -> None:
        """`"{0.__globals__}".format(…)` reads attributes too."""
        if isinstance(node.value, str):
            for field in FORMAT_FIELD.findall(node.value):
                for part in WORD.findall(field):
                    if surface.refused_attribute(part):
                        self.refuse_attribute(node, part)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if surface.refused_attribute(name):
                self.refuse_attribute(node, name)


_Module = type(sys)


def inside_folder(path: str, cwd: str = "") -> str | None:
    """The folder-relative form of a path ('' is the folder itself), or None for one that leads outside."""
    if path == HOME or path.startswith(f"{HOME}/"):
        path, cwd = path[len(HOME) :], ""
    elif path.startswith("/"):
        return None
    parts = [part for part in cwd.split("/") if part]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return None if "\x00" in path else "/".join(parts)


def outside_folder(path: str, cwd: str = "") -> tuple[str, str] | None:
    """The refusal for a path that is not inside the run's own folder, or None."""
    if path != "/dev/null" and inside_folder(path, cwd) is None:
        return (
            f"open of {path!r} is refused: only the run's own files can be opened",
            "use a relative name; pass files with files={…}",
        )
    return None


def partial_hint(module: str, name: str) -> str:
    allowed = surface.PARTIAL_MODULES[module]
    near = difflib.get_close_matches(name, allowed, 2)
    offered = ", ".join(sorted(word for word in allowed if not word.startswith("_")))
    return (f"did you mean {' or '.join(near)}? " if near else "") + f"offered of {module}: {offered}"


# Fields that hold no code: names and numbers (looked at by the handlers), contexts and operators.
_LEAVES = frozenset(
    "ctx op ops id attr arg name names module level kind type_comment type_ignores rest kwd_attrs "
    "conversion simple is_async str tag".split()
)


def _child_fields(kind: Any) -> tuple[str, ...]:
    if kind is ast.Constant or not issubclass(kind, ast.AST):  # also None, and the value of `case True:`
        return ()
    return tuple(field for field in kind._fields if field not in _LEAVES or (field == "name" and kind is _TYPE_ALIAS))


_TYPE_ALIAS = ast.TypeAlias
_HANDLERS: dict[type, Any] = {
    ast.Import: Policy.visit_Import,
    ast.ImportFrom: Policy.visit_ImportFrom,
    ast.Attribute: Policy.visit_Attribute,
    ast.Name: Policy.visit_Name,
    ast.Call: Policy.visit_Call,
    ast.Assign: Policy.visit_Assign,
    ast.If: Policy.visit_If,
    ast.Try: Policy.visit_Try,
    ast.TryStar: Policy.visit_Try,
    ast.MatchClass: Policy.visit_MatchClass,
}
_TABLE: dict[type, tuple[Any, tuple[str, ...]]] = {}


class _OwnNames:
    """What the code itself defines; looked up only by code that uses a name in question, and then found once."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def __contains__(self, name: str) -> bool:
        """Whether it binds *name* in any way: `def vars(…)`, `input = …`, a parameter called `compile`."""
        return name in self.bound

    @functools.cached_property
    def bound(self) -> set[str]:
        own = set(self.shadows)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                own.add(node.id)
            elif isinstance(node, ast.alias):
                own.add((node.asname or node.name).partition(".")[0])
        return own - {"__builtins__", "__import__"}

    @functools.cached_property
    def shadows(self) -> set[str]:
        """Names that may hold something else than the module of that name: parameters, functions, computed values."""
        own: set[str] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Name | ast.Attribute):
                own.update(name for target in node.targets for name in _bound_by(target))
            elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                own.update(_bound_by(node.target))
        return own

    @functools.cached_property
    def attributes(self) -> set[str]:
        """Attributes that it sets, or names in a class or as a keyword."""
        own = {
            node.attr
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        own |= {node.arg for node in ast.walk(self._tree) if isinstance(node, ast.keyword) and node.arg}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ClassDef):
                own |= {name.id for item in node.body for name in ast.walk(item) if isinstance(name, ast.Name)}
        return own


def _bound_by(target: ast.expr) -> Iterator[str]:
    """The names that assigning to *target* binds: of `a[0], b.c, d = …` that is d alone."""
    return (name.id for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))


def check(tree: ast.Module) -> None:
    """Raise `Refused` if the policy refuses the code."""
    Policy(tree).check(tree)


# Each name in a source, with the dot before it if it is an attribute; those in texts and comments too.
_WORDS = re.compile(r"\.?[A-Za-z_]\w*", re.ASCII)
_MODULE = r"\w+(?:\.\w+)*"
_NAMED = rf"{_MODULE}(?: as \w+)?"
_IMPORTS = re.compile(
    rf"^[ \t]*(?:from ({_MODULE}) import(?= )|import ({_NAMED}(?:, *{_NAMED})*)[ \t]*(?:#.*)?$)",
    re.ASCII | re.MULTILINE,
)


@functools.cache
def _suspects() -> frozenset[str]:
    """Words without which no rule above can refuse anything, but for imports of other modules."""
    names = {*surface.REFUSED_NAMES, *DYNAMIC_ACCESS, "open"}
    both = {"format", "format_map", "__dict__", "__self__", "__getattribute__", *surface.PARTIAL_MODULES}
    both |= surface.INTERNAL_ATTRIBUTES | surface.INTERPRETER_DUNDERS | surface.MODULE_ATTRIBUTES
    # Of modules that are refused themselves, nothing is reached.
    holders = [module for name, module in list(sys.modules.items()) if not _is_refused(name)]
    held = [pair for module in holders for pair in getattr(module, "__dict__", {}).items()]
    both |= {name for name, value in held if value.__class__ is _Module and _is_refused(value.__name__)}
    return frozenset((*names, *both, *(f".{name}" for name in both), ".import"))


def _is_refused(module: str) -> bool:
    return module in surface.PARTIAL_MODULES or surface.refused_module(module) is not None


@functools.lru_cache(1000)
def _may_import(module: str) -> bool:
    return why_not_import(module) is None


def is_harmless(source: str) -> bool:
    """Whether `check` would surely accept the code, told by its words alone. It need not say so of all such code.

    A name that is not written in ASCII may be another way to write one that is.
    """
    words = _WORDS.findall(source)
    if not source.isascii() or not _suspects().isdisjoint(words):
        return False
    imports = _IMPORTS.findall(source)
    modules = [name.split()[0] for one, several in imports for name in (one or several).split(",")]
    return words.count("import") == len(imports) and all(map(_may_import, modules))
