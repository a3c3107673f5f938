"""The prompt that has a model author a composed tool: the format, an example, and what there is to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastmcp.exceptions import PromptError
from fastmcp.prompts import Message
from pydantic import Field

from go_ent.composer import Composer, ComposerError
from go_ent.engine.server.tools.resources import granted_stubs

if TYPE_CHECKING:
    from fastmcp import FastMCP

MAX_STUBS = 20_000  # characters
MAX_TASK = 20_000

EXAMPLE = '''\
# /// tool
# name = "count_words"
# ///
# /// examples
# {"inputs": {"text": "a b a", "top": 1}, "result": [{"word": "a", "count": 2}]}
# {"inputs": {"text": ""}, "result": []}
# ///
from collections import Counter
from typing import TypedDict


class Word(TypedDict):
    word: str
    count: int


async def count_words(text: str, top: int = 10) -> list[Word]:
    """The words that a text has most often.

    Args:
        text: What to count in.
        top: How many words to return.
    """
    return [{"word": word, "count": count} for word, count in Counter(text.split()).most_common(top)]
'''

GUIDE = """\
Author a composed tool that does this:

{task}

A composed tool is one Python file, saved with tool_compose({{"source": ...}}):

```python
{example}```

- The `# /// tool` block is TOML: `name` (small letters, digits, underscores; the function has the same name), and if needed
  `limits = {{ timeout_s = 20 }}` and `requires = ["namespace.tool"]`; without `requires` it is read off the code.
- The `# /// examples` block holds one JSON object a line: `inputs`, and the `result` that must come of them or a text that the
  `error` must contain. What the code calls is answered from `"calls": [{{"tool": "namespace.name", "arguments": {{...}}, "result": ...}}]`;
  without `arguments` a recorded call answers any. Nothing is reached when examples run. Give at least one of the usual case and
  one of an edge.
- Every parameter and the return are typed: str, int, float, bool, None, list, dict, tuple, set, Literal, Enum, Optional, Union,
  TypedDict, dataclass, NamedTuple, datetime, date, timedelta, Decimal, Any. The docstring is the description: what it does, then
  `Args:`.
- The code runs in a sandbox with whole Python and its standard library, without network or files. Tools are the only way out:
  `await tools.namespace.name(...)` in an `async def`, with `asyncio.gather` for several at once. A tool that fails raises
  ToolError. Print nothing; return a small, structured value.
- First try the code with code_execute; then save it. If it is refused, mend what is named and save again. Saved, it is a tool under
  its own name: call it once with real inputs, and say what came of it.

What the code may call:

```python
{stubs}```
"""  # noqa: E501


def add(server: FastMCP, composer: Composer) -> None:
    """Add the prompt to *server*."""

    @server.prompt
    async def author_composed_tool(
        task: Annotated[str, Field(description="What the tool should do.")],
    ) -> list[Message]:
        """Author a composed tool: the format, an example, and the stubs of what it may call."""
        try:
            stubs = await granted_stubs(composer, MAX_STUBS)
        except ComposerError as error:
            raise PromptError(str(error)) from None
        return [Message(GUIDE.format(task=task[:MAX_TASK].strip(), example=EXAMPLE, stubs=stubs))]
