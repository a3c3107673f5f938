"""Times, sizes and money as people say them, and text from outside as it can be shown.

What guests, tools and servers wrote is shown with its control characters visible: none of it may move, hide or turn
around what stands beside it.
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from datetime import datetime

UNITS = ("kB", "MB", "GB", "TB")
# What has no width, or reorders what is around it. They are shown as their code points.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def took(seconds: float | None) -> str:
    """How long something took, as exactly as matters."""
    if seconds is None:
        return "–"
    seconds = max(0.0, seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 or seconds == 0 else f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(at: float, now: float | None = None) -> str:
    """How long ago a time is, in the one unit that matters; what is days ago, as its date."""
    now = time.time() if now is None else now
    seconds = now - at
    if seconds < -1:
        return f"in {_one_unit(-seconds)}"
    if seconds < 5:
        return "just now"
    if seconds < 7 * 86_400:
        return f"{_one_unit(seconds)} ago"
    date = datetime.fromtimestamp(at)  # of this machine's own zone, as people there say it
    return f"{date.day} {date:%b}" if date.year == datetime.fromtimestamp(now).year else f"{date.day} {date:%b %Y}"


def _one_unit(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def exact(at: float) -> str:
    """A time to the millisecond, with its zone."""
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="milliseconds")


def clock(at: float) -> str:
    """A time of day, to the millisecond."""
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.") + f"{int(at * 1000) % 1000:03}"


def size(count: int | None) -> str:
    """Bytes as people say them."""
    if count is None:
        return "–"
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for unit in UNITS:
        if value < 999.5 or unit == UNITS[-1]:
            break
        value /= 1000
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"


def money(usd: float | None) -> str:
    """Dollars: exact where they are few."""
    if usd is None:
        return "–"
    if usd == 0:
        return "$0"
    if abs(usd) < 0.0001:
        return "<$0.0001"
    return f"${usd:.4f}" if abs(usd) < 1 else f"${usd:,.2f}"


def number(count: float | None) -> str:
    """A count, with its thousands apart."""
    return "–" if count is None else f"{count:,.0f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def visible(text: object) -> str:
    """Text with what can't be seen made visible: `␀`, `⟨202E⟩`. Tabs and line ends stay."""
    return _UNSEEN.sub(_shown, str(text).replace("\r\n", "\n"))


def has_unseen(text: str) -> bool:
    """Whether there is something in a text that can't be seen."""
    return _UNSEEN.search(text) is not None


def json_text(text: str) -> str:
    """JSON with what can't be seen as its escapes: it is the same value."""
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨{code:04X}⟩"


def line(text: object, most: int = 200) -> str:
    """Text on one line, and not more of it than *most* characters."""
    flat = " ".join(visible(str(text)[: most * 4]).split())
    return flat if len(flat) <= most and len(str(text)) <= most * 4 else f"{flat[: most - 1]}…"


def file_name(name: str) -> str:
    """A name that any system can save a file under: no path, nothing hidden, nothing unseen, not long."""
    base = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(
        char if unicodedata.category(char)[0] in "LNM" or char in " ._-()" else "_"
        for char in base[:400]
        if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")
    )
    kept = kept.strip(" .")
    stem, dot, ending = kept.rpartition(".")
    if dot and len(ending) <= 10:
        kept = f"{stem[:100]}.{ending}"
    return kept[:120] or "file"
