"""`go-ent tool record`: an example from a real run."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer import Approver, Composer
from go_ent.composer.catalogue.scope import small
from go_ent.composer.composed.example_block import with_example
from go_ent.composer.composed.suggest import recorded
from go_ent.composer.composed.toolfile import Example, written
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.exec import print_run
from go_ent.engine.cli.commands.recorded import with_guests
from go_ent.engine.cli.commands.tool import JsonFlag
from go_ent.engine.cli.inputs.reading import read_inputs
from go_ent.engine.cli.inputs.values import Arguments
from go_ent.engine.cli.terminal.completion_values import ToolName
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.executions.past_runs import calls_of
from go_ent.engine.guest_runs.runs import STEP, GuestOrder, Guests
from go_ent.sandbox import Run

MOST_ERROR = 200  # characters of an error that an example expects


def record_command(
    name: ToolName,
    /,
    *values: Annotated[str, Parameter(help="Inputs as KEY=VALUE.", allow_leading_hyphen=True)],
    input: Annotated[
        str, Parameter(help="Inputs as a JSON object; @FILE reads a file.", allow_leading_hyphen=True)
    ] = "{}",
    failing: Annotated[
        bool, Parameter(negative="", help="Record a run that fails: the example expects its error.")
    ] = False,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Run a composed tool for real, and add its inputs, calls and result to the tool as an example.

    From then on the example runs offline: its calls are answered as they were now. An example with the same inputs is
    replaced. What the calls returned is written to the tool's file: look at it before you share the tool.

    Example: go-ent tool record newest_order customer=ada
    """
    given = read_inputs(input)

    async def work(composer: Composer, guests: Guests, approver: Approver | None) -> int:
        tool = await composer.composed.get(name)
        inputs = Arguments(name, tool.interface.input_schema).read(values, given)
        run = await guests.run(GuestOrder(tool=name, inputs=inputs, cut=False), approver=approver)
        if (run.status == "completed") == failing or run.status not in ("completed", "error"):
            print_run(run, project=composer.project, is_tool=True)
            if run.status == "completed":
                raise UsageError("the run completed, so there is no failure to record: leave --failing out")
            say("nothing was recorded" + (": --failing records the error" if run.status == "error" else ""), err=True)
            return EXIT_CODES[run.status]
        made = await asyncio.to_thread(calls_of, guests.lifecycle.store, run.id, STEP)
        calls = None if made is None else recorded(made, composer.catalogue)
        result, kept = small(run.result)
        if calls is None or not kept:
            raise UsageError("its calls or its result are too large for an example: record a smaller case")
        example = Example(inputs=inputs, result=result, error=_error(run), calls=calls)
        tool = await composer.composed.get(name)  # as it is now: the run may have taken long
        saved = await composer.compose(with_example(tool.file, example), scope=tool.scope)
        if json_:
            about = {"name": name, "version": saved.version, "examples": saved.examples, "execution": run.id}
            show_json({**about, "example": example.model_dump(exclude_defaults=True)})
            return 0
        say(written(example))
        counted = f"{saved.examples} example{'' if saved.examples == 1 else 's'} passed"
        done = f"version {saved.version}, {counted}" if saved.created else "it had that example already"
        say(f"{name}: {done}", err=True)
        return 0

    return with_guests(work, yes=yes, progress=f"running {name}", quiet=json_)


def _error(run: Run) -> str | None:
    """What an example that fails expects: a part of the error's text."""
    return None if run.error is None else f"{run.error.kind}: {run.error.message}".partition("\n")[0][:MOST_ERROR]
