"""How tasks are run: one after the other (`single`), from role to role (`multi`), or as a graph (`parallel`).

A strategy decides which step is run when, and runs it with the `RunStep` that it is given; it knows nothing of runners.
"""

from engine.strategies import multi, parallel, single
from engine.strategies.aggregate import aggregate
from engine.strategies.auto import Complexity, choose, complexity
from engine.strategies.multi import ROLES, chain_for
from engine.strategies.plan import Plan, PlanTask, parse_plan, read_plan
from engine.strategies.pool import run_with_concurrency
from engine.strategies.step import Output, RunStep, Step

__all__ = [
    "ROLES",
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
