"""What is sent to the model of a step: what must be said, and as much of the material as its window has room for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from go_ent.engine.budget import tighter
from go_ent.engine.context.keeper import LEAST, Fitted, Keeper, RecordedContext, Room
from go_ent.engine.context.models import Purse
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import PromptTooLarge, Untrusted
from go_ent.engine.core.models import Task
from go_ent.engine.core.step import Step
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.prompts import Prompt, Prompts, Role, Skill, find_role, find_skills, read_files

FOR_SUMMARY = 0.5  # of a step's own limit, at the most: the rest is the step's
BEFORE_STEPS = 0.75  # of an execution's limit: what is left beyond that is for its steps
MOST_READ = 250_000  # tokens of the files of a task: what can't be shown is summarised


class StepPrompts:
    """The prompts of one engine's steps."""

    def __init__(
        self,
        project: Path,
        config: EngineConfig,
        prompts: Prompts,
        roles: Mapping[str, Role],
        *,
        keeper: Keeper,
        trusted: bool,
    ) -> None:
        self._project = project
        self._config = config
        self._prompts = prompts
        self._roles = roles
        self._keeper = keeper
        self._trusted = trusted

    def role(self, task: Task) -> Role | None:
        """The role that a task names. Raises `BadTask` for one that is not there."""
        return None if task.role is None else find_role(task.role, self._roles)

    async def rehearsed(self, step: Step, role: Role | None, model: str | None, adjustments: tuple[str, ...]) -> Prompt:
        """What a step would be sent: what is too long is cut here, where it would be summarised."""
        step, room, notes = await self._light(step, role, model)
        files = await asyncio.to_thread(read_files, self._project, step.task.files, budget_tokens=room.material)
        prompt = await asyncio.to_thread(self._prompt, Fitted(step, adjustments, files=tuple(files)), room.material)
        self._check_size(prompt, room, model)
        return replace(prompt, notes=(*notes, *prompt.notes))

    def _skills(self, task: Task, role: Role | None) -> Sequence[Skill]:
        skills = find_skills(self._project, dict.fromkeys((*(role.skills if role is not None else ()), *task.skills)))
        if not self._trusted and (theirs := [skill.name for skill in skills if skill.scope == "project"]):
            raise Untrusted(f"an agent with the skill {theirs[0]}", str(self._project))
        return skills

    def _prompt(self, fitted: Fitted, room: int) -> Prompt:
        task = fitted.step.task
        role = self.role(task)
        return self._prompts.render(
            fitted.step,
            role=role,
            skills=self._skills(task, role),
            files=fitted.files,
            budget_tokens=room,
            adjustments=fitted.adjustments,
            summary=fitted.summary,
        )

    async def _room(self, step: Step, role: Role | None, model: str | None) -> Room:
        """What the material of a step may take beside what must be said."""
        bare = replace(step, previous=(), dependencies=(), task=step.task.model_copy(update={"files": ()}))
        alone = (await asyncio.to_thread(self._prompt, Fitted(bare, ()), LEAST)).tokens
        config = self._config.roles.get(role.name) if role is not None else None
        room = self._keeper.room(
            model, alone, step.task.threshold or (config.threshold if config is not None else None)
        )
        return replace(room, material=min(room.material, self._config.engine.prompt_tokens))

    async def _light(
        self,
        step: Step,
        role: Role | None,
        model: str | None,
        context: RecordedContext | None = None,
        purse: Purse | None = None,
    ) -> tuple[Step, Room, list[str]]:
        """The step with what it brings along in short, if it is too much; the room that is left; and what was done."""
        room = await self._room(step, role, model)
        if not room.over:
            return step, room, []
        step, notes = await self._keeper.lighten(context, step, room, purse)
        return step, await self._room(step, role, model), notes

    async def within(self, step: Step, run: ExecutionContext, role: Role | None, model: str | None) -> Prompt:
        """The prompt of a step, within the window of the model that it goes to: what would not fit is summarised
        first.
        """
        run.context = run.context or RecordedContext(run.held)
        limit = tighter(step.task.budget, role.budget if role is not None else None)
        purse = Purse(
            execution_id=run.id,
            task_id=step.id,
            task_limit=limit and limit.part(FOR_SUMMARY),
            execution_limit=run.limit and run.limit.part(BEFORE_STEPS),
            warn=lambda text: run.warn(step.id, f"a summary for it: {text}"),
        )
        step, room, notes = await self._light(step, role, model, run.context, purse)
        files = await asyncio.to_thread(
            read_files, self._project, step.task.files, budget_tokens=max(room.material, MOST_READ)
        )
        fitted = await self._keeper.fit(run.context, step, run.adjustments, room, purse=purse, files=files)
        for note in (*notes, *fitted.notes):
            run.warn(step.id, note)
        prompt = await asyncio.to_thread(self._prompt, fitted, room.material)
        for note in prompt.notes:
            run.warn(step.id, note)
        self._check_size(prompt, room, model)
        await run.write(
            run.held.append, "context", self._keeper.fill(step.id, model, self._keeper.counted(prompt.tokens, model))
        )
        return prompt

    def _check_size(self, prompt: Prompt, room: Room, model: str | None) -> None:
        if prompt.tokens > room.window:
            tokens, reserve = (self._keeper.counted(number, model) for number in (prompt.tokens, room.reserve))
            raise PromptTooLarge(tokens, self._keeper.windows.window(model).tokens, reserve, model)
