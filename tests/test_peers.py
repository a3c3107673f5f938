"""The adapters of the benchmark's peers, as far as they are installed beside the project."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.peers import javascript
from benchmarks.peers.driver import Host, HostGone
from benchmarks.peers.environments import Missing
from benchmarks.peers.hostile import HOSTILE
from benchmarks.peers.judge import Judge
from benchmarks.peers.measuring import EVERYDAY, FRESH, Figures, Wrong, everyday, everyday_results, noted, timings
from benchmarks.peers.plot import plot
from benchmarks.peers.report import Report

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


@pytest.mark.more
def test_every_everyday_program_gives_what_cpython_gives() -> None:
    with Host("go-ent", sys.executable) as host:
        host.ask({"do": "start"}, 60)
        outcomes = everyday(host, everyday_results())
    assert {name: why for name, why in outcomes.items() if why} == {}


def test_a_host_that_dies_fails_that_program_and_is_started_again() -> None:
    with Host("subprocess", sys.executable) as host:
        host.start()
        host.process.kill()
        with pytest.raises(HostGone, match="the host died"):
            host.run("result = 1")
        assert host.is_gone
        assert host.run("result = 2")["value"] == 2


def test_a_peer_that_fails_is_noted_and_the_page_is_made() -> None:
    report = Report("a machine", quick=True)
    report.figures = {"go-ent": Figures(fresh_ms=1.0, everyday={"a": ""}, hostile={"b": ""}), "other": Figures()}
    failures = report.figures["other"].failures
    for what, failure in ((FRESH, HostGone("the host died")), ("fib(24)", Wrong("error:\n no"))):
        with noted(report.figures["other"], what):
            raise failure
    assert failures == {FRESH: "the host died", "fib(24)": "error: no"}
    page = report.page()
    assert "| other | – | – | – | – | – / – | – | – | – |" in page
    assert "- **other**, a fresh 1 + 1: the host died" in page
    assert "| everyday programs | go-ent | go-ent |" in page
    assert "–" in plot(report.figures)


def test_a_peer_that_can_not_be_timed_stops_no_other() -> None:
    figures = {"subprocess": Figures(), "broken": Figures()}
    with Host("subprocess", sys.executable) as host, Host("subprocess", sys.executable) as broken:
        host.start()
        broken.start()
        broken.peer = "no such peer"  # so that it can not be started again
        broken.end()
        timings({"broken": broken, "subprocess": host}, figures, rounds=1)
    assert (figures["broken"].fresh_ms, set(figures["broken"].failures)) == (None, {FRESH})
    assert figures["subprocess"].fresh_ms is not None


def test_what_the_readme_says_of_others_is_what_was_measured() -> None:
    root = Path(__file__).parent.parent
    peers = json.loads((root / "docs/benchmarks/peers.json").read_text())["peers"]
    assert "smaller and starts in less than half the time" in " ".join((root / "README.md").read_text().split())
    monty, ours = peers["pydantic-monty"], peers["go-ent"]
    assert monty["fresh_ms"] < ours["fresh_ms"] / 2
    assert monty["running_mb"] < ours["running_mb"]


def test_there_are_sixty_everyday_and_twenty_hostile_programs() -> None:
    assert (len(EVERYDAY), len(HOSTILE)) == (60, 20)


def test_without_npm_the_peers_inside_node_are_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="npm is not on the PATH"):
        javascript.host_of("node:vm")
    ours = javascript.JavaScriptFigures(fresh_s=[0.001, 0.002, 0.003], everyday={"a": "", "b": "another result"})
    report = Report("a machine", quick=True)
    report.javascript = javascript.JavaScript({javascript.OURS: ours}, {"node:vm": "npm is not on the PATH"})
    page = report.page()
    assert "| fresh 1 + 2 | 2 ms |" in page
    assert "| everyday | 1 / 2 |" in page
    assert "It can't be had here: npm is not on the PATH" in page
    report.save(tmp_path)
    assert json.loads((tmp_path / "peers.json").read_text())["javascript"]["peers"][javascript.OURS]["fresh_ms"] == 2


def test_a_program_for_node_gives_its_value_as_json() -> None:
    assert javascript.wrapped("const x = 1\n//=\nx\n").endswith(
        "(async () => { const x = 1\n\nreturn JSON.stringify((x\n), plain) })()"
    )
    assert javascript.unwrapped({"a": [{"big": "12345678901234567890"}, {"b": 1}]}) == {
        "a": [12345678901234567890, {"b": 1}]
    }


def test_the_plot_is_well_formed() -> None:
    figures = {
        "go-ent": Figures(fresh_ms=2.0, everyday={"a": "", "b": "error"}, hostile={"c": ""}),
        "a & b": Figures(fresh_ms=700.0),
    }
    words = [element.text for element in ElementTree.fromstring(plot(figures)).iter("{http://www.w3.org/2000/svg}text")]
    assert {"go-ent", "1 of 2", "a & b", "700 ms"} <= set(words)
