"""`go-ent executions`: the index of a project's executions, which of them are kept, and what they came to."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.tables import table
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.executions.history import Grouping, group_title
from go_ent.engine.executions.retention import prune
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storages import open_store

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
LONGEST_S = 100 * 365 * 86_400


def reindex_command(*, json_: JsonFlag = False) -> int:
    """Make the index of this project's executions anew, from their folders."""
    index = _store().index
    count, missing = index.rebuild(), index.missing()
    for name, why in missing.items():
        say(f"{name} can't be used: {why}", err=True)
    if json_:
        show_json({"executions": count, **({"unusable": missing} if missing else {})})
    else:
        say(f"{'1 execution is' if count == 1 else f'{count} executions are'} in the index")
    return 0


def prune_command(
    *,
    keep: Annotated[int | None, Parameter(help="Keep this many of the newest.")] = None,
    older_than: Annotated[
        str | None, Parameter(help="Remove executions unchanged for this long: 12h, 30d, 4w.")
    ] = None,
    max_size: Annotated[str | None, Parameter(help="Keep the newest that fit into this size: 500M, 2G.")] = None,
    resumable: Annotated[bool, Parameter(negative="", help="Also remove resumable executions.")] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Show what would be removed, and remove nothing.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Remove old executions: by what is given here, or else by what `[executions]` in the configuration says.

    What can be resumed is kept, and so is what is running.
    """
    store = _store()
    if keep is not None and keep < 0:
        raise UsageError(f"--keep is how many are kept: 0 or more, not {keep}")
    age = None if older_than is None else _duration(older_than, "--older-than")
    size = None if max_size is None else _size(max_size, "--max-size")
    if keep is None and age is None and size is None:
        limits = read_engine_config(find_project()).executions
        keep, age, size = limits.keep, limits.days * 86_400, limits.max_mb << 20
    pruned = prune(store, keep=keep, older_than_s=age, max_bytes=size, resumable=resumable, dry_run=dry_run)
    if json_:
        show_json({**asdict(pruned), "dry_run": dry_run})
        return 0
    for name in pruned.removed if dry_run else ():
        say(name)
    what = f"{len(pruned.removed)} execution{'' if len(pruned.removed) == 1 else 's'}"
    say(f"{'would remove' if dry_run else 'removed'} {what}, {pruned.bytes / 1e6:.1f} MB", err=dry_run)
    for name, why in pruned.failed.items():
        say(f"{name} is not removed: {why}", err=True)
    if pruned.kept_resumable:
        why = (
            "running, or needed by what is kept"
            if resumable
            else "kept because a resume can go on: --resumable removes those too"
        )
        say(f"{pruned.kept_resumable} more {'is' if pruned.kept_resumable == 1 else 'are'} {why}", err=True)
    return 0


def totals_command(
    *,
    by: Annotated[Grouping, Parameter(help="What to group by.")] = "runtime",
    since: Annotated[str | None, Parameter(help="Only executions that ended within this time: 24h, 7d.")] = None,
    json_: JsonFlag = False,
) -> int:
    """What the executions that are still there came to: how many tries, how many succeeded, tokens, cost and time.

    By tool, the calls that guests made count too.
    """
    start = None if since is None else time.time() - _duration(since, "--since")
    found = _store().index.totals(by, since=start)
    if json_:
        show_json({name: totals.model_dump() for name, totals in found.items()})
    elif not found:
        say("no executions" if since is None else f"no executions within {since}", err=True)
    else:
        from go_ent.engine.cli.commands.shared import dollars

        unknown = any(one.costs_unknown for one in found.values())
        rows = []
        for name, one in found.items():
            cost = [dollars(one.cost_usd), *([str(one.costs_unknown or "-")] if unknown else [])]
            rows.append(
                [
                    group_title(by, name),
                    str(one.count),
                    str(one.successes),
                    f"{one.tokens:,}",
                    *cost,
                    f"{one.duration_ms / 1000:.1f}",
                ]
            )
        figures = ["count", "succeeded", "tokens", "cost", *(["cost unknown"] if unknown else []), "seconds"]
        table(rows, [by, *figures], right=figures)
    return 0


def _store() -> ExecutionStore:
    return open_store(find_project())


def _duration(text: str, option: str) -> float:
    """Seconds."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhdw])", text.strip().lower(), re.ASCII)
    seconds = float(found[1]) * SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= LONGEST_S:
        raise UsageError(
            f"{option} is a time like 90m, 12h, 30d or 4w, more than 0 and at most 100 years, not {text[:40]!r}"
        )
    return seconds


def _size(text: str, option: str) -> int:
    """Bytes."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    if found is None:
        raise UsageError(f"{option} is a size like 500M or 2G, not {text[:40]!r}")
    return int(float(found[1]) * BYTES[found[2]])
