"""What a caller can do about an error. It is data: a program acts on it, and each front end puts it into the words of
its callers (commands and options, tools and arguments, Python).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from go_ent.dataclass import dataclass

Action = Literal[
    "resume",  # the execution `subject`; `argument` is what to resume it with
    "list_executions",
    "trust",  # the folder `subject`
    "diagnose",  # the machine and the project
    "replace",  # the tool `subject`
    "raise_limit",  # of the name `subject`
    "run_command",  # a person has to start the program
    "login",  # to the server `subject`
    "pass_file",  # of the host, called `subject`: a run sees none but those that it is given
]


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do: an action, what it is done to, and the argument of the action that matters here.

    `str()` of it is for those who call the library.
    """

    action: Action
    subject: str = ""
    argument: Literal["", "unfinished", "anyway", "lines", "replace"] = ""

    def __post_init__(self) -> None:
        if (self.action, self.argument) not in PYTHON:
            raise ValueError(f"{self.action} takes no argument {self.argument!r}")

    def __str__(self) -> str:
        return PYTHON[self.action, self.argument].format(self.subject)


Words = Callable[[Advice], str]  # a front end's

# All that can be advised. What is recorded has these words: they must be true for whoever reads them later.
PYTHON: dict[tuple[Action, str], str] = {
    ("resume", ""): "resume it to continue",
    ("resume", "unfinished"): "check whether it was done; then resume with unfinished=Unfinished('retry') to make it "
    "again, 'skip' to take it as done, or 'fail' to let it fail",
    ("resume", "anyway"): "resume with anyway=True to continue anyway",
    ("resume", "lines"): "continue with resume_batch, or go-ent resume {} < LINES",
    ("list_executions", ""): "executions() lists those there are",
    ("trust", ""): "look at its .go-ent/config.toml, then run go-ent trust there",
    ("diagnose", ""): "go-ent doctor says what to do",
    ("replace", "replace"): "rename one of them, or pass replace=True",
    ("raise_limit", ""): "or raise {}",
    ("login", ""): "go-ent server login {} logs in",
    ("pass_file", ""): "code sees only the files that it is given: pass {} in files=",
    ("run_command", ""): "or have a person run it with go-ent run",
}


def joined(text: str, advice: Advice | None, words: Words = str, between: str = "; ") -> str:
    """A message, and then what to do."""
    if advice is None:
        return text
    told = words(advice)
    return f"{text}{', ' if told.startswith('or ') else between}{told}" if text else told
