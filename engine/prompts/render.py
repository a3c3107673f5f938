"""Prompts: everything an agent is told for one step, within a number of tokens.

The role and the skills are the system prompt. The task, its material (files, outputs of earlier steps, results of
dependencies, a summary) and the feedback on earlier attempts are the user prompt. All material is quoted between fences
that nothing in it can close.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import Task
from go_ent.engine.core.step import Output, Step
from go_ent.engine.prompts.cutting import Cut, Fitting, Material
from go_ent.engine.prompts.fences import label, language, one_line, printable, quoted
from go_ent.engine.prompts.files import FilePart
from go_ent.engine.prompts.roles import Role
from go_ent.engine.prompts.skills import Skill
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.tokens import count

KINDS = ("feedback", "previous", "dependencies", "summary", "files")  # the most important first
FRAME, SECTION = 50, 35  # tokens of what is said about all material, and about each kind of it, roughly
HEADING = 12  # tokens of one text's heading and fences, roughly
TRIES = 5
MAX_UNSEEN = 20  # names of what is not shown
KEPT = "in the record of this execution"
ACCESS = {
    "none": "Answer from what is written here: use no tools, and change no files.",
    "read": "Read whatever you need, but change no files.",
    "edit": "",
}
MOST_NESTED = 100


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent, how many tokens it has, and what was cut or left out of it."""

    system: str
    user: str
    tokens: int
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """All of it, for a person to read."""
        parts = (("system", self.system), ("user", self.user))
        return "\n".join(f"{f' {name} ':=^80}\n\n{text}\n" for name, text in parts if text)


@dataclass(frozen=True, slots=True)
class _Item:
    """A text with its place: `age` is 0 for the most important of its kind."""

    kind: str
    title: str
    material: Material
    age: int
    info: str = "text"


class Prompts:
    """Makes the prompts of a project. Its own templates in `.go-ent/prompts/` are used only if it is *trusted*."""

    def __init__(self, project: Path, trusted: bool) -> None:
        self._templates = Templates(project, trusted=trusted)

    def render(
        self,
        step: Step,
        *,
        role: Role | None = None,
        skills: Sequence[Skill] = (),
        files: Sequence[FilePart] = (),
        budget_tokens: int,
        adjustments: Sequence[str] = (),
        summary: str = "",
    ) -> Prompt:
        """The prompt of a step. It blocks: call it in a thread.

        The task, the role and the skills are never cut. What comes with them (files, outputs, the summary, feedback,
        and the headings of these) adds *budget_tokens* at the most to what the prompt would be without them. So each
        text gets its share, larger ones lose their middle, and what has no room at all is only named: `notes` has every
        one.
        """
        told = {
            "task": _task(step.task),
            "constraints": _constraints(step.task),
            "role": {"name": role.name, "prompt": role.prompt.strip()} if role else None,
            "skills": [
                {"name": one.name, "description": one.description, "content": one.content.strip("\n")} for one in skills
            ],
        }
        notes = self._templates.notes()
        items = _items(step, files, adjustments, summary)
        never = [(one.path, one.note) for one in files if one.note]
        notes += [f"{one_line(path)}: not shown, {note}" for path, note in never]
        if not items and not never:
            return self._prompt(told, {}, notes)

        fitting = Fitting([one.material for one in items], budget_tokens, HEADING)
        notes += fitting.notes
        alone: int | None = None
        room = budget_tokens - FRAME - SECTION * len({one.kind for one in items})
        for attempt in range(TRIES):
            cuts = fitting.within(room)
            prompt = self._prompt(
                told, _sections(items, cuts, never), [*notes, *(cut.note for cut in cuts if cut.note)]
            )
            if prompt.tokens <= budget_tokens:
                return prompt
            alone = self._prompt(told, {}, ()).tokens if alone is None else alone
            used = prompt.tokens - alone
            if used <= budget_tokens:
                return prompt
            if room <= 0:
                break
            # In proportion first: a project's own template may say everything twice.
            room = (room * budget_tokens // used if attempt < 2 else room - (used - budget_tokens)) - HEADING
        return self._prompt(told, {}, [*notes, *(cut.note for cut in fitting.within(0))])

    def _prompt(self, told: Mapping[str, Any], sections: Mapping[str, Any], notes: Sequence[str]) -> Prompt:
        empty = {kind: {"shown": [], "unseen": [], "more": 0} for kind in KINDS}
        data = {**told, **empty, **sections, "material": bool(sections)}
        most = 2 * _length(data) + (1 << 20)
        system, user = (
            printable(self._templates.render(f"{name}.j2", data, characters=most)).strip("\n")
            for name in ("system", "user")
        )
        return Prompt(system, user, count(system) + count(user), tuple(notes))


def _task(task: Task) -> dict[str, Any]:
    """The task as templates see it: plain data, of which nothing can be called."""
    fields = {"type", "role", "skills", "model", "runtime", "access", "files", "metadata", "pinned"}
    try:
        plain = task.model_dump(mode="json", include=fields, fallback=str)
    except ValueError as error:
        raise BadTask(f"the task's metadata has no JSON form: {error}") from None
    description, context = (text.lstrip("\r\n").rstrip() for text in (task.description, task.context))
    return plain | {"description": description, "context": context, "title": task.title}


def _constraints(task: Task) -> list[str]:
    """What the task's access and its metadata's `constraints` (a text or a list of them) demand."""
    given = task.metadata.get("constraints", [])
    texts = [
        ACCESS[task.access],
        *([given] if isinstance(given, str) else given if isinstance(given, list | tuple) else []),
    ]
    return [str(text).strip().replace("\n", "\n  ") for text in texts if str(text).strip()]


def _items(step: Step, files: Sequence[FilePart], adjustments: Sequence[str], summary: str) -> list[_Item]:
    """All material, the most important first: feedback and previous outputs from the newest, the rest in its order."""
    items = []
    for age, text in enumerate(reversed(adjustments)):
        number = len(adjustments) - age
        title = f"Feedback {number}" + (" (the latest)" if age == 0 and number > 1 else "")
        items.append(_Item("feedback", title, _aged(f"feedback {number}", text, age), age))
    for age, output in enumerate(reversed(step.previous)):
        source = one_line(output.source)
        for what, info, text in _texts(output):
            items.append(
                _Item(
                    "previous", f"From the {source}{what}", _aged(f"the output of {source}{what}", text, age), age, info
                )
            )
    for age, output in enumerate(step.dependencies):
        name = f"the result of {one_line(output.source)}"
        for what, info, text in _texts(output):
            items.append(
                _Item(
                    "dependencies", f"From {label(output.source)}{what}", Material(name + what, text, KEPT), age, info
                )
            )
    if summary.strip():
        items.append(_Item("summary", "", Material("the summary", summary, KEPT), 0))
    shown = [one for one in files if not one.note]
    for age, file in enumerate(shown):
        path = one_line(file.path)
        material = Material(path, file.text, f"in {path}", file.tail, file.missing)
        items.append(_Item("files", label(file.path), material, age, language(file.path)))
    return items


def _aged(name: str, text: str, age: int) -> Material:
    """Older texts weigh less: each half of the next."""
    return Material(name, text, KEPT, weight=max(0.5**age, 1 / 64))


def shown(output: Output) -> str:
    """All that a prompt would show of an output."""
    return "\n\n".join(text for _, _, text in _texts(output))


def _texts(output: Output) -> list[tuple[str, str, str]]:
    """The text of an output, and its data where that is not the text itself: what it is, its language, the text."""
    texts = [("", "text", output.text)] if output.text.strip() else []
    if output.structured is not None and not _says(output.text, output.structured):
        texts.append((", as data", "json", _json(output.structured)))
    return texts or [("", "text", "(no output)")]


def _json(value: Any) -> str:
    if _deeper(value, MOST_NESTED):  # indented, what is nested deep grows with the square of that
        return "(nested too deeply to be shown)"
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply to be shown)"


def _deeper(value: Any, most: int) -> bool:
    """Whether data is nested deeper than *most*."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _says(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _sections(items: Sequence[_Item], cuts: Sequence[Cut], never: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The material by kind, oldest first, as templates see it."""
    sections: dict[str, Any] = {}
    for kind in KINDS:
        mine = [(one, cut) for one, cut in zip(items, cuts, strict=True) if one.kind == kind]
        if kind in {"feedback", "previous"}:
            mine.sort(key=lambda pair: -pair[0].age)
        shown = [
            {"title": one.title, "text": cut.text, "quoted": quoted(cut.text, one.info), "cut": bool(cut.note)}
            for one, cut in mine
            if cut.text is not None
        ]
        unseen = [one.title if kind == "files" else one.material.name for one, cut in mine if cut.text is None]
        unseen += [f"{label(path)} ({note})" for path, note in never] if kind == "files" else []
        sections[kind] = {"shown": shown, "unseen": unseen[:MAX_UNSEEN], "more": len(unseen[MAX_UNSEEN:])}
    return sections


def _length(data: Any) -> int:
    if isinstance(data, Mapping):
        return sum(_length(one) for one in data.values())
    if isinstance(data, list | tuple):
        return sum(_length(one) for one in data)
    return len(data) if isinstance(data, str) else 8
