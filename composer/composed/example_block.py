"""Examples added to a tool's file: its `/// examples` block changes, and nothing else of it."""

from __future__ import annotations

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.toolfile import MAX_EXAMPLES, Example, ToolFile, written
from go_ent.composer.errors import ComposeRefused


def with_example(file: ToolFile, example: Example) -> str:
    """The source with one example more; one with the same inputs is replaced."""
    examples = file.metadata.examples
    others = [one for one in examples if one.inputs != example.inputs]
    if len(others) >= MAX_EXAMPLES:
        raise ComposeRefused(file.name, [f"it has {len(others)} examples, and at most {MAX_EXAMPLES} are accepted"])
    block = next((block for block in toolfile.blocks(file.source) if block.kind == "examples"), None)
    if block is None:
        at = file.source.index("\n", toolfile.tool_block(file.source).end) + 1
        block_text = f"{file.mark} /// examples\n{_lines(file, [example])}{file.mark} ///\n"
        made = f"{file.source[:at]}{block_text}{file.source[at:]}"
    elif len(others) == len(examples):
        made = file.source[: block.end] + _lines(file, [example]) + file.source[block.end :]
    else:
        made = file.source[: block.start] + _lines(file, [*others, example]) + file.source[block.end :]
    if toolfile.read(made, file.name, file.language).metadata.examples != [*others, example]:
        raise ComposeRefused(file.name, ["its examples are not all in its `/// examples` block: add it by hand"])
    return made


def _lines(file: ToolFile, examples: list[Example]) -> str:
    return "".join(f"{file.mark} {line}\n" for example in examples for line in written(example).split("\n"))
