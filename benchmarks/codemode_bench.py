"""Direct tool calls, code mode and composed tools at the same tasks: tokens, model turns, and time.

A scripted model, which makes no mistake, plays every task in every way over real servers in this process; each answer is
held to the right one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import svg
from benchmarks.codemode.scenarios import Scenario, scenarios
from benchmarks.codemode.stage import PEER, WAYS, Place, Played, Stage, Way, stage
from benchmarks.codemode.talk import ENVELOPE, TURN_S
from benchmarks.codemode.world import World
from benchmarks.measure import Row, amount, median
from benchmarks.report import Report, command
from go_ent.sandbox import Sandbox

BASE: Way = "direct, parallel"  # the better of the two ways of calling directly
OURS: tuple[Way, ...] = ("code mode", "composed")
SHOWN: tuple[Way, ...] = ("direct", BASE, PEER, *OURS)
WINDOW = 200_000


@dataclass(frozen=True)
class Found:
    """One scenario: what each way took. `seconds` are medians of the rounds."""

    scenario: Scenario
    played: dict[Way, Played]
    seconds: dict[Way, float]
    composing: int
    peer: str = ""  # why FastMCP's CodeMode has no figures

    def tokens(self, way: Way) -> int:
        return self.played[way].talk.tokens

    def turns(self, way: Way) -> int:
        return len(self.played[way].talk.turns)

    def largest(self, way: Way) -> int:
        return max(turn.input for turn in self.played[way].talk.turns)

    @property
    def best(self) -> Way:
        return min(WAYS, key=self.tokens)

    def pays_after(self, than: Way) -> int | None:
        """From which use on composing has cost fewer tokens than doing it that way each time; None: never."""
        saved = self.tokens(than) - self.tokens("composed")
        once = self.composing + (self.tokens("code mode") if than != "code mode" else 0)
        return math.ceil(once / saved) if saved > 0 else None


async def play_all(
    chosen: Sequence[Scenario], world: World, rounds: int
) -> tuple[list[Found], dict[int, dict[Way, Place]]]:
    """Each scenario in each way, in turns, *rounds* times after one that is not timed."""
    found: dict[str, Found] = {}
    places: dict[int, dict[Way, Place]] = {}
    async with Sandbox() as box:
        for size in sorted({scenario.tools for scenario in chosen}):
            mine = [scenario for scenario in chosen if scenario.tools == size]
            async with stage(world, size, mine, box) as made:
                places[size] = made.places
                for scenario in mine:
                    played = {way: await made.play(scenario, way) for way in WAYS}
                    times: dict[Way, list[float]] = {way: [] for way in WAYS}
                    for number in range(rounds):
                        for way in WAYS:
                            times[way].append((await made.play(scenario, way, f"\n# {number}")).seconds)
                    composing = made.composing(scenario, played["code mode"])
                    seconds = {way: median(times[way]) for way in WAYS}
                    why = await _play_peer(made, scenario, played, seconds, rounds)
                    found[scenario.name] = Found(scenario, played, seconds, composing, why)
    return [found[scenario.name] for scenario in chosen], places


async def _play_peer(
    made: Stage, scenario: Scenario, played: dict[Way, Played], seconds: dict[Way, float], rounds: int
) -> str:
    """FastMCP's CodeMode at the same task, if it can do it; else why not."""
    if PEER not in made.places:
        return "not installed"
    try:
        first = await made.play(scenario, PEER)
        times = [(await made.play(scenario, PEER)).seconds for _ in range(rounds)]
    except Exception as error:  # a peer that fails is a note in the table
        return f"{type(error).__name__}: {str(error)[:200]}"
    played[PEER], seconds[PEER] = first, median(times)
    return ""


def rows_of(found: Found) -> list[Row]:
    """The figures of one scenario. Tokens and turns are the same on every machine; the time is not, and is never held to another day's."""
    rows = []
    name = found.scenario.name
    for way in OURS:
        rows.append(Row(f"{name}: tokens", way, found.tokens(way), "tokens", found.tokens(BASE), baseline_name=BASE))
        rows.append(Row(f"{name}: turns", way, found.turns(way), "turns", found.turns(BASE), baseline_name=BASE))
    for way in WAYS:
        note = "the upstream's tools answer at once: this is what the way itself takes"
        rows.append(Row(f"{name}: tools and sandbox", way, found.seconds[way] * 1e3, "ms", note=note))
    return rows


def tokens_table(all_found: Sequence[Found]) -> str:
    lines = [
        f"| task | tools | results | {' | '.join(SHOWN)} | code mode ÷ {BASE} | fewest |",
        "|---|---|---|" + "---|" * (len(SHOWN) + 2),
    ]
    for found in all_found:
        cells = " | ".join(
            f"{found.tokens(way):,}{' †' if found.largest(way) > WINDOW else ''}" if way in found.played else "failed"
            for way in SHOWN
        )
        ratio = found.tokens("code mode") / found.tokens(BASE)
        best = "direct" if found.best in ("direct", BASE) else found.best
        scenario = found.scenario
        lines.append(f"| {scenario.name} | {scenario.tools:,} | {scenario.result} | {cells} | {ratio:.3g} | {best} |")
    return "\n".join(lines)


def cached_table(all_found: Sequence[Found]) -> str:
    lines = [f"| task | {' | '.join(WAYS)} | fewest |", "|---|" + "---|" * (len(WAYS) + 1)]
    for found in all_found:
        prices = {way: (talk.cached(), talk.cached(warm=True)) for way in WAYS for talk in (found.played[way].talk,)}
        best = [min(WAYS, key=lambda way: prices[way][n]) for n in (0, 1)]
        named = ["direct" if way in ("direct", BASE) else way for way in best]
        cells = " | ".join(f"{cold:,.0f} / {warm:,.0f}" for cold, warm in prices.values())
        lines.append(f"| {found.scenario.name} | {cells} | {' / '.join(dict.fromkeys(named))} |")
    return "\n".join(lines)


def turns_table(all_found: Sequence[Found]) -> str:
    lines = [f"| task | {' | '.join(SHOWN)} |", "|---|" + "---|" * len(SHOWN)]
    for found in all_found:
        cells = []
        for way in SHOWN:
            if way not in found.played:
                cells.append("failed")
                continue
            turns, seconds = found.turns(way), found.seconds[way]
            cells.append(f"{turns} turns, {amount(seconds * 1e3)} ms ({turns * TURN_S + seconds:.1f} s)")
        lines.append(f"| {found.scenario.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def composing_table(all_found: Sequence[Found]) -> str:
    lines = [
        f"| task | saving it, once | each use after | fewer than code mode from | fewer than {BASE} from |",
        "|---|---|---|---|---|",
    ]
    for found in all_found:
        uses = [found.pays_after(way) for way in ("code mode", BASE)]
        said = " | ".join("never" if use is None else "the first use" if use <= 1 else f"use {use}" for use in uses)
        lines.append(f"| {found.scenario.name} | {found.composing:,} | {found.tokens('composed'):,} | {said} |")
    return "\n".join(lines)


INTRO = """\
The same tasks done in five ways: by **direct** calls of an upstream server's tools, one a turn; **direct, in parallel**, where all
calls that don't need each other are made in one turn; with **FastMCP's CodeMode** and its defaults; in **code mode**, with this server's
`code_execute`, which describes ten tools itself, and finds more with `tool_search`; and by calling a **composed** tool that was saved before. What is counted is all that a model reads and writes until
it can answer. Made by `make bench`; the tasks are in `benchmarks/codemode/scenarios.py`."""

READING = """\
## What is assumed

- **The model is a script** that makes no mistake, in any way. Real models do: they miscount a list of a thousand orders that they
  read, and they write code that has to be corrected. Neither is counted here.
- **The servers are real**: the upstream is an MCP server, ours is the engine's over the catalogue, and the code runs in guests. Each
  answer, and what was written upstream, is checked against the right one; a way that errs fails the benchmark.
- **Every turn sends everything again**: instructions, definitions, and all messages so far. A model that calls tools is stateless; this
  is what is paid for, or what a cache has to hold. Tokens are those of o200k_base, with {envelope} for each message's role and ends.
- **A definition** is a tool's name, description and parameters. In the direct ways all of the upstream's are shown, as clients do: 10
  tools are {d10:,} tokens, 100 are {d100:,}, 1,000 are {d1000:,}. Ours are {ours} tools of {d_ours:,} tokens, whatever is upstream, and
  {instructions} tokens of instructions. Clients that search definitions themselves stand between direct calls and code mode.
- **FastMCP's CodeMode** has a search, a tool for schemas and one that runs code, in pydantic-monty. The same model searches, asks for
  the schemas, runs the same code (without `collections`, which monty lacks), and answers. It keeps no record, and has no composed tools.
- **In code mode** the model knows nothing of the tools: it searches (all searches in one turn), looks at the stubs, runs code once, and
  answers. **A composed tool** was saved before; what that costs is below.
- **Time** is what was measured in tools, servers and sandbox, a median. The upstream's tools answer at once. No time of a model was
  measured; in brackets is what it would be at {turn:g} s a turn, which is only an example.
- † A request of it is larger than a window of {window:,} tokens: it could not be made at all.
"""


def page(all_found: Sequence[Found], places: dict[int, dict[Way, Place]]) -> tuple[str, str]:
    """The tables, and what is said after them."""
    wins = [found.scenario.name for found in all_found if found.tokens(BASE) <= found.tokens("code mode")]
    least = min(all_found, key=lambda found: found.tokens("code mode") / found.tokens(BASE))
    body = f"""\
## Tokens

All that is read and written, every turn's input added up.

{tokens_table(all_found)}

Direct calls take fewer tokens than code mode at: {", ".join(wins) or "none of them"}. Code mode is at its best at *{least.scenario.name}*: \
{least.tokens(BASE) / least.tokens("code mode"):.0f} times fewer. Where answers are read whole, `expose = "direct"` lists a tool by its name:
[some tools called directly](../guides/code-mode.md#some-tools-called-directly).

## With a prompt cache

What was sent in the turn before at a tenth of the price, in tokens at full price; nothing is added for writing the cache. After the
stroke: the definitions, too, were in the cache when the conversation began.

{cached_table(all_found)}

## Turns and time

{turns_table(all_found)}

## What composing costs

Saving code that has just worked takes one call of `tool_compose`, whose turns send the conversation again.

{composing_table(all_found)}
"""
    sizes = sorted(places)
    ours = places[sizes[0]]["code mode"]
    told = {f"d{size}": places[size]["direct"].definitions for size in sizes}
    after = READING.format(
        envelope=ENVELOPE,
        turn=TURN_S,
        window=WINDOW,
        ours=ours.tools,
        d_ours=ours.definitions,
        instructions=ours.prefix - ours.definitions,
        **told,
    )
    return body, after


def details(found: Found) -> dict[str, object]:
    ways = {
        way: {
            "turns": found.turns(way),
            "input_tokens": played.talk.input,
            "output_tokens": played.talk.output,
            "cached_tokens": round(played.talk.cached()),
            "warm_tokens": round(played.talk.cached(warm=True)),
            "largest_request": found.largest(way),
            "calls": played.calls,
            "heard_characters": played.heard,
            "tools_and_sandbox_ms": round(found.seconds[way] * 1e3, 2),
        }
        for way, played in found.played.items()
    }
    scenario = found.scenario
    return {
        "name": scenario.name,
        "tools": scenario.tools,
        "results": scenario.result,
        "composing_tokens": found.composing,
        **({"peer_failed": found.peer} if found.peer else {}),
        "ways": ways,
    }


def measure(quick: bool) -> Report:
    world = World()
    all_found, places = asyncio.run(play_all(scenarios(world), world, rounds=1 if quick else 9))
    body, after = page(all_found, places)
    plot = svg.grouped(
        "Tokens until the answer (a scale of powers of ten)",
        {
            f"{f.scenario.name} ({f.scenario.tools:,} tools)": {way: float(f.tokens(way)) for way in WAYS}
            for f in all_found
        },
        "tokens",
    )
    return Report(
        bench="codemode",
        title="Direct calls, code mode, composed tools",
        intro=INTRO,
        rows=[row for found in all_found for row in rows_of(found)],
        quick=quick,
        body=body,
        after=after,
        plots={"": plot},
        more={"scenarios": [details(found) for found in all_found]},
    )


if __name__ == "__main__":
    command(measure, __doc__)
