"""Templates: autoescaped, strict about names, with what pages say often as filters."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from go_ent.engine.console import markup, words
from go_ent.engine.console.values import Shape, plain, shape_of
from go_ent.engine.console.visit import BASE, url
from go_ent.engine.core.ids import short_id

HERE = Path(__file__).parent
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
MOST_TEXT = 20_000  # characters that a page shows at once of any one thing


@cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """The files that pages load, by name: content, kind, and a digest that is part of their address."""
    found = {}
    for path in sorted((HERE / "static").iterdir()):
        kind = KINDS.get(path.suffix[1:])
        if kind is not None and path.is_file():
            data = path.read_bytes()
            found[path.name] = data, kind, hashlib.sha256(data).hexdigest()[:16]
    return found


def static(name: str) -> str:
    """The address of a file that pages load."""
    return f"{BASE}/static/{static_files()[name][2]}/{name}"


@cache
def version_of_scripts() -> str:
    """One digest of all files: modules import each other by name, so all have to change together."""
    return hashlib.sha256("".join(digest for _, _, digest in static_files().values()).encode()).hexdigest()[:16]


def script(name: str) -> str:
    """The address of an ES module."""
    return f"{BASE}/static/{version_of_scripts()}/{name}"


def templates() -> Environment:
    """The environment that all templates are rendered in."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        enable_async=False,
        auto_reload=False,
    )
    made.filters.update(
        took=words.took,
        ago=words.ago,
        exact=words.exact,
        clock=words.clock,
        size=words.size,
        money=words.money,
        number=words.number,
        visible=words.visible,
        line=words.line,
        short_id=short_id,
        markdown=markup.markdown,
        cut=cut,
        pretty=pretty,
        plain=plain,
    )
    made.globals.update(
        url=url,
        static=static,
        script=script,
        plural=words.plural,
        code=markup.code,
        numbered=markup.numbered,
        shape_of=shape_of,
        MOST_TEXT=MOST_TEXT,
    )
    made.tests["shape"] = lambda value: isinstance(value, Shape)
    return made


def cut(text: str, most: int = MOST_TEXT) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else text[:most]


def pretty(value: Any) -> Markup:
    """A value as JSON in colours."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        text = repr(value)[:MOST_TEXT]
    return markup.code(cut(text), "json")
