"""Advice in the words of the command line: commands and options."""

from __future__ import annotations

from go_ent.engine.core.ids import short_id
from go_ent.sandbox.messages.advice import PYTHON, Advice

_WORDS = {
    ("resume", ""): "go-ent resume {} continues it",
    (
        "resume",
        "unfinished",
    ): "check whether it was done; then --unfinished retry makes it again, skip takes it as "
    "done, fail lets it fail; NAME=skip is for one call or step",
    ("resume", "anyway"): "resume with --anyway to continue anyway",
    ("resume", "lines"): "continue with go-ent resume {} < LINES",
    ("list_executions", ""): "go-ent ps lists those there are",
    ("replace", "replace"): "rename one of them, or replace it with --replace",
    ("pass_file", ""): "code sees only the files that it is given: pass it with --file {}",
    ("run_command", ""): "or run it yourself with go-ent run",
}
_OPTIONS = {"timeout_s": "--timeout", "cpu_s": "--cpu", "memory_mb": "--memory", "fuel": "--fuel"}


def in_commands(advice: Advice) -> str:
    """What to type."""
    if advice.action == "raise_limit":
        option = _OPTIONS.get(advice.subject)
        given = f"{option} of go-ent exec, or " if option else ""
        return f"or raise {given}{advice.subject} under [limits] in .go-ent/config.toml"
    key = advice.action, advice.argument
    return _WORDS.get(key, PYTHON[key]).format(short_id(advice.subject))
