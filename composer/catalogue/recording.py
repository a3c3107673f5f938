"""What a run over tools needs of its record so that it can be resumed."""

from __future__ import annotations

from typing import Any, Protocol, Self

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.sandbox.worker.tape import Tape


class Recording(Tape, Protocol):
    """The tape of one guest run, and of the runs that its calls start. `call_id` is the call's number in the guest;
    0 is the run itself.
    """

    execution: str  # its id

    def inside(self, call_id: int) -> Self:
        """The recording of the run that a call starts: of a composed tool."""

    def path(self, call_id: int) -> str:
        """One name for one call, in the whole execution."""

    def decision(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any]) -> bool | None:
        """Whether that very call was approved or rejected; None if nobody has decided."""

    def decided(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any], approved: bool) -> None:
        """Somebody who was there has decided. May raise OSError."""

    def ask(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any], reason: str) -> None:
        """The call waits for approval: kept, so that somebody can decide later. May raise OSError."""

    async def dispatch(self, call_id: int, spec: ToolSpec) -> bool:
        """The call is about to be made: on disk when this returns. False: it is taken as done, and is not made.

        Raises `CallError` if it was begun before, nobody knows whether it was done, and it is to fail for that. May
        raise OSError.
        """
