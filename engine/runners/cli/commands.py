"""Commands as runtimes: an argv template is filled in, run without a shell, and its output is read as an answer."""

from __future__ import annotations

import asyncio
import mmap
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import CommandConfig
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import FailureKind, RunRequest, RunResult, RunStatus, Tokens
from go_ent.engine.processes.child import ChildLimits, Command, Ended, NotStarted, run_child
from go_ent.engine.processes.environment import child_environment, scrubber, secrets_of
from go_ent.engine.runners.base.runner import Emit, Progress

PLACEHOLDER = re.compile(r"\{(prompt|system|model)\}")
MAX_ARGUMENT = 32 * mmap.PAGESIZE - 1  # the kernel's MAX_ARG_STRLEN, which counts the NUL at the end
MAX_TEXT = 4 << 20  # bytes of an answer
MAX_DOCUMENT = 16 << 20  # bytes of a JSON document
MAX_STREAM = 64 << 20  # bytes of all JSON lines
TAIL_CHARS = 2000
ABSURD = 1e15  # no number of tokens or dollars
NOT_STARTED_CODES = frozenset({126, 127})  # what shells and `env` say of a program that they could not start


async def run_command(
    config: CommandConfig, request: RunRequest, emit: Emit, *, host_env: Mapping[str, str], stop: asyncio.Event
) -> RunResult:
    """Runs a command once, and answers with a result whatever happens; what it said before a failure is in `output`.

    A command that takes the prompt must say something; any other may be silent.
    """
    began = time.monotonic()
    hide = scrubber(secrets_of(host_env, allow=config.env, set=config.set))
    reader = READERS[config.format](config, lambda progress: emit(replace(progress, text=hide(progress.text))))
    limits = ChildLimits(
        timeout_s=min((limit for limit in (request.timeout_s, config.timeout_s) if limit is not None), default=None),
        silence_s=request.silence_s,
        line_bytes=reader.line_bytes,
        total_bytes=reader.total_bytes,
    )
    fields: dict[str, Any]
    try:
        ended = await run_child(
            fill(config, request, host_env), reader.line, limits=limits, stop=stop, tag=request.run_id
        )
    except NotStarted as error:
        fields = {"status": "failed", "failure": "not_found" if error.missing else "task", "error": str(error)}
    except BadTask as error:
        fields = {"status": "failed", "failure": "task", "error": str(error), "replan": True}
    else:
        stderr = hide(ended.stderr)[-TAIL_CHARS:].strip()
        answer = await asyncio.to_thread(reader.answer)
        status, failure, said = _verdict(config, limits, ended, answer, stderr)
        model, adjustments = _model(config, request)
        fields = {
            "status": status,
            "failure": failure,
            "error": said and hide(said),
            "output": hide(answer.text),
            "structured": hide.through(answer.structured),
            "tokens": answer.tokens,
            "cost_usd": answer.cost_usd,
            "model": model,
            "observations": tuple(answer.notes),
            "adjustments": adjustments,
        }
    duration_ms = round((time.monotonic() - began) * 1000)
    return RunResult(
        execution_id=request.execution_id, task_id=request.task_id, runtime="cli", duration_ms=duration_ms, **fields
    )


def fill(config: CommandConfig, request: RunRequest, host_env: Mapping[str, str]) -> Command:
    """The command to start, or `BadTask`. Values are put in as they are: nothing in them is looked at again.

    Where an argument begins with a `-` only because of what was put in, somebody else would choose the flags: it is
    refused unless an argument `--` stands before it, which tells most programs that no flags follow. A command without
    `{system}` gets the system text before the prompt.

    A program that is a shell is the author's own risk: `["sh", "-c", 'llm "$1"', "sh", "{prompt}"]` is safe, a script
    with `{prompt}` in it is not.
    """
    program, *templates = config.argv
    if PLACEHOLDER.search(program):
        raise BadTask(f"the program of a command can't be filled in: {program}")
    if request.command is None and not config.takes_prompt:
        raise BadTask(f"{program} does not take the prompt: put {{prompt}} among its arguments, or set stdin = true")
    used = {name for template in templates for name in PLACEHOLDER.findall(template)}
    model = request.model or config.model
    if "model" in used and not model:
        raise BadTask(f"{program} needs a model, and none is known: set model for the command, or in the task")
    before = f"{request.system}\n\n" if request.system and "system" not in used else ""
    values = {"prompt": before + request.prompt, "system": request.system, "model": model or ""}
    argv, no_more_flags = [program], False
    for template in templates:
        argv.append(_argument(template, values, no_more_flags))
        no_more_flags = no_more_flags or template == "--"
    try:
        env = child_environment(host_env, allow=config.env, set=config.set)
    except ValueError as error:
        raise BadTask(f"{program}: {error}") from None
    stdin = values["prompt"].encode("utf-8", "replace") if config.stdin else b""
    return Command(tuple(argv), Path(request.cwd), env, stdin)


def _argument(template: str, values: Mapping[str, str], no_more_flags: bool) -> str:
    filled = PLACEHOLDER.sub(lambda found: values[found[1]], template)
    if filled.startswith("-") and not template.startswith("-") and not no_more_flags:
        raise BadTask(
            f"{template} would begin with '-' and be taken for a flag: set stdin = true, or put '--' before it"
        )
    if "\0" in filled:
        raise BadTask(f"{template} would hold a NUL, which no argument can: set stdin = true")
    if len(filled.encode("utf-8", "replace")) > MAX_ARGUMENT:
        raise BadTask(f"{template} would be longer than an argument may be, {MAX_ARGUMENT} bytes: set stdin = true")
    return filled


def _model(config: CommandConfig, request: RunRequest) -> tuple[str | None, tuple[str, ...]]:
    """The model that was really used, and a word about one that was not."""
    if any("{model}" in template for template in config.argv):
        return request.model or config.model, ()
    if request.model in {None, config.model}:
        return config.model, ()
    return config.model, (f"{config.argv[0]} takes no model: {request.model} was not used",)


@dataclass
class Answer:
    """What a command's output came to. With a `problem` it can't be used, and `text` is what there is of it."""

    text: str = ""
    structured: Any = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    problem: str | None = None
    notes: list[str] = field(default_factory=list)


def _verdict(
    config: CommandConfig, limits: ChildLimits, ended: Ended, answer: Answer, stderr: str
) -> tuple[RunStatus, FailureKind | None, str | None]:
    program, code = config.argv[0], ended.code
    said = f": {stderr}" if stderr else ""
    match ended.by:
        case "interrupted":
            return "interrupted", "interrupted", f"{program} was interrupted"
        case "timeout":
            return "timeout", "timeout", f"{program} was ended after {limits.timeout_s:g} s{said}"
        case "silence":
            return "failed", "silence", f"{program} was ended after {limits.silence_s:g} s without a word{said}"
        case "output":
            most = f"{limits.total_bytes} bytes in all, {limits.line_bytes} in a line"
            return "failed", "output", f"{program} was ended: it said more than is read ({most})"
        case "exit" if code is None or code < 0:
            return "failed", "crash", f"{program} was ended by {_signal(code)}{said}"
        case "exit" if code in NOT_STARTED_CODES:
            return "failed", "task", f"{program} could not start what it should (exit code {code}){said}"
        case "exit" if code:
            return "failed", "task", f"{program} failed with exit code {code}{said or ', and said nothing on stderr'}"
    if answer.problem is not None:
        return "failed", "output", f"the answer of {program} can't be read: {answer.problem}"
    if not answer.text.strip() and (config.takes_prompt or config.format != "text"):
        return "failed", "empty", f"{program} ended without an answer{said}"
    return "completed", None, None


def _signal(code: int | None) -> str:
    try:
        return "a signal" if code is None else signal.Signals(-code).name
    except ValueError:
        return f"signal {-(code or 0)}"


class TextReader:
    """Output is the answer, as it is; the newline at its end does not count."""

    line_bytes = total_bytes = MAX_TEXT

    def __init__(self, config: CommandConfig, emit: Emit) -> None:
        self._config, self._emit = config, emit
        self._parts: list[str] = []
        self._told = 0

    def line(self, line: bytes) -> None:
        self._say(line.decode("utf-8", "replace") + "\n")

    def _say(self, part: str) -> None:
        if self._told == len(self._parts):  # one message for all that comes at once: lines may be many and short
            asyncio.get_running_loop().call_soon(self._tell)
        self._parts.append(part)

    def _tell(self) -> None:
        text = "".join(self._parts[self._told :])
        self._told = len(self._parts)
        self._emit(Progress("text", text))

    def answer(self) -> Answer:
        return Answer("".join(self._parts).removesuffix("\n"))


class JsonReader:
    """Output is one JSON document, with the answer at `path`. What can't be read is the answer as it is."""

    line_bytes = total_bytes = MAX_DOCUMENT

    def __init__(self, config: CommandConfig, emit: Emit) -> None:
        self._config = config
        self._lines: list[bytes] = []

    def line(self, line: bytes) -> None:
        self._lines.append(line)

    def answer(self) -> Answer:
        raw = b"\n".join(self._lines)
        answer = Answer(raw[:MAX_TEXT].decode("utf-8", "replace"))
        if not raw.strip():
            return answer
        try:
            document = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            answer.problem = f"it is not JSON: {error}"
            return answer
        _count(self._config, _usage(self._config, document), answer)
        try:
            value = pick(document, self._config.path)
        except LookupError as error:
            answer.problem = str(error.args[0])
            return answer
        text = _text(value)
        if len(text) > MAX_TEXT:
            answer.problem = f"it is longer than {MAX_TEXT} characters"
        else:
            answer.text, answer.structured = text, None if isinstance(value, str) else value
        return answer


class JsonLinesReader(TextReader):
    """Output is a JSON object a line; the answer is what `path` finds in them, joined. Usage is what was said of it
    last.
    """

    line_bytes, total_bytes = MAX_TEXT, MAX_STREAM

    def __init__(self, config: CommandConfig, emit: Emit) -> None:
        super().__init__(config, emit)
        self._lines = self._found = self._size = 0
        self._used: dict[str, Any] = {}
        self._problem: str | None = None

    def line(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            return
        try:
            document = from_json(line, allow_inf_nan=False)
        except ValueError as error:
            self._refuse(f"line {self._lines} is not JSON: {error}")
            return
        if not isinstance(document, dict):
            self._refuse(f"line {self._lines} is not an object")
            return
        self._used |= _usage(self._config, document)
        try:
            part = _text(pick(document, self._config.path))
        except LookupError:
            return
        self._found += 1
        self._size += len(part)
        if self._size > MAX_TEXT:
            self._refuse(f"it is longer than {MAX_TEXT} characters")
        else:
            self._say(part if self._config.path else part + "\n")

    def _refuse(self, problem: str) -> None:
        self._problem = self._problem or problem

    def answer(self) -> Answer:
        answer = super().answer() if not self._config.path else Answer("".join(self._parts))
        answer.problem = self._problem
        if self._lines and not self._found:
            answer.problem = answer.problem or f"no line of it has {self._config.path}"
        _count(self._config, self._used, answer)
        return answer


READERS: Mapping[str, type[TextReader] | type[JsonReader]] = {
    "text": TextReader,
    "json": JsonReader,
    "jsonl": JsonLinesReader,
}


def pick(document: Any, path: str) -> Any:
    """What is at a dotted path: keys of objects, positions in lists. `LookupError` says how far it leads."""
    value, walked = document, "it"
    for step in path.split(".") if path else ():
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and (place := whole(step, 9)) is not None and place < len(value):
            value = value[place]
        else:
            there = f"a list of {len(value)}" if isinstance(value, list) else "a single value"
            if isinstance(value, dict):
                there = ", ".join(key[:40] for key in list(value)[:10]) or "nothing"
            raise LookupError(f"there is no {path} in it; in {walked} there is: {there}")
        walked = step if walked == "it" else f"{walked}.{step}"
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def _usage(config: CommandConfig, document: Any) -> dict[str, Any]:
    """The numbers of tokens and cost that a document has."""
    found = {}
    for name in ("tokens_in", "tokens_out", "cost_usd"):
        path = getattr(config, name)
        try:
            value = pick(document, path) if path else None
        except LookupError:
            continue
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < ABSURD:
            found[name] = value
    return found


def _count(config: CommandConfig, used: Mapping[str, Any], answer: Answer) -> None:
    """Puts usage into an answer, with a note where the configuration names some that is not there."""
    if "tokens_in" in used or "tokens_out" in used:
        answer.tokens = Tokens(input=int(used.get("tokens_in", 0)), output=int(used.get("tokens_out", 0)))
    answer.cost_usd = used.get("cost_usd")
    for name in ("tokens_in", "tokens_out", "cost_usd"):
        if getattr(config, name) and name not in used:
            answer.notes.append(f"there is no number for {name} at {getattr(config, name)}")
