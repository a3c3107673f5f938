"""Invitations are good once and soon; sessions are bounded, and end when they rest."""

from __future__ import annotations

from go_ent.engine.console.sessions import IDLE_S, INVITED_S, MOST_INVITED, MOST_SESSIONS, Sessions
from go_ent.engine.server.calls.callers import LOCAL


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_invitation_is_good_once() -> None:
    sessions = Sessions()
    token = sessions.invite(LOCAL)
    cookie = sessions.accept(token)
    assert cookie is not None
    assert sessions.accept(token) is None
    found = sessions.find(cookie)
    assert found is not None
    assert found.caller is LOCAL


def test_an_invitation_is_good_for_five_minutes() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    token = sessions.invite(LOCAL)
    clock.now += INVITED_S
    assert sessions.accept(token) is None


def test_old_invitations_make_room() -> None:
    sessions = Sessions()
    first = sessions.invite(LOCAL)
    for _ in range(MOST_INVITED):
        sessions.invite(LOCAL)
    assert sessions.accept(first) is None


def test_a_session_ends_when_it_rests_or_is_closed() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    cookie = sessions.open(LOCAL)
    clock.now += IDLE_S - 1
    assert sessions.find(cookie) is not None
    clock.now += IDLE_S - 1
    assert sessions.find(cookie) is not None
    clock.now += IDLE_S + 1
    assert sessions.find(cookie) is None
    other = sessions.open(LOCAL)
    sessions.close(other)
    assert sessions.find(other) is None


def test_the_session_that_was_unused_for_longest_makes_room() -> None:
    sessions = Sessions()
    first, second = sessions.open(LOCAL), sessions.open(LOCAL)
    for _ in range(MOST_SESSIONS - 2):
        sessions.open(LOCAL)
    assert sessions.find(first) is not None
    sessions.open(LOCAL)
    assert sessions.find(second) is None
    assert sessions.find(first) is not None


def test_a_forms_token_is_its_sessions_own() -> None:
    sessions = Sessions()
    one, other = (sessions.find(sessions.open(LOCAL)) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.allows(one.csrf)
    for wrong in ("", other.csrf, one.csrf + "x", one.csrf[:-1], "ü"):
        assert not one.allows(wrong)


def test_a_notice_is_shown_once() -> None:
    sessions = Sessions()
    session = sessions.find(sessions.open(LOCAL))
    assert session is not None
    session.notice("done")
    assert session.take_notices() == [("done", False)]
    assert session.take_notices() == []
