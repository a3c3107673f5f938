"""Who calls: the project's own user over stdio, or a client with a token over HTTP, who may less."""

from __future__ import annotations

from contextvars import ContextVar

from go_ent.composer import Composer
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.composed.tool_store import StoreScope
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import ExecutionNotFound
from go_ent.engine.engine import Engine
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Row
from go_ent.sandbox.host.sharing import CALLER
from go_ent.sandbox.messages.advice import Advice


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose call is under way. Without a name: the project's own user, who may what the project may."""

    name: str = ""
    allow: tuple[str, ...] | None = None  # tools, at the most; None: all that the project grants
    may_compose: bool = True  # save, change and delete composed tools
    may_run_agents: bool = True  # the engine_* tools that start or change something
    ends_with_project: bool = False  # what is the user's own, and so in every project, is not this caller's to change

    @property
    def scope(self) -> StoreScope | None:
        """The only store of composed tools that this caller may change; None: any."""
        return "project" if self.ends_with_project else None

    def grants(self, composer: Composer) -> Grants:
        """What code of this caller may call."""
        return composer.grants if self.allow is None else composer.grants.narrowed(self.allow)

    def problems(self, composer: Composer) -> dict[str, str]:
        """What is wrong with servers that this caller may reach, and with tools that it may call."""
        found = composer.catalogue.problems
        if self.allow is None:
            return dict(found)
        grants = self.grants(composer)
        reached = {source.origin for source in composer.catalogue.sources if grants.may_reach(source.namespace)}
        return {name: problem for name, problem in found.items() if name in reached or grants.allows(name)}

    def owns(self, state: ExecutionState) -> bool:
        """Whether an execution is this caller's to see, to resume, to interrupt and to decide on.

        A client has those that it has begun itself; the project's own user has all.
        """
        return not self.name or state.client == self.name

    async def find(self, engine: Engine, execution_id: str) -> ExecutionState:
        """The state of an execution of this caller's, by its id or the beginning of it; else `ExecutionNotFound`.

        Somebody else's is not there, in the very words in which one is not there that never was.
        """
        try:
            state = await engine.status(execution_id)
        except ExecutionNotFound:
            if not self.name:
                raise
            state = None
        if state is None or not self.owns(state):
            raise ExecutionNotFound(
                f"there is no execution {execution_id[:80]} of yours", advice=Advice("list_executions")
            )
        return state

    async def executions(self, engine: Engine, limit: int) -> list[Row]:
        """The newest executions of this caller's."""
        return await engine.executions(limit=limit, client=self.name or None)


LOCAL = Caller()
REMOTE = Caller(
    ends_with_project=True
)  # over HTTP, with the token for all that the project may, or on loopback without one
# Whose requests nobody has let in. What is served over HTTP begins with this one, so that a way past the gate leads
# nowhere.
NOBODY = Caller("?", allow=(), may_compose=False, may_run_agents=False, ends_with_project=True)

_current: ContextVar[Caller] = ContextVar("go_ent_caller", default=LOCAL)


def current() -> Caller:
    """The caller of the request under way."""
    return _current.get()


def become(caller: Caller) -> None:
    """Make *caller* the one whose request this task, and whatever it starts, works on."""
    _current.set(caller)
    CALLER.set(caller.name)
