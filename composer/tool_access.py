"""A program's tools as attributes: `tools.errors(log=…)`, `tools.github.search(q=…)`, and `tools()` for the list.

An attribute is a path: nothing is looked up before it is called, so that a tool that comes later is there too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.composed.source import Broken, Composed
from go_ent.composer.composed.usage import Used
from go_ent.composer.errors import BadArguments
from go_ent.sandbox.messages import html

if TYPE_CHECKING:
    from go_ent.composer.composer import Composer

Wait = Callable[[Any], Any]  # runs a coroutine to its end
ToolList = list[tuple[Composed | Broken, Used]]


class ToolPath:
    """A tool, or a namespace of tools, by name. Call it with the tool's arguments, by name or in their order.

    It raises what `call` raises. In a notebook it shows the tool's interface, or the tools of the namespace.
    """

    def __init__(self, composer: Composer, name: str, wait: Wait | None) -> None:
        """With *wait* a call returns the result, without it something to await."""
        self._composer, self._name, self._wait = composer, name, wait

    def __getattr__(self, name: str) -> ToolPath:
        if name.startswith("_"):  # what copies, pickles or shows objects asks for such names: they are no tools
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> ToolPath:
        """The tool of that name, for names that can't be attributes."""
        return ToolPath(self._composer, f"{self._name}.{name}" if self._name else name, self._wait)

    def __call__(self, /, *values: Any, **inputs: Any) -> Any:
        made = _call(self._composer, self._name, values, inputs)
        return made if self._wait is None else self._wait(made)

    def __dir__(self) -> list[str]:
        """What completion offers: the granted tools that are known."""
        start = len(self._start)
        return sorted({spec.name[start:].partition(".")[0] for spec in self._below()})

    def __repr__(self) -> str:
        self._look()
        spec = self._composer.catalogue.known(self._name)
        return f"<tools of {self._composer.project}>" if spec is None else stubs.signature(spec)

    def _repr_html_(self) -> str:
        specs = self._below()
        spec = self._composer.catalogue.known(self._name)
        if spec is not None:
            return html.preformatted(stubs.stub(spec))
        return html.table(["tool", "description"], [[spec.name, stubs.about(spec)] for spec in specs])

    @property
    def _start(self) -> str:
        return f"{self._name}." if self._name else ""

    def _below(self) -> list[ToolSpec]:
        """The granted tools below this name, so far as they are known."""
        self._look()
        catalogue = self._composer.catalogue
        names = (name for name in catalogue.known_names(self._composer.grants) if name.startswith(self._start))
        return [spec for name in names if (spec := catalogue.known(name)) is not None]

    def _look(self) -> None:
        if self._wait is not None:
            self._wait(self._composer.catalogue.load_known())


class Tools(ToolPath):
    """Each tool as an attribute, and the list of composed tools when it is called itself: `composer.tools`."""

    def __init__(self, composer: Composer, wait: Wait | None = None) -> None:
        super().__init__(composer, "", wait)

    def __call__(self) -> Any:
        """Every composed tool, broken ones too, with its use; a shadowed one is in `composed.shadowed`."""
        listing = _composed(self._composer)
        return listing if self._wait is None else self._wait(listing)


async def _composed(composer: Composer) -> ToolList:
    await composer.composed.load()
    used = {scope: usage.all() for scope, usage in composer.usage.items()}
    tools: list[Composed | Broken] = [*composer.composed.found.values(), *composer.composed.broken.values()]
    return [(tool, used[tool.scope].get(tool.name, Used())) for tool in sorted(tools, key=lambda tool: tool.name)]


async def _call(composer: Composer, name: str, values: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
    if values:
        names = stubs.parameters(await composer.catalogue.get(name, composer.grants))
        if len(values) > len(names):
            takes = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
            raise BadArguments(f"{name} takes {takes} ({', '.join(names)}); {len(values)} were given")
        given = dict(zip(names, values, strict=False))
        if twice := sorted(given.keys() & inputs.keys()):
            raise BadArguments(f"{name}: {', '.join(twice)} was given twice")
        inputs = {**given, **inputs}
    return await composer.call(name, **inputs)
