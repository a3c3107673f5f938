"""Limits in dollars and tokens that hold across processes: `Budget` holds before a call and counts after it."""

from __future__ import annotations

from engine.budget.commands import Spender, spender
from engine.budget.gate import Ask, Budget, Estimate, Reservation, Settled, dollars, tighter
from engine.budget.ledger import LedgerError
from engine.budget.prices import Price, Prices
from engine.budget.report import BudgetReport, OpenReservation, Spent, Total, WindowReport
from engine.budget.windows import Bounds, Window, bounds, zone

__all__ = [
    "Ask",
    "Bounds",
    "Budget",
    "BudgetReport",
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
    "Window",
    "WindowReport",
    "bounds",
    "dollars",
    "spender",
    "tighter",
    "zone",
]
