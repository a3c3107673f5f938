"""OpenTelemetry spans: for programs that have configured an SDK. For others they cost next to nothing, and import
nothing.

Of what runs they tell names, ids, counts and how it ended: never arguments, results or messages.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Literal

Value = str | int | float | bool
Kind = Literal["internal", "client"]


class Span:
    """One span; without an SDK it is nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    @property
    def listened(self) -> bool:
        """Whether anybody gets it."""
        return self._span is not None

    def set(self, **attributes: Value) -> None:
        """Attributes; `execution_id` is `go_ent.execution_id`."""
        if self._span is not None:
            for name, value in attributes.items():
                self._span.set_attribute(f"go_ent.{name}", value)

    def fail(self, kind: str) -> None:
        """It did not succeed; *kind* is a word for how."""
        if self._span is not None:
            trace = sys.modules["opentelemetry.trace"]
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, kind))


NOTHING = Span()


def span(name: str, kind: Kind = "internal", **attributes: Value) -> contextlib.AbstractContextManager[Span]:
    """A span around what happens inside. An exception is told by its class alone."""
    tracer = _tracer()
    return _NO_SPAN if tracer is None else _span(tracer, name, kind, attributes)


_NO_SPAN = contextlib.nullcontext(NOTHING)


@contextlib.contextmanager
def _span(tracer: Any, name: str, kind: Kind, attributes: dict[str, Value]) -> Iterator[Span]:
    trace = sys.modules["opentelemetry.trace"]
    kinds = trace.SpanKind.CLIENT if kind == "client" else trace.SpanKind.INTERNAL
    with tracer.start_as_current_span(name, kind=kinds, record_exception=False, set_status_on_exception=False) as made:
        told = Span(made)
        told.set(**attributes)
        try:
            yield told
        except BaseException as error:
            told.fail(type(error).__name__)
            raise


def _tracer() -> Any:
    """The tracer, if a program has configured an SDK: then the API is imported."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider.get_tracer("go-ent")
