"""Limits in dollars and tokens that hold across processes: `Budget` holds before a call and counts after it."""

from __future__ import annotations

from go_ent.engine.budget.budget import Ask, Budget, Estimate, Reservation, Settled, dollars, tighter
from go_ent.engine.budget.calendar import Bounds, BudgetWindow, bounds, zone
from go_ent.engine.budget.commands import Spender, spender
from go_ent.engine.budget.prices import Price, Prices
from go_ent.engine.budget.report import BudgetReport, OpenReservation, Spent, Total, WindowReport
from go_ent.engine.core.errors import LedgerError

__all__ = [
    "Ask",
    "Bounds",
    "Budget",
    "BudgetReport",
    "BudgetWindow",
    "Estimate",
    "LedgerError",
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
