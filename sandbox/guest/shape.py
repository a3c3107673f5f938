"""The shape of code: what is left of it without its names and literals. Code of one shape does one thing to other
values.

From runs of one shape comes a function: what differed between them becomes its parameters.
"""

import ast
import builtins
import keyword
from typing import Any

KEPT = frozenset(dir(builtins)) | {"tools", "ToolError", "checkpoint"}
LITERALS = (str, int, float, bool)
Parameter = tuple[str, ast.expr | None]  # its type as it is written, and its default


class _Shape(ast.NodeVisitor):
    """Walks code in a fixed order; collects its literals, and writes down everything else."""

    def __init__(self, inputs: frozenset[str]) -> None:
        self.text: list[str] = []
        self.literals: list[ast.Constant] = []
        self.hints: list[str | None] = []
        self._names: dict[str, int] = {}
        self._inputs = inputs
        self._hint: str | None = None

    def _name(self, name: str) -> str:
        if name in KEPT or name in self._inputs:
            return name
        return f"${self._names.setdefault(name, len(self._names))}"

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and type(node.value) in LITERALS:
            self.text.append(type(node.value).__name__)
            self.literals.append(node)
            self.hints.append(self._hint)
            return
        self.text.append(type(node).__name__)
        for field, value in ast.iter_fields(node):
            if field in ("ctx", "type_comment", "kind"):
                continue
            self._field(node, field, value)
        self.text.append(")")

    def _field(self, node: ast.AST, field: str, value: Any) -> None:
        if isinstance(node, ast.JoinedStr):
            # The fixed parts of an f-string are its form.
            for part in value:
                if isinstance(part, ast.Constant):
                    self.text.append(repr(part.value))
                else:
                    self.visit(part)
            return
        if isinstance(value, ast.AST):
            before, self._hint = self._hint, self._hinted(node, field)
            self.visit(value)
            self._hint = before
        elif isinstance(value, list):
            self.text.append("[")
            for item in value:
                if isinstance(item, ast.AST):
                    before, self._hint = self._hint, self._hinted(node, field)
                    self.visit(item)
                    self._hint = before
                else:
                    self.text.append(self._name(item) if isinstance(item, str) else repr(item))
            self.text.append("]")
        elif isinstance(value, str) and (
            field == "id" or (field in ("name", "arg") and not isinstance(node, ast.keyword | ast.alias))
        ):
            self.text.append(self._name(value))
        else:
            self.text.append(repr(value))

    def _hinted(self, node: ast.AST, field: str) -> str | None:
        """What a literal there could be called."""
        if isinstance(node, ast.keyword):
            return node.arg
        if isinstance(node, ast.Assign) and field == "value" and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
        if isinstance(node, ast.AnnAssign) and field == "value" and isinstance(node.target, ast.Name):
            return node.target.id
        if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.BinOp | ast.Compare | ast.Subscript):
            return self._hint
        return None


def _look(source: str, inputs: frozenset[str]) -> tuple[ast.Module, _Shape] | None:
    try:
        tree = compile(source, "<run>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    assert isinstance(tree, ast.Module)
    shape = _Shape(inputs)
    try:
        shape.visit(tree)
    except RecursionError:
        return None
    return tree, shape


def suggest(runs: list[dict[str, Any]], least: int, saved: dict[str, str]) -> list[dict[str, Any]]:
    """Runs (`{"source", "inputs", "result"}`) of one shape, *least* of them or more, and the function they would make;
    none for what one of the *saved* tools, whose sources are given by name, does already.
    """
    known = {form for name, source in saved.items() if (form := _form_of_tool(name, source)) is not None}
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int, ast.Module, _Shape]]] = {}
    for index, run in enumerate(runs):
        names = tuple(sorted(run["inputs"]))
        looked = _look(run["source"], frozenset(names))
        if looked is not None and looked[0].body and _form(looked[0].body, frozenset(names)) not in known:
            groups.setdefault((" ".join(looked[1].text), names), []).append((index, *looked))
    found = [(names, members) for (_, names), members in groups.items() if len(members) >= least]
    made = [_propose(names, members, runs) for names, members in found]
    return sorted((one for one in made if one is not None), key=lambda one: -len(one["runs"]))


def _propose(
    inputs: tuple[str, ...], members: list[tuple[int, ast.Module, _Shape]], runs: list[dict[str, Any]]
) -> dict[str, Any] | None:
    _, tree, shape = members[-1]  # the latest names are the ones to keep
    values = [[member[2].literals[at].value for member in members] for at in range(len(shape.literals))]
    changing = [
        at
        for at, column in enumerate(values)
        if any(value != column[0] or type(value) is not type(column[0]) for value in column)
    ]
    if not _calls_or_defines(tree):
        return None
    taken = set(KEPT) | set(inputs) | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    parameters: list[tuple[str, str, list[Any]]] = []
    by_column: dict[tuple[str, ...], str] = {}
    for at in changing:
        column = values[at]
        key = tuple(map(repr, column))
        if key not in by_column:  # two literals that were always the same are one parameter
            name = _parameter_name(shape.hints[at], type(column[0]), taken)
            taken.add(name)
            by_column[key] = name
            parameters.append((name, type(column[0]).__name__, column))
        literal = shape.literals[at]
        literal.value = by_column[key]
        literal.kind = "parameter"
    tree = ast.fix_missing_locations(_Replace(dict.fromkeys(by_column.values())).visit(tree))
    name = _tool_name(tree)
    typed: dict[str, Parameter] = {i: (type_of([runs[m[0]]["inputs"][i] for m in members]), None) for i in inputs}
    typed |= {p: (type_of(column), None) for p, _, column in parameters}
    doc = f"Made from {len(members)} run{'' if len(members) == 1 else 's'} of the same code: say here what it is for."
    results = [runs[member[0]].get("result") for member in members]
    source = function_source(name, doc, typed, tree.body, results)
    examples = []
    for place, (run, _, _) in enumerate(members):
        given = dict(runs[run]["inputs"]) | {p: column[place] for p, _, column in parameters}
        examples.append({"run": run, "inputs": given})
    return {"name": name, "source": source, "runs": [member[0] for member in members], "examples": examples}


def function_source(
    name: str, doc: str, parameters: dict[str, Parameter], body: list[ast.stmt], results: list[Any]
) -> str:
    """The source of an async function with typed parameters. What it returns is typed by what it returned."""
    arguments = [ast.arg(each, ast.parse(kind, mode="eval").body) for each, (kind, _) in parameters.items()]
    defaults = [default for _, default in parameters.values() if default is not None]
    is_sure = len(results) > 1 or isinstance(results[0], str | bool | list | dict)  # one number may be of any kind
    returns = ast.parse(type_of(results) if is_sure else "Any", mode="eval").body
    function = ast.AsyncFunctionDef(
        name,
        ast.arguments([], arguments, None, [], [], None, defaults),
        [ast.Expr(ast.Constant(doc)), *_with_return(body)],
        [],
        returns,
        None,
        [],
    )
    needed = [*(kind for kind, _ in parameters.values()), ast.unparse(returns)]
    typing = [ast.ImportFrom("typing", [ast.alias("Any")], 0)] if any("Any" in kind for kind in needed) else []
    module: Any = ast.fix_missing_locations(ast.Module([*typing, function], []))
    return ast.unparse(module).replace("\nasync def ", "\n\n\nasync def ", 1) + "\n"


class _Form(_Shape):
    """What code does, whatever it does it to: literals, inputs and parameters are one and the same."""

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self._inputs):
            self.text.append("?")
        else:
            super().visit(node)


def _form(body: list[ast.stmt], names: frozenset[str]) -> str | None:
    """Equal for code, and for a function that was made of it. Statements that only name a literal are left out."""
    named = {
        statement.targets[0].id: statement
        for statement in body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.targets[0], ast.Name)
    }
    form = _Form(names | frozenset(named))
    try:
        for statement in _with_return([one for one in body if one not in named.values()]):
            form.visit(statement)
    except RecursionError:
        return None
    return " ".join(form.text)


def _form_of_tool(name: str, source: str) -> str | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            return _form(body, frozenset(arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)))
    return None


def as_function(source: str, name: str, doc: str) -> dict[str, Any]:
    """Code as a function of that name with a docstring: its own function, or its statements as the body of one."""
    tree: Any = compile(source, "<code>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    own = next((n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name), None)
    if own is not None:
        if ast.get_docstring(own) is not None:
            return {"source": source, "wrapped": False}
        own.body.insert(0, ast.Expr(ast.Constant(doc)))
        return {"source": ast.unparse(ast.fix_missing_locations(tree)) + "\n", "wrapped": False}
    body = _with_return(tree.body)
    if (
        body
        and not isinstance(body[-1], ast.Return)
        and any(isinstance(n, ast.Name) and n.id == "result" for n in ast.walk(tree))
    ):
        body = [*body, ast.Return(ast.Name("result", ast.Load()))]
    text = ast.Expr(ast.Constant(doc))
    function = ast.AsyncFunctionDef(
        name, ast.arguments([], [], None, [], [], None, []), [text, *body], [], ast.Name("Any"), None, []
    )
    module = ast.Module([ast.ImportFrom("typing", [ast.alias("Any")], 0), function], [])
    made = ast.unparse(ast.fix_missing_locations(module)).replace("\nasync def ", "\n\n\nasync def ", 1)
    return {"source": made + "\n", "wrapped": True}


class _Replace(ast.NodeTransformer):
    """Literals that became parameters: the marked ones turn into names."""

    def __init__(self, names: dict[str, None]) -> None:
        self._names = names

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.kind == "parameter":
            return ast.copy_location(ast.Name(str(node.value), ast.Load()), node)
        return node


def _calls_or_defines(tree: ast.Module) -> bool:
    """Code that neither calls anything nor loops is not worth a tool."""
    return any(isinstance(node, ast.Call | ast.For | ast.comprehension) for node in ast.walk(tree))


def _with_return(body: list[ast.stmt]) -> list[ast.stmt]:
    if body and isinstance(body[-1], ast.Expr):
        return [*body[:-1], ast.Return(body[-1].value)]
    return body


def type_of(values: list[Any]) -> str:
    """The type of all these values, as it is written."""
    kinds = {type(value) for value in values}
    optional = " | None" if type(None) in kinds and len(kinds) > 1 else ""
    kinds -= {type(None)}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) != 1:
        return "Any"
    (kind,) = kinds
    if kind is dict or kind not in (str, int, float, bool, list, tuple, set):
        return f"dict[str, Any]{optional}" if kind is dict else "Any"
    if kind in (list, tuple, set):
        items = [item for value in values if value is not None for item in value]
        return f"list[{type_of(items) if items else 'Any'}]{optional}"
    return f"{kind.__name__}{optional}"


def _parameter_name(hint: str | None, kind: type, taken: set[str]) -> str:
    base = (
        hint
        if hint and hint.isidentifier() and not keyword.iskeyword(hint)
        else {"str": "text", "bool": "flag"}.get(kind.__name__, "number")
    )
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def _tool_name(tree: ast.Module) -> str:
    """After the tools that it calls: `search_issues_and_get_user`."""
    called: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            chain, inner = [node.attr], node.value
            while isinstance(inner, ast.Attribute):
                chain.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id == "tools" and chain[0].lower() not in called:
                called.append(chain[0].lower())
    name = "_and_".join(called[:2]) or "computed"
    made = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in f"{name}_tool").strip("_")[
        :60
    ]
    return made if made[:1].isalpha() else f"tool_{made}"[:60]
