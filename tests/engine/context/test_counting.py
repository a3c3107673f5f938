"""Counting what a context costs, and how much a model can read."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import lzma
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine import tokens
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.model_windows import ModelWindow, Windows
from go_ent.engine.context.models import Message
from go_ent.engine.context.shorten import summarize_context
from go_ent.engine.prompts.cutting import Fitting, Material
from go_ent.engine.tokens import estimate
from tests.support import ROOT
from tests.support.rows import each

chance = random.Random(7)
ORDINARY = {
    "prose": (ROOT / "README.md").read_text(),
    "code": (ROOT / "engine" / "context" / "facts.py").read_text(),
    "json": json.dumps([{"id": n, "name": f"item {n}", "values": [n / 7, None, True]} for n in range(200)], indent=1),
    "log": "".join(
        f"2026-02-03T10:{n % 60:02}:01Z INFO billing: request {n * 7919:08x} took {n} ms\n" for n in range(300)
    ),
    "base64": base64.b64encode(chance.randbytes(6000)).decode(),
    "base64 in lines": base64.encodebytes(chance.randbytes(6000)).decode(),
    "hex": chance.randbytes(3000).hex(),
    "Chinese": "今天的天气很好，我们决定把缓存迁移到新的集群，并在下周一之前完成所有的测试。" * 20,
    "Japanese": "この関数はトークンの数を数えるために使われます。設定ファイルを変更してください。" * 20,
    "Korean": "이 함수는 토큰의 수를 세는 데 사용됩니다. 설정 파일을 변경하십시오. " * 20,
    "rare characters": "".join(chr(chance.randint(0x4E00, 0x9FFF)) for _ in range(2000)),
    "emoji": "".join(chr(chance.randint(0x1F300, 0x1F64F)) for _ in range(1000)) + "👩‍👩‍👧‍👦🏳️‍🌈👍🏽" * 50,
    "Russian": "Мы решили перенести кэш на новый кластер до следующего понедельника. " * 20,
    "Hindi": "हमने अगले सोमवार से पहले कैश को नए क्लस्टर में ले जाने का निर्णय लिया। " * 20,
    "Amharic": "እኛ ከሚቀጥለው ሰኞ በፊት መሸጎጫውን ወደ አዲሱ ክላስተር ለማዛወር ወስነናል። " * 20,
    "special tokens": "<|endoftext|><|endofprompt|>" * 50,
    "digits": "".join(chance.choice("0123456789") for _ in range(3000)),
    "punctuation": "".join(chance.choice("!@#$%^&*()-_=+[]{};:'\",.<>/?`~\\|") for _ in range(3000)),
    "random words": " ".join(
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=k)) for k in (3, 5, 8, 15) for _ in range(300)
    ),
    "random capitals": " ".join("".join(chance.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4)) for _ in range(300)),
    "Syriac": "".join(chr(chance.randint(0x0710, 0x072F)) for _ in range(500)),
    "blanks": " \t\n\r\n   " * 300,
}


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation whose ranks can't be loaded."""

    def broken() -> None:
        raise tokens.RanksDamaged("the ranks are damaged")

    tokens._usable.cache_clear()
    monkeypatch.setattr(tokens, "encoding", broken)
    yield
    tokens._usable.cache_clear()


def test_text_that_looks_like_a_special_token_is_counted_as_text() -> None:
    assert Counter().count("<|endoftext|>") > 1
    assert Counter().count("a <|endofprompt|> b") > Counter().count("a b")


@pytest.mark.usefixtures("damaged")
def test_without_the_ranks_it_estimates_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "go_ent.engine.tokens"):
        for text in ("some words", "other words"):
            assert Counter().count(text) == tokens.count(text) == estimate(text)
    assert [record.getMessage() for record in caplog.records] == [
        "tokens can't be counted, and are estimated on the high side: RanksDamaged: the ranks are damaged"
    ]


@pytest.mark.parametrize("damage", ["changed", "torn", "missing", "another file"])
def test_ranks_that_are_not_what_they_should_be_are_never_used(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packed = bytearray((ROOT / "engine" / "tokens" / "o200k_base.tiktoken.xz").read_bytes())
    packed[len(packed) // 2] ^= 0xFF
    others = lzma.compress(
        b"".join(base64.b64encode(bytes([n])) + b" %d\n" % n for n in range(256))
    )  # ranks, but not these
    contents = {"changed": bytes(packed), "torn": bytes(packed[: len(packed) // 3]), "another file": others}
    if damage in contents:
        (tmp_path / "o200k_base.tiktoken.xz").write_bytes(contents[damage])
    tokens._usable.cache_clear()
    tokens._load.cache_clear()
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    try:
        with caplog.at_level(logging.WARNING, "go_ent.engine.tokens"):
            assert Counter().count("some words <|endoftext|>") == estimate("some words <|endoftext|>")
        assert "estimated on the high side" in caplog.text
        with pytest.raises((tokens.RanksDamaged, lzma.LZMAError, EOFError, OSError)):
            tokens.encoding()
    finally:
        tokens._usable.cache_clear()
        tokens._load.cache_clear()


def test_a_message_is_counted_once_however_long_the_conversation_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = tokens.count

    def counting(text: str) -> int:
        counted.append(text)
        return count(text)

    monkeypatch.setattr(tokens, "count", counting)
    counter, context = Counter(), tuple[Message, ...]()
    for at in range(30):
        new = Message(id=str(at), speaker="user", text=f"message {at} of a conversation")
        made = asyncio.run(
            summarize_context(
                [*context, new],
                target_tokens=10_000,
                window_tokens=20_000,
                summarizers=(),
                counter=counter,
                timeout_s=1,
            )
        )
        context = made.messages
    assert counted == [one.text for one in context]
    assert all(one.tokens for one in context)


@pytest.mark.usefixtures("damaged")
def test_without_the_ranks_texts_are_cut_all_the_same() -> None:
    material = Material("a file", "\n".join(f"line {n} of many" for n in range(2000)), "in a file")
    (cut,) = Fitting([material], 500, 10).within(500)
    assert cut.text is not None
    assert cut.text.startswith("line 0 of many")
    assert "left out here" in cut.text
    assert len(cut.text) < 2000


@each("kind", ORDINARY)
def test_the_estimate_is_never_below_the_count(kind: str) -> None:
    text = ORDINARY[kind]
    assert tokens.count(text) <= estimate(text) <= 4 * len(text.encode())


def test_the_estimate_of_prose_and_code_is_of_the_same_order() -> None:
    for kind in ("prose", "code"):
        assert estimate(ORDINARY[kind]) < 4 * tokens.count(ORDINARY[kind])


def test_a_report_calibrates_its_model_and_no_other() -> None:
    counter, text = Counter(), "word " * 1000
    plain = counter.count(text)
    counter.report("m", plain, plain * 6 // 5)
    assert counter.count(text, "m") == pytest.approx(plain * 1.2, abs=2)
    assert counter.count(text, "other") == counter.count(text) == plain


def test_reports_are_smoothed() -> None:
    counter = Counter()
    for reported in (1200, 1200, 2000):
        counter.report("m", 1000, reported)
    assert 1.2 < counter.ratio("m") < 1.5
    for _ in range(30):
        counter.report("m", 1000, 1300)
    assert counter.ratio("m") == pytest.approx(1.3, abs=0.01)


@pytest.mark.parametrize(
    ("estimated", "reported"), [(1000, 30_000), (1000, 10), (1000, 0), (50, 60), (0, 10), (-5, -5)]
)
def test_a_report_that_the_tokenizer_can_not_explain_is_not_believed(estimated: int, reported: int) -> None:
    counter = Counter()
    counter.report("m", estimated, reported)
    assert counter.ratio("m") == 1.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7))))
def test_no_reports_make_a_count_absurd(reports: list[tuple[int, int]]) -> None:
    counter = Counter()
    for estimated, reported in reports:
        counter.report("m", estimated, reported)
    assert 0.5 <= counter.ratio("m") <= 2.0


def test_what_was_learnt_is_known_to_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "user" / "tokenizers.json"
    first, second = Counter.remembered(path), Counter.remembered(path)
    first.report("m", 1000, 1250)
    second.report("n", 1000, 1100)
    first.remember(path)
    second.remember(path)
    third = Counter.remembered(path)
    assert (third.ratio("m"), third.ratio("n")) == (1.25, 1.1)
    third.remember(path)  # nothing new
    assert json.loads(path.read_text()) == {"m": 1.25, "n": 1.1}


@pytest.mark.parametrize(
    "content", ["[1]", "{", "\0" * 10, "[" * 100_000, '{"a": "x", "b": 1e9, "c": null, "g": -1, "f": [1], "h": NaN}']
)
def test_a_file_of_what_was_learnt_that_is_spoilt_teaches_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizers.json"
    path.write_text(content)
    assert {Counter.remembered(path).ratio(model) for model in "abcfgh"} == {1.0}


def test_threads_report_to_one_counter() -> None:
    counter = Counter()

    def work() -> None:
        for _ in range(50):
            counter.report("m", 1000, 1100)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.ratio("m") == pytest.approx(1.1)


@each(
    ("model", "window"),
    [
        ("claude-opus-4-5", ModelWindow(200_000, "genai-prices")),
        ("anthropic/claude-opus-4-5", ModelWindow(200_000, "genai-prices")),
        ("openrouter/anthropic/claude-opus-4.1", ModelWindow(200_000, "genai-prices")),
        ("claude-haiku-4-5-20251001", ModelWindow(200_000, "genai-prices")),
        ("gpt-4o", ModelWindow(128_000, "genai-prices")),
        ("xai/grok-4", ModelWindow(256_000, "genai-prices")),
        ("gemini-2.5-pro", ModelWindow(1_048_576, "genai-prices")),  # its own provider does not list it, others do
        ("sonnet", ModelWindow(200_000, "genai-prices")),
        ("claude-opus-4-51", ModelWindow(64_000, "default")),
        ("x" * 10_000, ModelWindow(64_000, "default")),
        (None, ModelWindow(64_000, "default")),
        ("openai:gpt-4o", ModelWindow(128_000, "genai-prices")),
        ("openai-chat:gpt-4o", ModelWindow(128_000, "genai-prices")),
        ("google-gla:gemini-2.5-pro", ModelWindow(1_048_576, "genai-prices")),
        ("openai-compatible:gpt-4o", ModelWindow(64_000, "default")),  # whatever runs there
        ("mine", ModelWindow(5000, "config")),
        ("gpt-5", ModelWindow(9000, "config")),
        ("gpt-5-2026-01-01", ModelWindow(9000, "config")),
    ],
)
def test_the_window_of_a_model(model: str | None, window: ModelWindow) -> None:
    assert Windows({"mine": 5000, "gpt-5": 9000}, 64_000).window(model) == window


def test_an_unknown_model_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    windows = Windows({}, 64_000)
    with caplog.at_level(logging.WARNING, "go_ent.engine.context"):
        for model in ("nobody/knows", "nobody/knows", "nor-this", None, "gpt-4o"):
            windows.window(model)
    warned = [record.getMessage() for record in caplog.records]
    assert ["nobody/knows" in warned[0], "nor-this" in warned[1], len(warned)] == [True, True, 2]


@pytest.mark.parametrize("make", [lambda: Windows({}, 0), lambda: Windows({"m": -1}, 1000)])
def test_a_window_of_nothing_is_refused(make: Callable[[], Windows]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        make()
