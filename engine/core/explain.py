"""What is wrong with data, in words that a person can act on."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError

from go_ent.composer.errors import did_you_mean
from go_ent.engine.core.models import Model

MOST = 5


def explain(error: Exception) -> str:
    """What is wrong with data, in one line."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
    said = []
    for one in error.errors(include_url=False, include_input=False)[:MOST]:
        where = ".".join(str(part) for part in one["loc"])
        said.append(f"{where}: {problem(one)}" if where else problem(one))
    return "; ".join(said)


def problem(one: Any) -> str:
    """One of pydantic's errors."""
    message = str(one["msg"]).removeprefix("Value error, ")
    match one["type"]:
        case "extra_forbidden":
            name = str(one["loc"][-1])
            return f"there is no such setting{did_you_mean(difflib.get_close_matches(name, _names(), 2, 0.7))}"
        case "model_type" | "model_attributes_type" | "dict_type":
            limit = "BudgetLimit" in message
            return "it should be a table, like { usd = 5.0 }" if limit else "it should be a table"
        case "tuple_type" | "list_type":
            return 'it should be a list, like ["a", "b"]'
        case "string_pattern_mismatch":
            return f"it can't be that: {message}"
    return message


def _names() -> frozenset[str]:
    """Everything that can be set in a model that is loaded."""
    names, models = {"prompt"}, [Model]
    while models:
        model = models.pop()
        names |= set(model.model_fields)
        models += model.__subclasses__()
    return frozenset(names)
