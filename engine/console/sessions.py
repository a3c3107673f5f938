"""Who is at the console: invitations that are good once, and the sessions that they open.

Only digests of secrets are kept. A session is found by the digest of its cookie, so that how long a look-up takes says
nothing of the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.server.calls.callers import Caller

INVITED_S = 300.0  # that an invitation is good for
IDLE_S = 12 * 3600.0  # that a session lasts without a request
MOST_SESSIONS = 64
MOST_INVITED = 16
MOST_NOTICES = 5
LONGEST = 200  # characters of a secret that are looked at


@dataclass(slots=True)
class Session:
    """One browser: who it acts for, and the token that its forms must bring."""

    caller: Caller
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    seen: float = 0.0
    streams: int = 0  # that it has open
    notices: list[tuple[str, bool]] = field(default_factory=list)  # to be shown once, and whether they are bad news

    def allows(self, token: str) -> bool:
        """Whether a form brought this session's own token."""
        return hmac.compare_digest(token[:LONGEST].encode("utf-8", "replace"), self.csrf.encode())

    def notice(self, text: str, *, bad: bool = False) -> None:
        """Have the next page say something."""
        self.notices = [*self.notices, (text, bad)][-MOST_NOTICES:]

    def take_notices(self) -> list[tuple[str, bool]]:
        """What the next page says: it is said once."""
        taken, self.notices = self.notices, []
        return taken


class Sessions:
    """The invitations and sessions of one server. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._invited: dict[bytes, tuple[Caller, float]] = {}
        self._open: dict[bytes, Session] = {}  # the one that was used last comes last

    def invite(self, caller: Caller) -> str:
        """A token that opens one session, once, soon."""
        token = secrets.token_urlsafe(32)
        self._invited[_digest(token)] = caller, self._clock() + INVITED_S
        while len(self._invited) > MOST_INVITED:
            del self._invited[next(iter(self._invited))]
        return token

    def accept(self, token: str) -> str | None:
        """The cookie of a new session, if *token* is an invitation that nobody has used; it is used up then."""
        digest, match = _digest(token[:LONGEST]), None
        for known in list(self._invited):  # all are compared, whichever it is
            if hmac.compare_digest(known, digest):
                match = known
        if match is None:
            return None
        caller, until = self._invited.pop(match)
        return self.open(caller) if self._clock() < until else None

    def open(self, caller: Caller) -> str:
        """The cookie of a new session. Of who has the most, the one that was unused for longest makes room for it."""
        cookie = secrets.token_urlsafe(32)
        while len(self._open) >= MOST_SESSIONS:
            names = [session.caller.name for session in self._open.values()]
            most = Counter(names).most_common(1)[0][0]
            del self._open[next(digest for digest, one in self._open.items() if one.caller.name == most)]
        self._open[_digest(cookie)] = Session(caller, seen=self._clock())
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session that a cookie belongs to, unless it has rested for too long."""
        digest = _digest(cookie[:LONGEST])
        session = self._open.pop(digest, None)
        if session is None or self._clock() - session.seen > IDLE_S:
            return None
        session.seen = self._clock()
        self._open[digest] = session
        return session

    def close(self, cookie: str) -> None:
        """End a session."""
        self._open.pop(_digest(cookie[:LONGEST]), None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
