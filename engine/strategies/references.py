"""References in a plan: `${load.output}` stands for what the task `load` gave.

- `${ID.output}` is its output, `${ID.structured}` its structured value; `.rows.0.name` after either goes into it (an
  output is
  read as JSON for that).
- A string of `inputs` that is nothing but one reference becomes the value itself: the structured one, else the output
  read as
  JSON, else the text. Within a longer string, and in a description, a context or an argument, a reference becomes text.
- `$${` is a plain `${`. What looks like no reference (`${HOME}`) is left as it is. What was put in is never looked at
  again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import RunResult, Task
from go_ent.engine.core.step import Output

MOST_DEPTH = 100
MOST_TEXT = 4_000_000
MOST_INSERTED = 16_000_000
PARTS = re.compile(r"\$\$\{|\$\{([^{}\n]{1,500})\}")
KINDS = ("output", "structured")
AnyTask = TypeVar("AnyTask", bound=Task)


@dataclass(frozen=True, slots=True)
class Reference:
    """`written` is how it stands in the plan."""

    id: str
    kind: str
    path: tuple[str, ...]
    written: str


def references(task: Task, ids: Collection[str]) -> tuple[Reference, ...]:
    """All references of a task, or `BadTask` for one that can't be meant."""
    texts = [*_strings(task)]
    if not any("${" in text for _, text in texts):
        return ()
    program = task.command[0] if isinstance(task.command, tuple) and task.command else ""
    if any(isinstance(part, Reference) for part in _parts("command", program, ids)):
        raise BadTask(
            "command: the program can't be a reference, only its arguments can: what is started is said in the plan"
        )
    found = [part for where, text in texts for part in _parts(where, text, ids) if isinstance(part, Reference)]
    return tuple(dict.fromkeys(found))


def filled(task: AnyTask, results: Mapping[str, RunResult], inserted: list[Output] | None = None) -> AnyTask:
    """The task with each reference replaced, or `BadTask` if one leads nowhere or must not stand where it does.

    What that has put into its description is added to *inserted*.
    """
    if not any("${" in text for _, text in _strings(task)):
        return task
    fill = _Fill(results)
    description = fill.text("description", task.description)
    if inserted is not None:
        inserted += fill.inserted
    update: dict[str, Any] = {
        "description": description,
        "context": fill.text("context", task.context),
        "inputs": fill.value("inputs", task.inputs),
    }
    if isinstance(task.command, tuple):
        update["command"] = tuple(fill.argument(task.command, index) for index in range(len(task.command)))
    # Read again from a journal, such a description would be another kind of task than the one that the plan holds.
    if task.needs_model and update["description"].startswith("composed:"):
        raise BadTask("description: what was put in makes it a composed: task, which only the plan can ask for")
    if task.needs_model and not update["description"].strip():
        raise BadTask("description: it is empty once its references are put in")
    return task.model_copy(update=update)


class _Fill:
    """Puts the values in, of one task; what that adds up to is bounded."""

    def __init__(self, results: Mapping[str, RunResult]) -> None:
        self._results = results
        self._read: dict[str, Any] = {}
        self._inserted = 0
        self.inserted: list[Output] = []  # into texts

    def text(self, where: str, template: str) -> str:
        if "${" not in template:
            return template
        text = "".join(
            part if isinstance(part, str) else self._put(where, part) for part in _parts(where, template, self._results)
        )
        if len(text) > MOST_TEXT:
            raise BadTask(f"{where}: it is longer than {MOST_TEXT} characters once its references are put in")
        return text

    def value(self, where: str, template: Any) -> Any:
        if isinstance(template, str):
            parts = list(_parts(where, template, self._results)) if "${" in template else []
            if len(parts) == 1 and isinstance(parts[0], Reference):
                return self._as_value(where, parts[0])
            return self.text(where, template)
        if isinstance(template, dict):
            return {name: self.value(f"{where}.{name}", item) for name, item in template.items()}
        if isinstance(template, list | tuple):
            return [self.value(f"{where}.{index}", item) for index, item in enumerate(template)]
        return template

    def argument(self, command: tuple[str, ...], index: int) -> str:
        template = command[index]
        text = self.text(f"command.{index}", template)
        if text.startswith("-") and not template.startswith("-") and "--" not in command[1:index]:
            raise BadTask(
                f'command.{index}: {template} became an option, {text[:40]!r}; put a "--" before it if the '
                "program knows that"
            )
        if "\0" in text:
            raise BadTask(f"command.{index}: {template} holds a NUL character, which no argument can")
        return text

    def _put(self, where: str, part: Reference) -> str:
        text = self._counted(where, self._as_text(part))
        self.inserted.append(Output(part.id, text))
        return text

    def _counted(self, where: str, text: str) -> str:
        self._inserted += len(text)
        if self._inserted > MOST_INSERTED:
            raise BadTask(f"{where}: the references of the task put in more than {MOST_INSERTED} characters")
        return text

    def _as_text(self, reference: Reference) -> str:
        result = self._results[reference.id]
        if reference.kind == "output" and not reference.path and (result.output or result.structured is None):
            return result.output
        value = self._found(reference)
        return value if isinstance(value, str) else _json(reference, value)

    def _as_value(self, where: str, reference: Reference) -> Any:
        self._counted(where, self._results[reference.id].output)
        if reference.kind == "output" and not reference.path:
            return self._json_output(reference.id, self._results[reference.id].output)
        return self._found(reference)

    def _found(self, reference: Reference) -> Any:
        result = self._results[reference.id]
        if reference.kind == "structured":
            value = result.structured
            if value is None:
                raise BadTask(f"{reference.written}: {reference.id} gave no structured value, only output")
        else:
            value = self._json_output(reference.id, None)
            if value is None:
                raise BadTask(f"{reference.written}: the output of {reference.id} is not JSON, so it has no fields")
        for name in reference.path:
            value = _member(reference, value, name)
        return value

    def _json_output(self, id_: str, otherwise: str | None) -> Any:
        """The structured value, else the output read as JSON, else *otherwise*."""
        result = self._results[id_]
        if result.structured is not None:
            return result.structured
        if id_ not in self._read:
            self._read[id_] = _read(result.output)
        found = self._read[id_]
        return otherwise if found is _NOT_JSON else found


_NOT_JSON = object()


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json(reference: Reference, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadTask(f"{reference.written}: it can't be written as JSON: {error}") from None


def _member(reference: Reference, value: Any, name: str) -> Any:
    if isinstance(value, dict):
        if name in value:
            return value[name]
        there = ", ".join(str(key) for key in list(value)[:10]) or "none"
        raise BadTask(f"{reference.written}: there is no field {name}; there are: {there}")
    if isinstance(value, list | tuple) and (place := whole(name, 9)) is not None:
        if place < len(value):
            return value[place]
        raise BadTask(f"{reference.written}: there is no item {name}; there are {len(value)}, counted from 0")
    raise BadTask(f"{reference.written}: {type(value).__name__} has no field {name}")


def _strings(task: Task) -> Iterator[tuple[str, str]]:
    yield "description", task.description
    yield "context", task.context
    if isinstance(task.command, tuple):
        for index, argument in enumerate(task.command):
            yield f"command.{index}", argument
    yield from _nested("inputs", task.inputs, 0)


def _nested(where: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MOST_DEPTH:
        raise BadTask(f"{where[:100]}: inputs are nested more than {MOST_DEPTH} deep")
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _nested(f"{where}.{name}", item, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _nested(f"{where}.{index}", item, depth + 1)


def _parts(where: str, text: str, ids: Collection[str]) -> Iterator[str | Reference]:
    """The text as it is between references, and the references."""
    end = 0
    for found in PARTS.finditer(text):
        reference = _reference(where, found[0], found[1], ids) if found[1] else "${"
        if reference is None:
            continue
        if found.start() > end:
            yield text[end : found.start()]
        yield reference
        end = found.end()
    if end < len(text):
        yield text[end:]


def _reference(where: str, written: str, inside: str, ids: Collection[str]) -> Reference | None:
    """None if it is nothing of ours: `${HOME}`. An id may hold dots, so the longest that fits is meant."""
    names = inside.strip().split(".")
    known = [".".join(names[:count]) for count in range(len(names), 0, -1) if ".".join(names[:count]) in ids]
    for id_ in known:
        rest = names[id_.count(".") + 1 :]
        if rest and rest[0] in KINDS:
            if "" in rest:
                raise BadTask(f"{where}: {written} has an empty name between its dots")
            return Reference(id_, rest[0], tuple(rest[1:]), written)
    escape = f"write ${written} if it is meant as it stands"
    if known:
        raise BadTask(f"{where}: {written} is neither {known[0]}.output nor {known[0]}.structured; {escape}")
    if any(name in KINDS for name in names[1:]):
        there = ", ".join(sorted(ids)[:10])
        raise BadTask(f"{where}: {written} names no task; there are: {there}; {escape}")
    return None
