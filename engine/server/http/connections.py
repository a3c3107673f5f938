"""Connections over HTTP: how many there are, who makes room for whom, and how long a request's head may take.

One on which a request of a known client is under way is that client's, and stays. All others rest: they say nothing, or
nothing yet by which they would be known. There is always room for a new one, because the oldest that rests is closed
for it, of those who have the most: so who opens many closes their own, and `/healthz` answers whatever the others hold.
"""

from __future__ import annotations

import asyncio
import ipaddress

from go_ent.engine.adapters.uvicorn_adapter import HttpProtocol

ROOM = 64  # connections that rest, beside all that are in use
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


class Lobby:
    """The connections that are open: *most* at one time, *head_s* for a request's head."""

    def __init__(self, most: int, head_s: float) -> None:
        self.most = most
        self.head_s = head_s
        self._open: set[Connection] = set()
        self._resting: dict[str, dict[Connection, None]] = {}  # by whose they are, the oldest first

    def __len__(self) -> int:
        return len(self._open)

    def come(self, connection: Connection) -> bool:
        """Take a new one in; whether there is, or can be made, room for it."""
        if len(self._open) >= self.most and self._resting:
            fullest = max(self._resting.values(), key=len)
            next(iter(fullest)).give_way()
        if len(self._open) >= self.most:
            return False
        self._open.add(connection)
        self._resting.setdefault(connection.whose, {})[connection] = None
        return True

    def use(self, connection: Connection, whose: str) -> None:
        """A request of a client's is under way on it."""
        self._unrest(connection)
        connection.whose = whose

    def rest(self, connection: Connection) -> None:
        """It is not, any more."""
        if connection in self._open:
            self._resting.setdefault(connection.whose, {})[connection] = None

    def go(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._unrest(connection)

    def _unrest(self, connection: Connection) -> None:
        group = self._resting.get(connection.whose, {})
        group.pop(connection, None)
        if not group:
            self._resting.pop(connection.whose, None)


class Connection(HttpProtocol):
    """uvicorn's own, in a lobby, and with a time for a request's head. Requests find it in their scope's state.

    Without these, who says nothing takes all the files that a process may open, and who sends a byte now and then is
    never sent away.
    """

    lobby: Lobby
    whose = ""
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername")
        self.whose = f"address {_network(peer[0])}" if peer else "address ?"
        self.transport = transport
        if not self.lobby.come(self):
            self._refused = True
            transport.write(FULL)
            transport.close()
            return
        self.app_state = {**self.app_state, "connection": self}
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self.lobby.go(self)
        if not self._refused:
            super().connection_lost(exc)

    def give_way(self) -> None:
        """Close it for another."""
        self.lobby.go(self)
        self.transport.abort()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._deadline = self.loop.call_later(self.lobby.head_s, self._late)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


def protocol(lobby: Lobby) -> type[asyncio.Protocol]:
    """What uvicorn makes for each connection."""
    return type("Connection", (Connection,), {"lobby": lobby})


def _network(host: str) -> str:
    """Whose addresses are one's own: of IPv6 everybody has a whole network of them."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
