"""Limits in dollars and tokens that hold across processes: `Budget` holds before a call and counts after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.engine.budget.budget import Ask, Budget, Estimate, Reservation, Settled, dollars, tighter
    from go_ent.engine.budget.calendar import Bounds, BudgetWindow, bounds, zone
    from go_ent.engine.budget.commands import Spender, spender
    from go_ent.engine.budget.prices import Price, Prices
    from go_ent.engine.budget.report import BudgetReport, OpenReservation, Spent, Total, WindowReport

# A command that keeps no budget imports only the ledger's module.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "budget": ("Ask", "Budget", "Estimate", "Reservation", "Settled", "dollars", "tighter"),
        "calendar": ("Bounds", "BudgetWindow", "bounds", "zone"),
        "commands": ("Spender", "spender"),
        "prices": ("Price", "Prices"),
        "report": ("BudgetReport", "OpenReservation", "Spent", "Total", "WindowReport"),
    },
)

__all__ = [
    "Ask",
    "Bounds",
    "Budget",
    "BudgetReport",
    "BudgetWindow",
    "Estimate",
    "OpenReservation",
    "Price",
    "Prices",
    "Reservation",
    "Settled",
    "Spender",
    "Spent",
    "Total",
    "WindowReport",
    "bounds",
    "dollars",
    "spender",
    "tighter",
    "zone",
]
