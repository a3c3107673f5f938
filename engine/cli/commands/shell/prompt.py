"""The shell's prompt on a terminal. This is all that prompt_toolkit is imported for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import has_completions, has_selection
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from go_ent.engine.cli.commands.shell.completion import offers
from go_ent.engine.cli.commands.shell.magics import is_magic
from go_ent.engine.cli.commands.shell.pieces import is_open
from go_ent.engine.cli.commands.shell.session import ShellSession
from go_ent.sandbox.worker.languages import Language

INDENT = "    "


class Prompt:
    """Asks for one piece after another: with completion, history and several lines."""

    def __init__(self, shell: ShellSession, history: Path | None) -> None:
        self._shell = shell
        self._session: PromptSession[str] = PromptSession(
            completer=_Tools(shell),
            complete_while_typing=False,
            history=InMemoryHistory() if history is None else FileHistory(history),
            auto_suggest=AutoSuggestFromHistory(),
            key_bindings=_keys(shell.language),
            multiline=True,
            prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
        )

    async def ask(self) -> str:
        """The next piece. `EOFError` at Ctrl-D, `KeyboardInterrupt` at Ctrl-C."""
        return await self._session.prompt_async(f"[{self._shell.number}] ")


class _Tools(Completer):
    def __init__(self, shell: ShellSession) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for offer in offers(self._shell, document.text_before_cursor):
            yield Completion(offer.text, -offer.replaces, display_meta=offer.about)


def _keys(language: Language) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~has_selection & ~has_completions)
    def _enter(event: KeyPressEvent) -> None:
        """Run what is whole; else another line, indented as far as the last one."""
        buffer = event.current_buffer
        text = buffer.text
        if not buffer.document.text_after_cursor.strip() and (is_magic(text) or not is_open(text, language)):
            buffer.validate_and_handle()
            return
        line = buffer.document.current_line_before_cursor
        lead = line[: len(line) - len(line.lstrip())]
        begins = line.rstrip().endswith(":" if language == "python" else "{")
        buffer.insert_text("\n" + lead + (INDENT if begins else ""))

    @keys.add("tab", filter=~has_completions)
    def _tab(event: KeyPressEvent) -> None:
        """Indent at the start of a line, complete elsewhere."""
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.strip():
            buffer.start_completion(insert_common_part=True)
        else:
            buffer.insert_text(INDENT)

    return keys
