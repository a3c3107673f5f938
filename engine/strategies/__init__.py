"""How tasks are run: one after the other (`single`), from role to role (`multi`), or as a graph (`parallel`).

A strategy decides which step is run when, and runs it with the `RunStep` that it is given; it knows nothing of runners.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from go_ent.engine.strategies.aggregate import aggregate  # at once: its module has the same name
from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.engine.strategies import multi, parallel, single
    from go_ent.engine.strategies.auto import Complexity, choose, complexity
    from go_ent.engine.strategies.multi import ROLES, chain_for
    from go_ent.engine.strategies.plan import Plan, PlanTask, parse_plan, read_plan
    from go_ent.engine.strategies.pool import Callbacks, run_with_concurrency

HOMES = {
    "auto": ("Complexity", "choose", "complexity"),
    "multi": ("ROLES", "chain_for"),
    "plan": ("Plan", "PlanTask", "parse_plan", "read_plan"),
    "pool": ("Callbacks", "run_with_concurrency"),
}
__all__ = [
    "ROLES",
    "Callbacks",
    "Complexity",
    "Plan",
    "PlanTask",
    "aggregate",
    "chain_for",
    "choose",
    "complexity",
    "multi",
    "parallel",
    "parse_plan",
    "read_plan",
    "run_with_concurrency",
    "single",
]

if not TYPE_CHECKING:
    _lazily, __dir__ = lazily(__name__, HOMES)

    def __getattr__(name: str) -> Any:
        return import_module(f"{__name__}.{name}") if name in ("multi", "parallel", "single") else _lazily(name)
