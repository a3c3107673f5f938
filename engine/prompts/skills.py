"""Skills: how things are done here, written down once and put into the prompts of the tasks that name them.

    .go-ent/skills/NAME/SKILL.md      the project's
    <user data>/skills/NAME/SKILL.md  the user's own; the project's of the same name comes first

A file is Markdown, after a front matter in YAML with `name`, `description` and whatever else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from go_ent.composer.project.files import STATE, read_bounded, user_data
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts.files import inside
from go_ent.sandbox.messages.near_names import did_you_mean, near

FILE = "SKILL.md"
NAME = re.compile(r"\w[\w-]{0,99}")
MAX_FRONT = 64 << 10
MAX_CONTENT = 256 << 10
MAX_DEPTH = 20
_FRONT = re.compile(r"---[ \t]*\n(?:(.*?)\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


SkillScope = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. With a `problem` it is there, but can't be used."""

    name: str
    description: str = ""
    content: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path()
    scope: SkillScope = "project"
    problem: str = ""


class _Unusable(Exception):
    """Raised when a skill's file can't be used; says why."""


def all_skills(project: Path) -> list[Skill]:
    """Every skill that a task here can name, in the order of their names; those that can't be used too, with why."""
    found: dict[str, Skill] = {}
    for scope, folder in _folders(project):
        wrong: dict[str, str] = {}
        with apart(folder.name, wrong):
            for name in _names(folder):
                if name not in found:
                    with apart(name, wrong):
                        found[name] = _read(name, folder, scope, project)
        for name, why in wrong.items():
            found.setdefault(
                name,
                Skill(name, path=folder if name == folder.name else folder / name / FILE, scope=scope, problem=why),
            )
    return [found[name] for name in sorted(found)]


def find_skills(project: Path, names: Iterable[str]) -> list[Skill]:
    """The skills of those names, each once, in the order they are named; or `BadTask` with those there are."""
    return [_find(project, name) for name in dict.fromkeys(names)]


def _find(project: Path, name: str) -> Skill:
    if not NAME.fullmatch(name):
        raise BadTask(f"{name!r} can't be the name of a skill: it is letters, digits, - and _")
    for scope, folder in _folders(project):
        if os.path.lexists(folder / name):
            skill = _read(name, folder, scope, project)
            if skill.problem:
                raise BadTask(f"the skill {name} can't be used: {skill.path}: {skill.problem}")
            return skill
    there = sorted({name for _, folder in _folders(project) for name in _names(folder)})
    hint = did_you_mean(near(name, there, 2))
    raise BadTask(f"there is no skill {name!r}; the skills are {', '.join(there) or 'none'}{hint}")


def _folders(project: Path) -> tuple[tuple[SkillScope, Path], ...]:
    return ("project", project / STATE / "skills"), ("user", user_data() / "skills")


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if NAME.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BadTask(f"{folder} can't be read: {error.strerror}") from None


def _read(name: str, folder: Path, scope: SkillScope, project: Path) -> Skill:
    path = folder / name / FILE
    try:
        front, content = _parts(_text(path, folder, project if scope == "project" else None))
        metadata = _metadata(front)
        description = metadata.pop("description", "")
        if not isinstance(description, str):
            raise _Unusable("its description is not a text")
        if metadata.get("name") == name:
            del metadata["name"]
    except _Unusable as error:
        return Skill(name, path=path, scope=scope, problem=str(error))
    return Skill(name, description.strip(), content, metadata, path, scope)


def _text(path: Path, folder: Path, project: Path | None) -> str:
    if not inside(path, folder) or (project is not None and not inside(path, project)):
        raise _Unusable("it is a link that leads out of the folder of skills")
    try:
        data = read_bounded(Path(os.path.realpath(path)), MAX_FRONT + MAX_CONTENT)
    except FileNotFoundError:
        raise _Unusable("it is not there") from None
    except OSError as error:
        raise _Unusable(f"it can't be read: {error.strerror or error}") from None
    if len(data) > MAX_FRONT + MAX_CONTENT:
        raise _Unusable(f"it is larger than {MAX_FRONT + MAX_CONTENT} bytes")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _Unusable(f"it is not UTF-8: {error.reason} at byte {error.start}") from None


def _parts(text: str) -> tuple[str, str]:
    front, content = "", text
    if re.match(r"---[ \t]*\n", text):
        found = _FRONT.match(text)
        if found is None:
            raise _Unusable("its front matter has no end: a line --- is missing")
        front, content = found[1] or "", text[found.end() :]
    for part, most, what in ((front, MAX_FRONT, "front matter"), (content, MAX_CONTENT, "content")):
        if len(part.encode()) > most:
            raise _Unusable(f"its {what} is larger than {most} bytes")
    if not content.strip():
        raise _Unusable("it has no content")
    return front, content.strip("\n")


def _metadata(front: str) -> dict[str, Any]:
    """The front matter as JSON has it: YAML has dates, and numbers as keys."""
    import yaml  # type: ignore[import-untyped]  # here: few programs read a skill

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(front, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise _Unusable("its front matter uses aliases, which are not allowed")
            if depth > MAX_DEPTH:
                raise _Unusable(f"its front matter is nested deeper than {MAX_DEPTH}")
        made = json.loads(json.dumps(yaml.load(front, loader), default=str))  # noqa: S506 it is the safe loader
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise _Unusable(f"its front matter is not YAML: {' '.join(str(error).split())[:300]}") from None
    if made is None:
        return {}
    if not isinstance(made, dict):
        raise _Unusable("its front matter is not a table of names and values")
    return made
