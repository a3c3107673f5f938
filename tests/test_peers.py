"""The adapters of the benchmark's peers, as far as they are installed beside the project."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

from benchmarks.peers.driver import Host
from benchmarks.peers.hostile import HOSTILE
from benchmarks.peers.judge import Judge
from benchmarks.peers.measuring import EVERYDAY, Figures, everyday, everyday_results
from benchmarks.peers.plot import plot

BESIDE_THE_PROJECT = ["go-ent", "pydantic-monty", "FastMCP CodeMode", "RestrictedPython", "subprocess"]


@pytest.mark.more
@pytest.mark.parametrize("peer", BESIDE_THE_PROJECT)
def test_a_peer_answers_and_survives_a_hostile_program(peer: str) -> None:
    with Host(peer, sys.executable) as host:
        if missing := host.ask({"do": "available"}, 30)["missing"]:
            pytest.skip(missing)
    with Judge(peer, sys.executable, timeout=1.0) as judge:
        verdict = judge.try_one("crash by ctypes")
        assert judge.host is not None
        answer = judge.host.run("result = x + 1", inputs={"x": 1})
        failure = judge.host.run("result = 1 / 0")
    assert verdict.survived, verdict.harm
    assert (answer["status"], answer["value"]) == ("completed", 2)
    assert (failure["status"], "ZeroDivisionError" in failure["note"]) == ("error", True)


def test_the_judge_sees_a_secret_that_was_read() -> None:
    with Judge("subprocess", sys.executable, timeout=1.0) as judge:
        assert judge.try_one("read a file").harm == "the secret in its file was read"


def test_every_everyday_program_gives_what_cpython_gives() -> None:
    with Host("go-ent", sys.executable) as host:
        host.ask({"do": "start"}, 60)
        outcomes = everyday(host, everyday_results())
    assert {name: why for name, why in outcomes.items() if why} == {}


def test_there_are_sixty_everyday_and_twenty_hostile_programs() -> None:
    assert (len(EVERYDAY), len(HOSTILE)) == (60, 20)


def test_the_plot_is_well_formed() -> None:
    figures = {
        "go-ent": Figures(fresh_ms=2.0, everyday={"a": "", "b": "error"}, hostile={"c": ""}),
        "a & b": Figures(fresh_ms=700.0),
    }
    words = [element.text for element in ElementTree.fromstring(plot(figures)).iter("{http://www.w3.org/2000/svg}text")]
    assert {"go-ent", "1 of 2", "a & b", "700 ms"} <= set(words)
