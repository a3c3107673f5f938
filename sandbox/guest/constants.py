"""Code that ran as a function: its inputs, and the constants that somebody names, are its parameters."""

import ast
import keyword
from typing import Any

from guest.shape import KEPT, Parameter, function_source, type_of

MOST_TOLD = 10
MAX_SHOWN = 40
LITERALS = (ast.Constant, ast.UnaryOp, ast.List, ast.Dict, ast.Tuple, ast.Set)
MISSING = object()  # a constant that is named by what it is assigned or passed to, and not by its value


class Wrong(Exception):
    """Raised when a constant is not found, or not only once."""


class Place:
    """A literal in the code: what it is, where it stands, and what it is called there."""

    def __init__(self, node: ast.expr, value: Any, called: str | None) -> None:
        self.node, self.value, self.called, self.line = node, value, called, node.lineno

    def __str__(self) -> str:
        shown = repr(self.value)
        return f"{shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '…'} (line {self.line})"


def as_tool(run: dict[str, Any], constants: dict[str, Any], unvalued: list[str], name: str, doc: str) -> dict[str, Any]:
    """The source of a tool that does what *run* (`{"source", "inputs", "result"}`) did, and the inputs of its example.

    The values of constants, as they stood in the code, are the defaults of their parameters.

    *constants* are values by `name` or `name:line`; *unvalued* are names of constants that the code calls so itself.
    """
    source, inputs = run["source"], run["inputs"]
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree: Any = compile(source, "<run>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"problems": [f"its code can't be read: {error}"]}
    if not tree.body:
        return {"problems": ["it has no code"]}
    problems: list[str] = []
    chosen: dict[str, Place] = {}
    places = _Places(tree).found
    for asked, value in [*constants.items(), *((one, MISSING) for one in unvalued)]:
        try:
            parameter, place = _find(asked, value, places, tree, {*inputs, *chosen})
            chosen[parameter] = place
        except Wrong as error:
            problems.append(str(error))
    if problems:
        return {"problems": problems}
    _replace(tree, chosen)
    # A parameter without a default can't stand after one that has it, and a set or a tuple is no JSON value.
    chosen = dict(sorted(chosen.items(), key=lambda item: _is_json(item[1].value)))
    parameters: dict[str, Parameter] = {each: (type_of([value]), None) for each, value in inputs.items()}
    for each, place in chosen.items():
        parameters[each] = (type_of([place.value]), place.node if _is_json(place.value) else None)
    given = dict(inputs) | {each: place.value for each, place in chosen.items()}
    return {"source": function_source(name, doc, parameters, tree.body, [run.get("result")]), "inputs": given}


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return all(map(_is_json, value)) if isinstance(value, list) else isinstance(value, str | int | float | None)


class _Places(ast.NodeVisitor):
    """The literals that a name can stand for, the outermost first: not the fixed parts of f-strings, nor patterns."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[Place] = []
        self._called: str | None = None
        first = tree.body[0] if ast.get_docstring(tree) is not None else None
        self._doc = first.value if isinstance(first, ast.Expr) else None
        self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.pattern) or node is self._doc:
            return
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self.visit(part.value)
            return
        if isinstance(node, LITERALS) and self._is_literal(node):
            return
        for field, value in ast.iter_fields(node):
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, ast.AST):
                    before, self._called = self._called, _called(node, field)
                    self.visit(inner)
                    self._called = before

    def _is_literal(self, node: ast.expr) -> bool:
        """Whether it is one that has no others in it."""
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError):
            return False
        if isinstance(value, str | int | float | list | dict | tuple | set):
            self.found.append(Place(node, value, self._called))
        return isinstance(node, ast.Constant | ast.UnaryOp)


def _called(node: ast.AST, field: str) -> str | None:
    if isinstance(node, ast.keyword):
        return node.arg
    if field == "value" and isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        target = node.target if isinstance(node, ast.AnnAssign) else target
        return target.id if isinstance(target, ast.Name) else None
    return None


def _find(asked: str, value: Any, places: list[Place], tree: ast.Module, taken: set[str]) -> tuple[str, Place]:
    name, _, line = asked.partition(":")
    if not name.isidentifier() or keyword.iskeyword(name) or name in KEPT or name.startswith("_"):
        raise Wrong(f"{name!r} can't be the name of a parameter")
    if name in taken:
        raise Wrong(f"{name} is a parameter already")
    if line and not line.isdecimal():
        raise Wrong(f"{asked!r}: after the colon stands the number of a line")
    fitting = [place for place in places if _same(place.value, value) and line in ("", str(place.line))]
    called = [place for place in fitting if place.called == name]
    if value is MISSING or len(called) == 1:
        fitting = called
    if len(fitting) != 1:
        raise Wrong(_told(name, value, fitting, places))
    own = _assignment(tree, fitting[0]) is not None and fitting[0].called == name
    if (line_of := _bound(tree).get(name)) is not None and not own:
        raise Wrong(f"{name} is a name of the code already (line {line_of}): choose another")
    return name, fitting[0]


def _bound(tree: ast.Module) -> dict[str, int]:
    """The names that the code gives to something, and the first line that does."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        name = None
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
            name = node.name
        elif isinstance(node, ast.alias):
            name = (node.asname or node.name).partition(".")[0]
        if name is not None and isinstance(node, ast.expr | ast.arg | ast.stmt | ast.ExceptHandler | ast.alias):
            found.setdefault(name, node.lineno)
    return found


def _told(name: str, value: Any, fitting: list[Place], places: list[Place]) -> str:
    what = f"no literal is called {name}" if value is MISSING else f"the code has no literal {value!r:.60}"
    if not fitting:
        others = ", ".join(str(place) for place in places[:MOST_TOLD]) or "none"
        return f"{name}: {what}; it has {others}" + (" and more" if len(places) > MOST_TOLD else "")
    lines = [str(place.line) for place in fitting]
    where = f"{', '.join(lines[:-1])} and {lines[-1]}"
    if len(set(lines)) == 1:
        return (
            f"{name}: {fitting[0].value!r:.60} stands {len(lines)} times in line {lines[0]}: give it a name there first"
        )
    return f"{name}: {fitting[0].value!r:.60} stands in lines {where}: say which, as {name}:{lines[0]}"


def _same(one: Any, other: Any) -> bool:
    if other is MISSING:
        return True
    if isinstance(one, tuple | set):
        one = list(one)
    return type(one) is type(other) and bool(one == other)


def _assignment(tree: ast.Module, place: Place) -> ast.stmt | None:
    """The statement at the top level that only gives this literal its name."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is place.node:
            return statement
    return None


def _replace(tree: ast.Module, chosen: dict[str, Place]) -> None:
    """Put parameters where the literals stand; what only gives one its own name goes."""
    names = {id(place.node): name for name, place in chosen.items()}

    class Names(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if id(node) in names:
                return ast.copy_location(ast.Name(names[id(node)], ast.Load()), node)
            return self.generic_visit(node)

    for name, place in chosen.items():
        own = _assignment(tree, place)
        if own is not None and place.called == name:
            tree.body.remove(own)
    Names().visit(tree)
    ast.fix_missing_locations(tree)
