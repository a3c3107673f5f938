"""Advice in the words of the server's clients: tools and their arguments. What only a person can do is said as that."""

from __future__ import annotations

from go_ent.sandbox.messages.advice import PYTHON, Advice

_WORDS = {
    ("resume", ""): "engine_resume goes on",
    ("resume", "unfinished"): 'check whether it was done; then engine_resume with unfinished ["retry"] makes it again, '
    '["skip"] takes it as done, ["fail"] lets it fail; ["NAME=skip"] is for one call or step',
    ("resume", "anyway"): "engine_resume with anyway true continues anyway",
    ("resume", "lines"): "only a person can give them: go-ent resume {} < LINES",
    ("list_executions", ""): "engine_status lists those there are",
    ("trust", ""): "a person must look at its .go-ent/config.toml, then run go-ent trust there",
    ("diagnose", ""): "a person can run go-ent doctor, which says what to do",
    ("login", ""): "a person can log in with go-ent server login {}",
    ("pass_file", ""): "code sees no files of the host: pass its content in inputs, or read it with a tool",
    ("replace", "replace"): "rename one of them",
    ("raise_limit", ""): "or raise {}, up to the project's [limits] in .go-ent/config.toml",
}


def in_tools(advice: Advice) -> str:
    """What to call, or to ask the user for."""
    key = advice.action, advice.argument
    return _WORDS.get(key, PYTHON[key]).format(advice.subject)
