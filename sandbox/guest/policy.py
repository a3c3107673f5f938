"""The language policy: RestrictedPython's transformer, subclassed to check and never to change the code.

It refuses, before anything runs, code that reaches for the interpreter instead of the task. It is the whitelisted
surface, not the wall: the wall is WebAssembly.
"""

import ast
import difflib
import re
import sys
from typing import Any

from guest import surface
from RestrictedPython.transformer import RestrictingNodeTransformer

FORMAT_FIELD = re.compile(r"\{[^{}]*?[.\[]\s*(__\w+__|\w+)[^{}]*\}")
DYNAMIC_ACCESS = frozenset(("getattr", "setattr", "delattr", "hasattr"))


class Refused(Exception):
    """Raised for code that the policy refuses: what, where, and what to write instead."""

    def __init__(self, message: str, hint: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.line = line
        self.column = column


Refused.__module__ = "builtins"
Refused.__qualname__ = Refused.__name__ = "PolicyRefusal"


def importable() -> list[str]:
    """The top-level modules that guest code may import."""
    names = {name for name in sys.modules if "." not in name and not name.startswith("_")}
    return [*sorted(name for name in names if surface.refused_module(name) is None), "__future__"]


def why_not_import(name: str) -> tuple[str, str] | None:
    """The refusal for importing *name*, as (message, hint), or None when it may be imported."""
    reason = surface.refused_module(name)
    if reason is None and name in sys.modules and name != "__main__":
        if not name.startswith("_") or name in ("__future__", "_strptime"):
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
    near = difflib.get_close_matches(top, known, 3)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "the Python standard library can be imported, other packages only when baked into the image"
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

    def check(self, tree: ast.AST) -> None:
        handlers = _HANDLERS
        fields = _FIELDS
        stack: list[Any] = [tree]
        pop = stack.pop
        while stack:
            node = pop()
            kind = node.__class__
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, node)
            names = fields.get(kind)
            if names is None:
                names = fields[kind] = _child_fields(kind)
            for name in names:
                value = getattr(node, name, None)
                if value is None:
                    continue
                if value.__class__ is list:
                    for item in reversed(value):
                        if isinstance(item, ast.AST):
                            stack.append(item)
                else:
                    stack.append(value)

    def error(self, node: ast.AST, info: str, hint: str = "") -> None:
        """RestrictedPython's own way to report, made immediate."""
        raise Refused(info, hint, getattr(node, "lineno", None), getattr(node, "col_offset", -1) + 1 or None)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            refusal = why_not_import(alias.name)
            if refusal is not None:
                self.error(node, *refusal)
            self.modules[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.error(node, "relative imports are not available in the sandbox", "the code is one file: there is no package around it")
        module = node.module or ""
        refusal = why_not_import(module)
        if refusal is not None:
            self.error(node, *refusal)
        for alias in node.names:
            self.member(node, module, alias.name)
            inner = sys.modules.get(f"{module}.{alias.name}")
            if inner is not None:
                self.modules[alias.asname or alias.name] = f"{module}.{alias.name}"

    def member(self, node: ast.AST, module: str, name: str) -> None:
        """`module.name`, where module is known to be a module of that name."""
        allowed = surface.PARTIAL_MODULES.get(module)
        if allowed is not None:
            if name != "*" and name not in allowed:
                self.error(node, f"{module}.{name} is not available in the sandbox", _partial_hint(module, name, allowed))
            return
        if surface.refused_attribute(name):
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
        base = node.value
        if base.__class__ is ast.Name and base.id in self.modules:
            self.member(node, self.modules[base.id], name)
        elif surface.refused_attribute(name):
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
        elif name[:2] == "__" and surface.refused_attribute(name) and name not in self.own:
            self.error(node, f"{name!r} is not available in the sandbox", "it belongs to the interpreter's internals")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if function.__class__ is not ast.Name or not node.args:
            return
        if function.id in DYNAMIC_ACCESS and len(node.args) > 1:
            wanted = node.args[1]
            if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) and surface.refused_attribute(wanted.value):
                self.refuse_attribute(wanted, wanted.value)
        elif function.id == "open":
            path = node.args[0]
            if isinstance(path, ast.Constant) and isinstance(path.value, str):
                outside = outside_folder(path.value)
                if outside is not None:
                    self.error(path, *outside)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if value.__class__ is str and "{" in value and "}" in value and ("__" in value or "_" in value):
            for match in FORMAT_FIELD.finditer(value):
                for part in re.findall(r"\w+", match.group()):
                    if part in surface.INTERNAL_ATTRIBUTES or (part[:2] == "__" and surface.refused_attribute(part)):
                        self.refuse_attribute(node, part)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if surface.refused_attribute(name):
                self.refuse_attribute(node, name)


_Module = type(sys)


def outside_folder(path: str) -> tuple[str, str] | None:
    """The refusal for a path that is not inside the run's own folder, or None."""
    if path.startswith("/") or "\x00" in path or ".." in path.split("/"):
        return f"open of {path!r} is refused: only the run's own files can be opened", "use a relative name; pass files with files={…}"
    return None


def _partial_hint(module: str, name: str, allowed: frozenset[str]) -> str:
    near = difflib.get_close_matches(name, allowed, 2)
    offered = ", ".join(sorted(word for word in allowed if not word.startswith("_")))
    return (f"did you mean {' or '.join(near)}? " if near else "") + f"offered of {module}: {offered}"


# Fields that hold no code: names and numbers (looked at by the handlers), contexts and operators.
_LEAVES = frozenset(
    "ctx op ops id attr arg name names module level kind type_comment type_ignores rest kwd_attrs "
    "conversion simple is_async str tag".split()
)


def _child_fields(kind: Any) -> tuple[str, ...]:
    return (
        ()
        if kind is ast.Constant
        else tuple(field for field in kind._fields if field not in _LEAVES or (field == "name" and kind is _TYPE_ALIAS))
    )


_TYPE_ALIAS = ast.TypeAlias
_HANDLERS: dict[type, Any] = {
    ast.Import: Policy.visit_Import,
    ast.ImportFrom: Policy.visit_ImportFrom,
    ast.Attribute: Policy.visit_Attribute,
    ast.Name: Policy.visit_Name,
    ast.Call: Policy.visit_Call,
    ast.Constant: Policy.visit_Constant,
    ast.MatchClass: Policy.visit_MatchClass,
}
_FIELDS: dict[type, tuple[str, ...]] = {}


def _own_names(tree: ast.Module) -> set[str]:
    """Names that the code itself defines: `def vars(…)`, `input = …`, a parameter called `compile`."""
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            own.add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.alias):
            own.add((node.asname or node.name).partition(".")[0])
    return own & set(surface.REFUSED_NAMES) - {"__builtins__", "__import__"}


class _OwnNames:
    """`own` is needed only by code that uses a refused name: computed on the first look."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names: set[str] | None = None

    def __contains__(self, name: str) -> bool:
        if self.names is None:
            self.names = _own_names(self.tree)
        return name in self.names


def check(tree: ast.Module) -> None:
    """Raise `Refused` if the policy refuses the code."""
    Policy(tree).check(tree)
