"""How a guest's run ends. Light: workers and hosts both need it, and nothing else of each other."""

from __future__ import annotations

from go_ent.dataclass import dataclass


class Stop(BaseException):
    """Internal: raised by a host function to end the guest. It becomes a trap, which guest code can't catch."""


@dataclass(slots=True)
class End:
    """With an answer, stopped by the host (`reason`), or by a trap."""

    answer: bytes | bytearray | None = None
    reason: str | None = None
    trap: str | None = None
