"""What is wrong with the engine's data, in words that a person can act on."""

from __future__ import annotations

from pydantic import ValidationError

from go_ent.engine.core.models import Model
from go_ent.sandbox.messages import validation


def explain(error: Exception) -> str:
    """What is wrong with data, in one line."""
    if isinstance(error, ValidationError):
        return validation.explain(error, names=names())
    return f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)


def names() -> frozenset[str]:
    """Everything that can be set in a model that is loaded."""
    names, models = {"prompt"}, [Model]
    while models:
        model = models.pop()
        names |= set(model.model_fields)
        models += model.__subclasses__()
    return frozenset(names)
