"""What the engine tells who sits at a terminal, in the words of who has the server's tools instead of commands."""

from __future__ import annotations

import re

# Each is one of the engine's own messages. What stands there is not read, only replaced: who made the rest of a text is
# nobody's guess.
WORDS = (
    (
        re.compile(r"resume with --unfinished retry, skip or fail"),
        'engine_resume with unfinished ["retry"], ["skip"] or ["fail"]',
    ),
    (
        re.compile(
            r"then --unfinished retry makes it again, skip takes it as done, fail lets it fail; NAME=skip is "
            r"for one call or step"
        ),
        'then engine_resume with unfinished ["retry"] makes it again, ["skip"] takes it as done, ["fail"] lets '
        "it fail; "
        '["NAME=skip"] is for one call or step',
    ),
    (re.compile(r"resume with --anyway to go on all the same"), "engine_resume with anyway true goes on all the same"),
    (re.compile(r"go-ent resume [0-9a-f-]{36} goes on"), "engine_resume goes on"),
    (re.compile(r"go-ent ps lists those there are"), "engine_status lists those there are"),
)


def for_clients(text: str) -> str:
    """A message of the engine's, for a model that calls tools."""
    for said, instead in WORDS:
        text = said.sub(instead, text)
    return text
