"""A Python module with a project's tools as typed methods, for programs: `go-ent stubs --python`.

The module holds types and two small classes; the calls themselves are those of `composer.tools`. Names and words come
from servers that may be hostile: they stand in it as identifiers and plain lines, as in all stubs.
"""

from __future__ import annotations

from collections.abc import Iterable

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stub_names import Names, camel, clean, identifier
from go_ent.composer.catalogue.stubs import StubClass, stub_classes

OWN = ("Tools", "AsyncTools", "TracebackType", "Path", "BlockingComposer", "Composer", "cast", "Self")
HEAD = '''"""The tools of a go-ent project, typed. Made by `go-ent stubs --python`: make it again when the tools change.

    with Tools(".") as tools:              async with AsyncTools(".") as tools:
        tools.NAME(…)                          await tools.NAME(…)
"""

'''
CLIENT = '''\
class {name}:
    """The tools of the project that *folder* is in; *options* are those of `{composer}`."""

    def __init__(self, folder: Path | str = ".", **options: Any) -> None:
        self._composer = {open}

    {is_async}def __{a}enter__(self) -> {tools}:
        return cast({tools}, self._composer.tools)

    {is_async}def __{a}exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        {wait}self._composer.close()
'''


def client_module(specs: Iterable[ToolSpec]) -> str:
    """The module's text. A tool whose name can't be an attribute is named in a comment instead."""
    names = Names()
    names.taken.update(OWN)
    made = stub_classes(specs, names)
    names.used |= {"Any", "Protocol", "annotations"}
    text = [one for found in made for one in found.types]
    roots = []
    for is_async in (False, True):
        classes, root = _classes(made, names, is_async=is_async)
        text += classes
        roots.append(root)
    clients = [
        CLIENT.format(
            name="Tools",
            tools=roots[0],
            composer="BlockingComposer",
            open="BlockingComposer(folder, **options)",
            is_async="",
            a="",
            wait="",
        ),
        CLIENT.format(
            name="AsyncTools",
            tools=roots[1],
            composer="Composer",
            open="Composer.open(folder, **options)",
            is_async="async ",
            a="a",
            wait="await ",
        ),
    ]
    future, typing, *others = names.imports()[0].split("\n")
    lines = [future, "", "from pathlib import Path", "from types import TracebackType", f"{typing}, cast", *others]
    head = HEAD + "\n".join([*lines, "", "from go_ent.composer import BlockingComposer, Composer"])
    return "\n\n\n".join(part.rstrip("\n") for part in [head, *text, *clients]) + "\n"


def _classes(made: list[StubClass], names: Names, *, is_async: bool) -> tuple[list[str], str]:
    """A class for each namespace, those within others first; and what the outermost is called."""
    found = {tuple(part for part in one.namespace.split(".") if part): one for one in made}
    paths = {path[:end] for path in found for end in range(len(path) + 1)} | {()}
    labels: dict[tuple[str, ...], str] = {}
    text = []
    for path in sorted(paths, key=lambda path: (-len(path), path)):
        hint = f"{'Async' if is_async else ''}{camel('_'.join(path)) if path else 'Granted'}Tools"
        labels[path] = names.take(hint)
        below = {inner[-1]: labels[inner] for inner in labels if inner and inner[:-1] == path}
        body = [f"    {name}: {label}" for name, label in sorted(below.items()) if identifier(name) == name]
        body += _methods(found.get(path), set(below), is_async=is_async)
        text.append(f"class {labels[path]}(Protocol):\n" + "\n\n".join(body or ["    pass"]))
    return text, labels[()]


def _methods(made: StubClass | None, taken: set[str], *, is_async: bool) -> list[str]:
    body = []
    for method, text in (made.methods if made is not None else {}).items():
        assert made is not None
        name = made.specs[method].name
        if method != name.rpartition(".")[2] or method in taken:
            body.append(f"    # not an attribute: tools[{clean(name, 200)!r}]")
        else:
            body.append(text if is_async else text.replace("    async def ", "    def ", 1))
    if body and all(line.startswith("    #") for line in body):
        body.append("    pass")
    return body
