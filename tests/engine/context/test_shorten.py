"""A context made shorter: what is pinned stays word for word, the rest is told in short, and it always fits."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from go_ent.engine.context.chain import Chain
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.models import Message, Speaker, Summarizer, Summary, SummaryRequest
from go_ent.engine.context.shorten import Condensed, summarize_context
from go_ent.engine.context.split import pieces
from go_ent.engine.context.summarizers import ModelSummarizer
from go_ent.engine.core.errors import ContextTooLarge, SummaryFailed
from go_ent.engine.core.models import ModelOptions, ModelReply
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.storage.attachments import FileAttachments

COUNTER = Counter()


def message(name: str, text: str, *, pinned: bool = False, speaker: Speaker = "user", source: str = "") -> Message:
    return Message(id=name, speaker=speaker, text=text, source=source, pinned=pinned, tokens=COUNTER.count(text))


def filler(words: int, seed: int = 0) -> str:
    """Prose that says nothing: so many words, which are about as many tokens."""
    chosen = random.Random(seed).choices(
        ["the", "house", "river", "went", "green", "and", "over", "slow", "by", "morning"], k=words
    )
    return " ".join(chosen).capitalize() + "."


def talk(count: int, words: int = 60) -> list[Message]:
    return [message(f"m{at}", filler(words, at)) for at in range(count)]


def condense(
    messages: list[Message], *summarizers: Summarizer, target: int = 400, window: int = 8000, **more: Any
) -> Condensed:
    options: dict[str, Any] = {"counter": COUNTER, "timeout_s": 10.0} | more
    return asyncio.run(
        summarize_context(messages, target_tokens=target, window_tokens=window, summarizers=summarizers, **options)
    )


def size(messages: tuple[Message, ...] | list[Message]) -> int:
    return sum(COUNTER.count(one.text) for one in messages)


class Writes:
    """A summariser that writes what a function of the request says, and remembers the requests."""

    def __init__(self, write: Any, cost: float | None = 0.25) -> None:
        self.name = "writer"
        self.write, self.cost = write, cost
        self.asked: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        return Summary(text=self.write(request), by=self.name, model="cheap", cost_usd=self.cost)


def says(text: str) -> Writes:
    return Writes(lambda request: text)


class TestWhatStays:
    def test_a_context_that_fits_is_left_as_it_is(self) -> None:
        writer, context = says("never"), talk(3)
        assert condense(context, writer, target=400) == Condensed(tuple(context), None)
        assert writer.asked == []

    def test_pinned_messages_and_the_last_ones_stay_and_one_summary_is_in_the_place_of_the_rest(self) -> None:
        context = talk(12)
        context[0] = message("task", "Make it so.", pinned=True)
        context[5] = message("rule", "Never touch `main`.\n", pinned=True)
        made = condense(context, says("In short."), last=3, target=500)
        assert [one.id for one in made.messages if one.speaker != "summary"] == ["task", "rule", "m9", "m10", "m11"]
        assert [one.speaker for one in made.messages] == ["user", "summary", "user", "user", "user", "user"]
        assert {one for one in made.messages if one.speaker != "summary"} <= {*context}
        assert made.messages[1].text == "In short."
        assert [one.id for one in made.replaced] == ["m1", "m2", "m3", "m4", "m6", "m7", "m8"]

    def test_the_link_says_how_it_came_to_be(self) -> None:
        made = condense(talk(12), says("In short."), last=3, scope="step-1")
        link = made.link
        assert link is not None
        assert (link.summary, link.by, link.model, link.cost_usd, link.scope) == (
            "In short.",
            "writer",
            "cheap",
            0.25,
            "step-1",
        )
        assert link.replaced == tuple(one.id for one in made.replaced)
        assert (link.tokens_before, link.tokens_after) == (size(made.replaced), COUNTER.count("In short."))
        assert (link.tried, link.appended) == ((), ())

    def test_last_messages_that_leave_no_room_go_into_the_summary_the_oldest_first(self) -> None:
        context = [*talk(4), message("long", filler(300)), message("x", "One."), message("y", "Two.")]
        made = condense(context, says("In short."), last=3, target=300)
        assert [one.id for one in made.messages[1:]] == ["x", "y"]
        assert made.replaced[-1].id == "long"

    def test_pinned_messages_that_leave_no_room_in_the_window_are_named_with_their_size(self) -> None:
        context = [
            message("small", "Be kind.", pinned=True),
            message("big", filler(900), pinned=True, source="spec.md"),
            *talk(3),
        ]
        tokens = context[1].tokens
        with pytest.raises(ContextTooLarge, match=rf"of a window of 900: big \(spec\.md\): {tokens}, small: 3$"):
            condense(context, window=900)

    def test_pinned_messages_above_the_target_stay_and_the_rest_is_as_short_as_can_be(self) -> None:
        context = [message("big", filler(500), pinned=True), *talk(6)]
        made = condense(context, target=300, window=1000)
        assert made.messages[0] == context[0]
        assert len(made.messages) == 2
        assert made.messages[1].tokens <= 64
        assert condense([*made.messages], target=300, window=1000).link is None  # it can't get shorter

    def test_when_all_is_pinned_nothing_is_replaced(self) -> None:
        context = [message(f"p{at}", filler(100), pinned=True) for at in range(6)]
        assert condense(context, says("never"), target=300) == Condensed(tuple(context), None)

    @pytest.mark.parametrize(
        "text", [" \n" * 3000, "<|endoftext|>" * 900, "\ud800 x\0" * 900, "`" * 9000, "x" * 60_000]
    )
    def test_any_text_can_be_told_in_short(self, text: str) -> None:
        made = condense([message("odd", text), *talk(2)])
        assert size(made.messages) <= 400
        assert made.link is not None


class TestTheCheck:
    @staticmethod
    def context() -> list[Message]:
        return [
            message("task", "Finish ABC-123 in src/app/main.py.", pinned=True),
            message("a", "ABC-123 is about src/app/main.py and other/file.py, which took 350 ms. " + filler(300)),
            message("b", filler(300) + " The job is job_77b."),
            message("c", "So job_77b took 350 ms."),
        ]

    def test_names_that_are_still_referred_to_are_put_back_if_they_are_missing(self) -> None:
        made = condense(self.context(), says("Something about job_77b."), last=1)
        assert made.link is not None
        assert made.link.appended == ("src/app/main.py", "ABC-123", "350 ms")
        assert made.messages[1].text == "Something about job_77b.\n\nAlso: src/app/main.py, ABC-123, 350 ms"
        assert made.link.summary == made.messages[1].text

    def test_the_summariser_is_asked_to_keep_them(self) -> None:
        writer = says("ABC-123, src/app/main.py, 350 ms, job_77b")
        made = condense(self.context(), writer, last=1, purpose="Finish it.")
        assert made.link is not None
        assert made.link.appended == ()
        assert {*writer.asked[0].keep} == {"src/app/main.py", "ABC-123", "350 ms", "job_77b"}
        assert writer.asked[0].purpose == "Finish it."

    def test_a_longer_name_is_not_the_name(self) -> None:
        made = condense(self.context(), says("ABC-1234 and src/app/main.pyc; 350 ms; job_77b"), last=1)
        assert made.link is not None
        assert made.link.appended == ("src/app/main.py", "ABC-123")

    def test_more_names_than_there_is_room_for_do_not_make_it_too_large(self) -> None:
        names = " ".join(f"name_{at}_of_it" for at in range(400))
        context = [message("a", names + filler(2000)), message("b", names, pinned=True)]
        made = condense(context, says("Short."), target=context[1].tokens + 300, window=9000)
        assert made.link is not None
        assert 10 < len(made.link.appended) < 400
        assert size(made.messages) <= context[1].tokens + 300


class TestSize:
    def test_a_summary_that_is_too_long_is_redone_shorter(self) -> None:
        writer = Writes(lambda request: filler(int(request.target_tokens * 1.3)))
        made = condense(talk(20), writer, last=0)
        assert made.link is not None
        assert made.link.by == "writer"
        assert made.link.cost_usd == 0.25 * len(writer.asked)
        targets = [one.target_tokens for one in writer.asked]
        assert targets == sorted(targets, reverse=True)
        assert size(made.messages) <= 400

    def test_one_that_never_gets_shorter_is_cut(self) -> None:
        writer = says(filler(600) + " Decided: use port 8123. " + filler(600))
        made = condense(talk(40), writer, last=0, target=300)
        assert len(writer.asked) == 3
        assert made.link is not None
        assert re.match(r"writer: 1\d{3} tokens, and there is room for 300", made.link.tried[0])
        assert size(made.messages) <= 300
        assert "8123" in made.messages[0].text

    def test_when_a_summariser_fails_the_deterministic_one_does_it(self) -> None:
        def fail(request: SummaryRequest) -> str:
            raise SummaryFailed("it refused", 0.5)

        made = condense(talk(20), Writes(fail))
        assert made.link is not None
        assert (made.link.by, made.link.tried, made.link.cost_usd) == ("deterministic", ("writer: it refused",), 0.5)
        assert size(made.messages) <= 400

    def test_what_a_model_cost_is_not_known_to_be_nothing_because_no_model_cost_nothing(self) -> None:
        writer = Writes(lambda request: filler(900), cost=None)
        made = condense(talk(20), writer, last=0)
        assert made.link is not None
        assert made.link.cost_usd is None

    def test_without_a_model_that_works_all_the_room_is_used(self) -> None:
        def fail(request: SummaryRequest) -> str:
            raise SummaryFailed("no")

        context = [
            message(f"m{at}", f"We decided on port {at} for service_{at}. {filler(30, at)}") for at in range(200)
        ]
        with_one, without = condense(context, Writes(fail), target=4000), condense(context, target=4000)
        assert with_one.messages[0].text == without.messages[0].text
        assert with_one.messages[0].tokens > 2000

    def test_one_that_keeps_failing_is_not_asked_for_every_piece(self) -> None:
        def fail(request: SummaryRequest) -> str:
            raise SummaryFailed("no")

        writer = Writes(fail)
        condense(talk(150), writer, window=2000)
        assert len(writer.asked) < 10

    def test_the_order_of_preference_ends_at_the_deterministic_one(self) -> None:
        writer = says("never")
        made = condense(talk(20), Deterministic(COUNTER), writer)
        assert writer.asked == []
        assert made.link is not None
        assert made.link.cost_usd == 0


class Strict:
    """A model with a window: a request that does not fit it, with the answer that it may have to write, is an error."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.asked: list[str] = []

    async def __call__(self, system: str, user: str, options: ModelOptions) -> ModelReply:
        assert options.max_tokens is not None
        tokens = COUNTER.count(system) + COUNTER.count(user) + options.max_tokens
        assert tokens <= self.window, f"{tokens} tokens"
        self.asked.append(user)
        told = re.findall(r"\bfact_\d+\b", user)
        return ModelReply(text=f"The facts are {', '.join(dict.fromkeys(told))}." if told else "Nothing of note.")


class TestMoreThanARequest:
    @pytest.mark.parametrize("window", [3000, 12_000])
    def test_no_request_is_larger_than_the_window_and_every_part_is_read(self, tmp_path: Path, window: int) -> None:
        paragraphs = "\n\n".join(f"{filler(500, at)} And fact_{at} holds." for at in range(40))
        context = [message("giant", paragraphs, source="a/long/path/" * 30), *talk(200, 20), message("end", "Go on.")]
        model = Strict(window)
        summarizer = ModelSummarizer(model, Templates(tmp_path, trusted=False), "strict", counter=COUNTER)
        made = condense(context, summarizer, target=window // 2, window=window, purpose=filler(3000), last=1)
        assert made.link is not None
        assert (made.link.by, made.link.tried) == ("strict", ())
        assert size(made.messages) <= window // 2
        assert {*re.findall(r"fact_\d+", made.link.summary)} == {f"fact_{at}" for at in range(40)}
        assert len(model.asked) > size(context) // window

    def test_the_window_of_a_summariser_may_be_smaller(self, tmp_path: Path) -> None:
        model = Strict(4000)
        summarizer = ModelSummarizer(model, Templates(tmp_path, trusted=False), "strict", counter=COUNTER)
        made = condense(talk(100), summarizer, target=3000, window=100_000, request_tokens=4000)
        assert made.link is not None
        assert (made.link.by, made.link.tried) == ("strict", ())

    def test_a_window_too_small_for_any_request_needs_no_model(self) -> None:
        writer = says("never")
        made = condense(talk(20), writer, target=300, window=600)
        assert writer.asked == []
        assert made.link is not None
        assert made.link.tried == ("a window of 600 tokens has no room for a request",)


class TestPieces:
    @settings(max_examples=40, deadline=None)
    @given(
        st.text(max_size=600)
        | st.lists(st.sampled_from(['{"a": [1, 2]}', ",", "[", "\n\n", "# x\n", '"', "\\", "😀", "long" * 9])).map(
            "".join
        )
    )
    @example('["\\"' * 300)
    def test_joined_they_are_the_text_and_none_is_too_large(self, text: str) -> None:
        found = pieces(text, 20)
        assert "".join(found) == text
        assert all(COUNTER.count(one) <= 20 for one in found)

    def test_json_is_cut_between_the_outermost_elements(self) -> None:
        items = [{"id": at, "tags": ["a,b", "]", '"'], "text": filler(10, at)} for at in range(30)]
        for piece in pieces(json.dumps(items), 150):
            assert isinstance(json.loads(f"[{piece.strip().strip('[],')}]".replace("[[", "[").replace("]]", "]")), list)

    def test_lines_of_json_are_cut_between_them(self) -> None:
        text = "".join(json.dumps({"id": at, "list": [1, 2, 3]}) + "\n" for at in range(50))
        assert all(json.loads(line) for piece in pieces(text, 100) for line in piece.split("\n") if line)

    @pytest.mark.parametrize("head", ["diff --git a/x b/x", "\n## A heading", "\ndef function():"])
    def test_a_text_is_cut_where_something_new_begins(self, head: str) -> None:
        text = "\n".join(f"{head}\n    {filler(20, at)}\n\n    {filler(20, at)}" for at in range(12))
        found = pieces(text, 150)
        assert len(found) > 3
        assert all(piece.lstrip().startswith(head.lstrip()) for piece in found)


class TestManyRounds:
    @settings(max_examples=2, deadline=None)
    @given(st.data())
    def test_over_fifty_rounds_it_stays_within_size_and_what_is_pinned_survives(self, data: st.DataObject) -> None:
        seed = data.draw(st.integers(0, 1 << 30))
        target, last = data.draw(st.sampled_from([300, 500, 900])), data.draw(st.integers(0, 6))
        chance = random.Random(seed)
        context: tuple[Message, ...] = (message("task", "Finish ABC-123: `src/main.py` must stay.", pinned=True),)
        pinned = [*context]
        links = 0
        for at in range(50):
            new = [
                message(f"{at}-{one}", filler(chance.randint(1, 120), chance.randrange(1 << 30)) + f" id_{at}{one}")
                for one in range(4)
            ]
            if at % 10 == 3:
                new.append(message(f"pin-{at}", f"Decision {at}:\tport {8000 + at}  \n", pinned=True))
                pinned.append(new[-1])
            made = condense([*context, *new], target=target, window=2000, last=last)
            assert size(made.messages) <= target
            assert [one for one in made.messages if one.pinned] == pinned
            assert sum(one.speaker == "summary" for one in made.messages) <= 1
            links += made.link is not None
            context = made.messages
        assert links > 20

    def test_the_chain_leads_back_to_all_that_was_ever_said(self, tmp_path: Path) -> None:
        chain = Chain(FileAttachments(tmp_path / "context"))
        context: tuple[Message, ...] = ()
        said = []
        for at in range(12):
            new = [message(f"{at}-{one}", filler(70, 10 * at + one)) for one in range(3)]
            said += new
            made = condense([*context, *new], target=300, last=2)
            context = made.messages
            if made.link is not None:
                kept = chain.add(made.link, made.replaced)
        assert chain.check() == []
        assert kept.number > 5
        assert any(name.startswith("summary-") for name in kept.replaced)
        assert [*chain.expand(kept.number, deep=True), *context[1:]] == said
