"""Approvals: what somebody has decided about calls that wait for it. A decision is sealed, so that a folder can't
decide for its user.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic_core import to_json

from go_ent.composer.project.trust import is_sealed, seal
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.executions.state import ExecutionState, Request


def decision_seal(execution_id: str, path: str, request: Request, approved: bool) -> str:
    """The user's mark on a decision about that very call."""
    return seal(_text(execution_id, path, request.tool, request.digest, approved))


def check_request(path: str, request: Request, *, named: bool) -> None:
    """Refuse to approve what nobody could see: the decision is about what is shown."""
    if request.arguments is None:
        if not named:
            raise ExecutionConflict(
                f"the arguments of call {path}, {request.tool[:200]}, are too long to be shown: name the call "
                "to approve it"
            )
    elif arguments_digest(request.arguments) != request.digest:
        raise ExecutionConflict(
            f"what is shown of call {path}, {request.tool[:200]}, is not what it would do: it can only be rejected"
        )


def arguments_digest(arguments: dict[str, Any]) -> str:
    """One digest for the arguments of a call that waits."""
    return hashlib.sha256(to_json(arguments, inf_nan_mode="constants")).hexdigest()


def decision(state: ExecutionState, path: str, tool: str, digest: str) -> bool | None:
    """What this user has decided about a call, if anything."""
    found = state.decisions.get(path)
    if found is None or not is_sealed(_text(state.id, path, tool, digest, found.approved), found.seal):
        return None
    return found.approved


def _text(execution_id: str, path: str, tool: str, digest: str, approved: bool) -> str:
    return json.dumps(["decision", execution_id, path, tool, digest, approved])
