"""Code mode: what a model gets back, and what it can go on with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from go_ent.composer import BadName, Catalogue, CodeMode, FunctionSource, Grants
from go_ent.composer.catalogue.spec import CallContext
from go_ent.composer.codemode import codemode
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.sandbox import LimitError, Sandbox


def search(q: str, top: int = 3) -> list[str]:
    """Find texts.

    Args:
        q: What to look for.
    """
    return [f"{q} {index}" for index in range(top)]


def mode(box: Sandbox, **options: Any) -> CodeMode:
    return CodeMode(Catalogue([FunctionSource([search]), FunctionSource([search], "web")]), box, **options)


def execute(box: Sandbox, code: str, inputs: dict[str, Any] | None = None, **options: Any) -> CodeRun:
    return asyncio.run(mode(box, grants=Grants(["web.*"], top_level=True)).execute(code, inputs, **options))


class TestResults:
    def test_a_result(self, shared_box: Sandbox) -> None:
        run = execute(shared_box, "hits = await tools.search(q=topic)\n[h.upper() for h in hits]", {"topic": "a"})
        assert (run.status, run.result, run.help) == ("completed", ["A 0", "A 1", "A 2"], None)
        assert [call.name for call in run.calls] == ["search"]

    def test_by_position_and_by_name(self, shared_box: Sandbox) -> None:
        assert execute(shared_box, "await tools.web.search('x', top=1)").result == ["x 0"]
        run = execute(shared_box, "await tools.web.search('x', q='y')")
        assert run.error is not None
        assert "q was given twice, by position and by name" in run.error.message
        run = execute(shared_box, "await tools.web.search('x', 1, 2)")
        assert run.error is not None
        assert "it takes 2 arguments at most, and 3 were given" in run.error.message

    async def test_an_overlong_result_is_cut_and_kept(self, shared_box: Sandbox) -> None:
        code = mode(shared_box, max_result_chars=100)
        run = await code.execute("list(range(1000))")
        assert (run.status, run.result_truncated) == ("completed", True)
        assert isinstance(run.result, str)
        assert run.result.startswith("[0,1,2,3,")
        assert run.result.endswith(",998,999]")  # the end is shown too
        assert "… [cut: 3791 of 3891 characters; the whole is kept" in run.result
        assert f'`rest = await tools.results.read(id="{run.id}")`' in run.result
        rest = await code.execute("sum(await tools.results.read(id=i))", {"i": run.id})
        assert rest.result == 499500
        gone = await code.execute("await tools.results.read(id='nope')")
        assert gone.error is not None
        assert "no result of a run 'nope' is kept" in gone.error.message

    async def test_one_that_is_kept_again_counts_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that was gone on with has the id of the first."""
        monkeypatch.setattr(codemode, "MAX_KEPT_BYTES", 100)
        results = codemode.Results()
        results.keep("other", b"1" * 40)
        for _ in range(5):
            results.keep("same", b"2" * 40)
        assert (await results.call("read", {"id": "other"}, CallContext())) == int("1" * 40)

    def test_larger_than_the_sandbox_hands_over(self, shared_box: Sandbox) -> None:
        run = execute(shared_box, "'é' * 3_000_000")
        assert (run.status, run.result_truncated) == ("completed", True)
        assert isinstance(run.result, str)
        assert "of 6000002 bytes of JSON are shown; return less" in run.result
        assert len(run.result) < 21_000

    def test_a_result_that_fits_is_whole(self, shared_box: Sandbox) -> None:
        assert execute(shared_box, "'x' * 19_000").result == "x" * 19_000


class TestErrors:
    def test_stubs_of_what_was_called_wrongly(self, shared_box: Sandbox) -> None:
        run = execute(shared_box, "await tools.web.search(query='x')")
        assert run.error is not None
        assert (run.error.line, run.error.hint is not None) == (1, True)
        assert "there is no parameter query; it takes q, top" in run.error.message
        assert run.help is not None
        assert "async def search(self, q: str, top: int = 3) -> list[str]:" in run.help
        assert "What to look for." in run.help

    def test_stubs_of_what_may_have_been_meant(self, shared_box: Sandbox) -> None:
        run = execute(shared_box, "await tools.serch(q='x')")
        assert run.error is not None
        assert "there is no tool serch" in run.error.message
        assert run.help is not None
        assert "async def search" in run.help

    def test_an_error_of_the_code_needs_no_stubs(self, shared_box: Sandbox) -> None:
        run = execute(shared_box, "await tools.search(q='x')\n1 / 0")
        assert (run.status, run.help) == ("error", None)

    async def test_a_tool_that_is_not_granted(self, shared_box: Sandbox) -> None:
        run = await mode(shared_box).execute("await tools.web.search(q='x')")
        assert run.error is not None
        assert (run.error.message, run.help) == ("web.search: it is not granted here", None)

    async def test_the_first_typo_in_a_namespace_that_nobody_has_asked_yet(self, shared_box: Sandbox) -> None:
        web = FunctionSource([search], "web")
        web.local = False
        code = CodeMode(Catalogue([web]), shared_box, grants=Grants(["web.search"]))
        run = await code.execute("await tools.web.serch(q='x')")
        assert run.error is not None
        assert run.error.message == "web.serch: there is no tool web.serch; did you mean web.search?"
        assert "async def search" in (run.help or "")

    def test_limits_only_narrow(self, shared_box: Sandbox) -> None:
        assert execute(shared_box, "while True: pass", limits={"cpu_s": 0.2}).status == "cpu_limit"
        with pytest.raises(LimitError, match="a run can only narrow it"):
            execute(shared_box, "1", limits={"cpu_s": 1000})


class TestSessions:
    async def test_state_only_in_a_session(self, shared_box: Sandbox) -> None:
        code = mode(shared_box)
        await code.execute("x = 5")
        assert (await code.execute("x")).status == "error"
        await code.execute("x = 5", session="work")
        assert (await code.execute("x + len(await tools.search(q='a'))", session="work")).result == 8
        assert (await code.execute("x", session="other")).status == "error"
        assert code.end_session("work")
        assert (await code.execute("x", session="work")).status == "error"
        code.close()

    async def test_a_session_that_ended_begins_anew(self, shared_box: Sandbox) -> None:
        code = mode(shared_box)
        await code.execute("x = 5", session="work")
        assert (await code.execute("while True: pass", session="work", limits={"cpu_s": 0.2})).status == "cpu_limit"
        assert (await code.execute("1", session="work")).result == 1
        code.close()

    def test_names_of_sessions(self, shared_box: Sandbox) -> None:
        with pytest.raises(BadName, match="can't be the name of a session"):
            execute(shared_box, "1", session="../x")
