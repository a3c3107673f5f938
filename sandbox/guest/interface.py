"""What a source offers and needs, found out in the guest: its function's interface, and the tools it calls.

The host gets the answer as JSON and believes no more of it than that it is what the source says of itself.
"""

import ast
import inspect
import json
import re
import typing
from typing import Any

from guest import encode, shapes

SECTIONS = re.compile(r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?)\s*:?\s*$", re.I)
SPHINX = re.compile(r"^:param(?:\s+[^:]+?)?\s+(\w+):\s*(.*)$")


class Tools(ast.NodeVisitor):
    """Which tools the code calls: every `tools.a.b` there is, also by way of names that stand for a part of it."""

    def __init__(self, tree: ast.AST) -> None:
        self.names: dict[str, int] = {}
        self.direct: set[str] = set()  # written out as tools.a.b: no other thing of the same name can be meant
        self.unclear: list[int] = []
        self.aliases: dict[str, set[str]] = {"tools": {""}}
        self._aliased: set[int] = set()
        # What a class holds is reached through the class: which tool that is can't be told.
        attributes = {
            id(statement) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for statement in node.body
        }
        while True:  # until no assignment says anything new
            before = {name: set(parts) for name, parts in self.aliases.items()}
            for node in ast.walk(tree):
                if id(node) not in attributes:
                    self._assignment(node)
            if before == self.aliases:
                break
        self.visit(tree)

    def _assignment(self, node: ast.AST) -> None:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.arguments):
            positional = node.posonlyargs + node.args
            defaults: list[tuple[ast.arg, ast.expr | None]] = [
                *zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            pairs = [(ast.Name(arg.arg), value) for arg, value in defaults if value is not None]
        for target, value in pairs:
            if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
                inner = list(zip(target.elts, value.elts, strict=False))
            else:
                inner = [(target, value)]
            for name, part in inner:
                found = self._chains(part)
                if isinstance(name, ast.Name) and found:
                    self.aliases.setdefault(name.id, set()).update(found)
                    self._aliased.add(id(part))

    def _chains(self, node: ast.AST) -> set[str]:
        """The dotted names that an expression stands for, when it stands for a part of `tools`."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, set())
        part: str | None = None
        if isinstance(node, ast.Attribute):
            part = node.attr
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            part = node.slice.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) == 2
            and isinstance(node.args[1], ast.Constant)
            and isinstance(node.args[1].value, str)
        ):
            return {f"{base}.{node.args[1].value}".lstrip(".") for base in self._chains(node.args[0])}
        if part is not None and isinstance(node, ast.Attribute | ast.Subscript):
            return {f"{base}.{part}".lstrip(".") for base in self._chains(node.value)}
        return set()

    def visit(self, node: ast.AST) -> None:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("dir", "repr", "print", "hasattr", "str")
        ):
            for argument in (*node.args, *(word.value for word in node.keywords)):
                if not (isinstance(argument, ast.Name) and argument.id == "tools"):
                    self.visit(argument)
            return
        if isinstance(node, ast.expr):
            found = self._chains(node)
            if found:
                if id(node) not in self._aliased and not isinstance(getattr(node, "ctx", None), ast.Store):
                    for name in found:
                        if name:
                            self.names.setdefault(name, node.lineno)
                            if self._is_direct(node):
                                self.direct.add(name)
                        else:
                            self.unclear.append(node.lineno)
                return
            if isinstance(node, ast.Subscript | ast.Call):
                inner = (
                    node.value
                    if isinstance(node, ast.Subscript)
                    else node.args[0]
                    if self._is_getattr(node) and node.args
                    else None
                )
                if inner is not None and self._chains(inner):
                    self.unclear.append(node.lineno)  # a name that is made up at run time
                    return
        self.generic_visit(node)

    @staticmethod
    def _is_direct(node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id == "tools"

    @staticmethod
    def _is_getattr(node: ast.Call) -> bool:
        return isinstance(node.func, ast.Name) and node.func.id == "getattr"


def parameter_texts(doc: str, names: list[str]) -> dict[str, str]:
    """What a docstring says of each parameter, in the styles of Google, numpy and Sphinx."""
    texts: dict[str, str] = {}
    inside, current, indent = False, "", 0
    lines = doc.splitlines()
    for index, line in enumerate(lines):
        stripped = line.strip()
        sphinx = SPHINX.match(stripped)
        if sphinx and sphinx[1] in names:
            texts[sphinx[1]], current, inside, indent = sphinx[2], sphinx[1], True, len(line) - len(line.lstrip())
            continue
        section = SECTIONS.match(stripped)
        if section:
            inside, current = section[1].lower() in ("args", "arguments", "parameters", "params"), ""
            continue
        if not inside or set(stripped) == {"-"}:
            continue
        depth = len(line) - len(line.lstrip())
        head = re.match(r"^(\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(.*)$", stripped)
        if head and head[1] in names and (not current or depth <= indent):
            google = index + 1 >= len(lines) or head[2] is not None or bool(head[3])
            current, indent = head[1], depth
            texts[current] = head[3] if google and not _is_numpy(lines, index) else ""
        elif current and stripped and depth > indent:
            texts[current] = f"{texts[current]} {stripped}".strip()
        elif stripped and depth <= indent:
            current = ""
    return {name: text[:500] for name, text in texts.items() if text}


def _is_numpy(lines: list[str], index: int) -> bool:
    return any(set(line.strip()) == {"-"} for line in lines[:index])


def summary(doc: str) -> str:
    """The docstring without what is said of each parameter, which stands in the schema."""
    kept, skipping = [], False
    for line in doc.splitlines():
        stripped = line.strip()
        section = SECTIONS.match(stripped)
        if section:
            skipping = section[1].lower() in ("args", "arguments", "parameters", "params")
        elif skipping and stripped and not line.startswith((" ", "\t")) and set(stripped) != {"-"}:
            skipping = bool(re.match(r"^\w+\s*:", stripped))
        if not skipping and not SPHINX.match(stripped):
            kept.append(line.rstrip())
    return "\n".join(kept).strip()


def describe(source: str, tree: ast.Module, scope: dict[str, Any], name: str) -> dict[str, Any]:
    """The interface of the function of that name: an answer for the host, problems included."""
    del source
    found = Tools(tree)
    answer: dict[str, Any] = {
        "requires": found.names,
        "direct": sorted(found.direct),
        "unclear": sorted(set(found.unclear)),
        "problems": [],
        "functions": [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)],
    }
    function = scope.get(name)
    node = next(
        (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name), None
    )
    if node is None or not callable(function) or not inspect.isfunction(inspect.unwrap(function)):
        answer["problems"].append(f"there is no function {name} at the top level of the source")
        return answer
    answer.update(line=node.lineno, is_async=isinstance(node, ast.AsyncFunctionDef))
    _signature(inspect.unwrap(function), name, answer)
    return answer


def _signature(function: Any, name: str, answer: dict[str, Any]) -> None:
    problems: list[str] = answer["problems"]
    doc = inspect.getdoc(function) or ""
    answer["description"] = summary(doc)
    if not doc.strip():
        problems.append(f"{name} has no docstring: its first line says what the tool does")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        problems.append(f"its annotations can't be resolved: {type(error).__name__}: {error}")
        return
    parameters = inspect.signature(function).parameters
    texts = parameter_texts(doc, list(parameters))
    schemas = shapes.Schemas()
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters.values():
        try:
            properties[parameter.name] = _parameter(parameter, hints, schemas, texts)
        except shapes.NotExpressible as error:
            problems.append(f"parameter {parameter.name}: {error}")
            continue
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    answer["input_schema"] = _whole(
        {"type": "object", "properties": properties, "required": required, "additionalProperties": False}, schemas
    )
    if "return" not in hints:
        problems.append("what it returns has no type: write `-> list[str]`, or `-> Any` if it may be anything")
        return
    schemas = shapes.Schemas(result=True)
    try:
        answer["output_schema"] = _whole(schemas.of(hints["return"]), schemas)
    except shapes.NotExpressible as error:
        problems.append(f"the return type: {error} can't be expressed as JSON")


def _whole(schema: dict[str, Any], schemas: shapes.Schemas) -> dict[str, Any]:
    return {**schema, "$defs": schemas.definitions} if schemas.definitions else schema


def _parameter(parameter: Any, hints: dict[str, Any], schemas: shapes.Schemas, texts: dict[str, str]) -> dict[str, Any]:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise shapes.NotExpressible(
            "a tool's parameters are named one by one: use a list or a dict instead of * and **"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise shapes.NotExpressible("it can be given by position only, and a tool is called with names: remove the /")
    if parameter.name in ("tools", "ToolError"):
        raise shapes.NotExpressible("the name is taken in every tool's source")
    if parameter.name not in hints:
        raise shapes.NotExpressible(f"it has no type: write `{parameter.name}: str`, or `Any` if it may be anything")
    try:
        schema = schemas.of(hints[parameter.name])
    except shapes.NotExpressible as error:
        raise shapes.NotExpressible(f"{error} can't be expressed as JSON Schema") from None
    if parameter.name in texts and "description" not in schema:
        schema = {**schema, "description": texts[parameter.name]}
    if parameter.default is not parameter.empty:
        try:
            default = json.loads(encode.dumps(parameter.default))
        except Exception:
            raise shapes.NotExpressible("its default can't be written as JSON: use None and set it inside") from None
        schema = {**schema, "default": default}
    return schema
