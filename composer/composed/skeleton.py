"""The file that a new composed tool begins as: it works, and says what to change."""

from __future__ import annotations

from go_ent.composer.composed import toolfile
from go_ent.composer.errors import ComposeRefused
from go_ent.sandbox import Sandbox

LIMITS = {"timeout_s": 5, "cpu_s": 3}
BODY = '''\
from collections import Counter


def NAME(text: str, least: int = 2) -> list[str]:
    """Say in one sentence what the tool does: people and models choose it by this.

    Args:
        text: What is to be given. The type and this line are what a caller sees.
        least: A parameter with a default is optional.
    """
    # To call other tools, write `async def` and: rows = await tools.count_words(text=text)
    counts = Counter(text.split())
    return sorted(word for word, count in counts.items() if count >= least)
'''
HEAD = """\
# /// tool
# name = "NAME"
# # limits = { timeout_s = 20 }         tighter limits than the project's, for this tool
# # requires = ["github.search_issues"] which tools it may call; by default those that its code names
# ///
# /// examples
# {"inputs": {"text": "to be or not to be"}, "result": ["be", "to"]}
# {"inputs": {"text": ""}, "result": []}
# ///
"""
NO_EXAMPLE = "# It has no examples yet. Once it is saved, `go-ent tool record NAME KEY=VALUE…` adds a real run.\n"


def skeleton(name: str) -> str:
    """A new tool's file, with comments and an example that passes."""
    return (HEAD + BODY).replace("NAME", toolfile.check_name(name))


async def from_code(code: str, name: str, about: str, box: Sandbox) -> str:
    """A tool's file whose function is *code*: as it is, if that defines the function, else as its body."""
    toolfile.check_name(name)
    made = await box.as_function(code, name, about, limits=box.limits.tightened(LIMITS))
    if made.status != "completed" or not isinstance(made.result, dict) or "source" not in made.result:
        where = f" (line {made.error.line})" if made.error is not None and made.error.line else ""
        said = made.error.message if made.error is not None else made.status
        raise ComposeRefused(name, [f"its code can't be read: {said}{where}"])
    return toolfile.write(name, NO_EXAMPLE.replace("NAME", name) + str(made.result["source"]), examples=[])
