"""What a composed tool takes, returns and calls. Found out in a guest, for the host never reads a tool's code."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from go_ent.composer.catalogue.grants import check_pattern, matches
from go_ent.composer.catalogue.reserved import QUESTIONS
from go_ent.composer.catalogue.schemas import BadSchema, Checker
from go_ent.composer.composed.toolfile import ToolFile
from go_ent.composer.errors import ComposeRefused
from go_ent.composer.project.files import read_bounded, write_whole
from go_ent.sandbox import Sandbox

LIMITS: dict[str, Any] = {"timeout_s": 3, "cpu_s": 2, "max_tool_calls": 0, "max_result_bytes": 1 << 20}
MAX_DESCRIPTION = 20_000
MAX_REQUIRES = 200
MAX_CACHED = 4 << 20


class Interface(BaseModel):
    """A tool's interface, derived from its code."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    description: str = Field(max_length=MAX_DESCRIPTION)
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    requires: tuple[str, ...] = Field(max_length=MAX_REQUIRES)


class _Answer(BaseModel):
    """What the guest says. It has run the tool's code, so this is the tool's word, not the truth."""

    requires: dict[str, int] = Field(max_length=MAX_REQUIRES)
    direct: list[str]
    unclear: list[int]
    problems: list[str] = Field(max_length=200)
    functions: list[str]
    line: int | None = None
    is_async: bool = False
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class Inspector:
    """Derives interfaces, each once per content and image."""

    def __init__(self, box: Sandbox, cache: Path | None = None) -> None:
        self._box = box
        self._cache = cache
        self._known: dict[str, Interface] = {}

    async def interface(self, file: ToolFile) -> Interface:
        """The interface of a tool's file; ComposeRefused says what keeps it from having one."""
        image = self._box.image if self._box.has_image else await asyncio.to_thread(lambda: self._box.image)
        if file.language != "python":
            image = await asyncio.to_thread(self._box.image_of, "javascript")
        key = f"{file.digest[:32]}-{image.digest[:16]}"
        if key not in self._known:
            found = self._load(key)
            if found is None:
                found = await self._derive(file)
                self._save(key, found)
            if file.metadata.requires is not None:
                found = found.model_copy(
                    update={"requires": tuple(file.metadata.requires)}
                )  # the file's word, not the cache's
            self._known[key] = found
        return self._known[key]

    async def _derive(self, file: ToolFile) -> Interface:
        run = await self._box.interface(
            file.source, file.name, limits=self._box.limits.tightened(LIMITS), language=file.language
        )
        if run.status != "completed":
            assert run.error is not None
            where = f"line {run.error.line}: " if run.error.line else ""
            hint = f" ({run.error.hint[:200]})" if run.error.hint else ""
            raise ComposeRefused(file.name, [f"{where}{run.error.kind}: {run.error.message}{hint}"])
        try:
            answer = _Answer.model_validate(run.result)
        except ValidationError:
            raise ComposeRefused(file.name, ["its definitions break what is used to look at them"]) from None
        problems = [problem[:1000] for problem in answer.problems[:20]]
        problems += self._requires_problems(file, answer)
        if len(answer.description) > MAX_DESCRIPTION:
            length, about = len(answer.description), "docstring" if file.language == "python" else "doc comment"
            problems.append(
                f"line {answer.line or 1}: its {about} is {length} characters long; at most "
                f"{MAX_DESCRIPTION} are accepted"
            )
        for what, schema in (("input", answer.input_schema), ("output", answer.output_schema)):
            if schema is not None:
                try:
                    Checker(schema)
                except BadSchema as error:
                    problems.append(f"its {what} schema: {error}")
        if problems or answer.input_schema is None or answer.output_schema is None:
            raise ComposeRefused(file.name, problems or ["it has no interface"])
        requires = file.metadata.requires if file.metadata.requires is not None else sorted(answer.requires)
        return Interface(
            description=answer.description,
            input_schema=answer.input_schema,
            output_schema=answer.output_schema,
            requires=tuple(requires),
        )

    def _requires_problems(self, file: ToolFile, answer: _Answer) -> list[str]:
        declared = file.metadata.requires
        problems = []
        for name, line in answer.requires.items():
            try:
                check_pattern(name)
            except ValueError:
                problems.append(f"line {line}: tools.{name[:80]} can't be the name of a tool")
                continue
            # By way of another name it may be something else's attribute; the host enforces the list in any case.
            if (
                declared is not None
                and name in answer.direct
                and name not in QUESTIONS
                and not any(matches(pattern, name) for pattern in declared)
            ):
                problems.append(f"line {line} uses tools.{name}, which `requires` does not list")
        if answer.unclear and declared is None:
            lines = ", ".join(str(line) for line in answer.unclear[:5])
            problems.append(
                f"line {lines}: which tool is called there can't be told from the code; list the tools in `requires`"
            )
        return problems

    def _load(self, key: str) -> Interface | None:
        if self._cache is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            found = Interface.model_validate_json(read_bounded(self._cache / f"{key}.json", MAX_CACHED))
            for schema in (found.input_schema, found.output_schema):
                Checker(schema)
            return found
        return None

    def _save(self, key: str, interface: Interface) -> None:
        if self._cache is not None:
            with contextlib.suppress(OSError):  # a cache: without it things take longer
                self._cache.mkdir(parents=True, exist_ok=True)
                write_whole(self._cache / f"{key}.json", json.dumps(interface.model_dump()).encode())
