"""The file that a new composed tool begins as: it works, and says what to change."""

from __future__ import annotations

from go_ent.composer.composed import toolfile
from go_ent.composer.errors import ComposeRefused
from go_ent.sandbox import Sandbox
from go_ent.sandbox.worker.languages import Language

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
TYPESCRIPT = """\
/**
 * Say in one sentence what the tool does: people and models choose it by this.
 *
 * @param text - What is to be given. The type and this line are what a caller sees.
 * @param least - A parameter with a default is optional.
 */
export function NAME(text: string, least: number = 2): string[] {
  // To call other tools, write `async`, `Promise<…>` and: const rows = await tools.count_words({ text });
  const counts = new Map<string, number>();
  for (const word of text.split(/\\s+/).filter(Boolean)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= least).map(([word]) => word).sort();
}
"""
JAVASCRIPT = """\
/**
 * Say in one sentence what the tool does: people and models choose it by this.
 *
 * @param {string} text - What is to be given. The type and this line are what a caller sees.
 * @param {number} least - A parameter with a default is optional.
 * @returns {string[]}
 */
export function NAME(text, least = 2) {
  // To call other tools, write `async` and: const rows = await tools.count_words({ text });
  const counts = new Map();
  for (const word of text.split(/\\s+/).filter(Boolean)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= least).map(([word]) => word).sort();
}
"""
BODIES: dict[Language, str] = {"python": BODY, "javascript": JAVASCRIPT, "typescript": TYPESCRIPT}
HEAD = """\
/// tool
name = "NAME"
# limits = { timeout_s = 20 }         tighter limits than the project's, for this tool
# requires = ["github.search_issues"] which tools it may call; by default those that its code names
///
/// examples
{"inputs": {"text": "to be or not to be"}, "result": ["be", "to"]}
{"inputs": {"text": ""}, "result": []}
///
"""
NO_EXAMPLE = "MARK It has no examples yet. Once it is saved, `go-ent tool record NAME KEY=VALUE…` adds a real run.\n"


def skeleton(name: str, language: Language = "python") -> str:
    """A new tool's file, with comments and an example that passes."""
    lines = HEAD.splitlines()
    if language == "javascript":
        lines.insert(2, f'language = "{language}"')
    head = "".join(f"{toolfile.MARKS[language]} {line}\n" for line in lines)
    return (head + BODIES[language]).replace("NAME", toolfile.check_name(name))


async def from_code(code: str, name: str, about: str, box: Sandbox, language: Language = "python") -> str:
    """A tool's file whose function is *code*: as it is, if that defines the function, else as its body."""
    toolfile.check_name(name)
    made = await box.as_function(code, name, about, limits=box.limits.tightened(LIMITS), language=language)
    if made.status != "completed" or not isinstance(made.result, dict) or "source" not in made.result:
        where = f" (line {made.error.line})" if made.error is not None and made.error.line else ""
        said = made.error.message if made.error is not None else made.status
        raise ComposeRefused(name, [f"its code can't be read: {said}{where}"])
    note = NO_EXAMPLE.replace("NAME", name).replace("MARK", toolfile.MARKS[language])
    return toolfile.write(name, note + str(made.result["source"]), examples=[], language=language)
