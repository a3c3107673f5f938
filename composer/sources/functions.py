"""Python functions as a source of tools: the host's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from go_ent.composer.catalogue.spec import CallContext, Hints, ToolSpec, check_namespace
from go_ent.composer.errors import CallError, ToolNotFound
from go_ent.sandbox import ApprovalRequired, Tool, ToolError, Toolset
from go_ent.sandbox.host.tools import failure
from go_ent.sandbox.media.marks import marked


class FunctionSource:
    """Tools that are functions of this process, sync or async, with type hints.

    `hints` says of a function by its name what it does to the world: `{"delete": Hints(destructive=True)}`.
    """

    local = True
    takes_bytes = True

    def __init__(
        self,
        functions: Iterable[Callable[..., Any] | Tool] | Mapping[str, Any],
        namespace: str = "",
        *,
        hints: Mapping[str, Hints] | None = None,
    ) -> None:
        self.namespace = check_namespace(namespace) if namespace else ""
        self.origin = "functions of this program"
        prefix = f"{namespace}." if namespace else ""
        self._tools: dict[str, Tool] = {f"{prefix}{tool.name}": tool for tool in Toolset(functions).values()}
        self._specs = [
            self._spec(name, tool, (hints or {}).get(tool.name, Hints())) for name, tool in self._tools.items()
        ]

    def _spec(self, name: str, tool: Tool, hints: Hints) -> ToolSpec:
        where = inspect.getmodule(tool.function)
        origin = f"function {tool.name} in {where.__name__}" if where is not None else f"function {tool.name}"
        return ToolSpec(name, tool.description, tool.input_schema, _output_schema(tool), hints, origin)

    def __len__(self) -> int:
        return len(self._tools)

    async def tools(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolNotFound(f"there is no function {name}")
        try:
            args, kwargs = tool.bind([], arguments)
            if tool.is_async:
                value = await tool.function(*args, **kwargs)
            else:
                value = await asyncio.to_thread(tool.function, *args, **kwargs)
            return _jsonable(value)
        except (ToolError, ApprovalRequired):
            raise
        except Exception as error:
            raise CallError(str(failure(error))) from None

    async def close(self) -> None:
        pass


def _jsonable(value: Any) -> Any:
    try:
        return to_jsonable_python(value, by_alias=True)
    except ValueError:
        if (with_marks := marked(value)) is value:
            raise
        return to_jsonable_python(with_marks, by_alias=True)


def _output_schema(tool: Tool) -> dict[str, Any] | None:
    """The schema of what it returns, if it says so in a way that JSON Schema can."""
    target = tool.function
    try:
        annotation = inspect.get_annotations(getattr(target, "func", target), eval_str=True).get("return", Any)
        if annotation in (Any, inspect.Signature.empty):
            return None
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        return adapter.json_schema(mode="serialization")
    except Exception:  # a type that pydantic does not know: the tool works, its result is not described
        return None
