"""How tasks are run: one after the other (`single`), from role to role (`multi`), or as a graph (`parallel`).

A strategy decides which step is run when, and runs it with the `RunStep` that it is given; it knows nothing of runners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.strategies.aggregate import aggregate  # at once: its module has the same name

if TYPE_CHECKING:
    from engine.strategies import multi, parallel, single
    from engine.strategies.auto import Complexity, choose, complexity
    from engine.strategies.multi import ROLES, chain_for
    from engine.strategies.plan import Plan, PlanTask, parse_plan, read_plan
    from engine.strategies.pool import Callbacks, run_with_concurrency
    from engine.strategies.step import Output, RunStep, Step

_HOMES = {
    "auto": ("Complexity", "choose", "complexity"),
    "multi": ("ROLES", "chain_for"),
    "plan": ("Plan", "PlanTask", "parse_plan", "read_plan"),
    "pool": ("Callbacks", "run_with_concurrency"),
    "step": ("Output", "RunStep", "Step"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "ROLES",
    "Callbacks",
    "Complexity",
    "Output",
    "Plan",
    "PlanTask",
    "RunStep",
    "Step",
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


def __getattr__(name: str) -> Any:
    # Lazily: what runs code alone needs none of the strategies.
    from importlib import import_module

    if name in ("multi", "parallel", "single"):
        return import_module(f"engine.strategies.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'engine.strategies' has no attribute {name!r}")
    return getattr(import_module(f"engine.strategies.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
