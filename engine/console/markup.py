"""Text with a form of its own: Markdown, and code. Both come out as HTML that holds nothing but text and our own tags.

Markdown is read without HTML and without pictures; a link is one only if it leads to the web.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from go_ent.engine.console.words import line, visible

MOST_MARKED = 200_000  # characters that are coloured or laid out; more is shown plain
MOST_NESTED = 20
COLOURED_S = 0.5  # of CPU: lexers take the square of some texts' length, and what is left by then is shown plain
COLOURED = ("k", "s", "m", "c", "g", "ow", "nf", "nc", "nt", "nb")  # what begins so has a colour in console.css
MOST_SAID = 600  # characters about one line
LANGUAGES = ("python", "javascript", "typescript", "json", "toml", "yaml", "bash", "diff", "html", "css", "sql", "xml")


class _Renderer(RendererHTML):
    """What a link may be: an address of the web, opened apart from this page."""

    def link_open(self, tokens: Sequence[Token], idx: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        href = str(tokens[idx].attrGet("href") or "")
        if not is_web(href):
            return '<span class="not-a-link">'
        return f'<a href="{escape(href)}" rel="noopener noreferrer nofollow" target="_blank">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        level = tokens[idx].level
        opened = next(one for one in reversed(tokens[:idx]) if one.type == "link_open" and one.level == level)
        return "</a>" if is_web(str(opened.attrGet("href") or "")) else "</span>"

    def image(self, tokens: Sequence[Token], idx: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        return f'<span class="not-a-link">[picture: {escape(tokens[idx].content)}]</span>'

    def fence(self, tokens: Sequence[Token], idx: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        name = (tokens[idx].info.split() or [""])[0].lower()
        return f'<pre class="code"><code>{code(tokens[idx].content, name if name in LANGUAGES else "")}</code></pre>'

    def code_block(self, tokens: Sequence[Token], idx: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        return f'<pre class="code"><code>{escape(tokens[idx].content)}</code></pre>'


@cache
def _reader() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer)
    made.enable(["table", "strikethrough"]).disable(["html_block", "html_inline", "reference"])
    made.options["maxNesting"] = MOST_NESTED
    made.validateLink = lambda address: is_web(address)  # type: ignore[method-assign,assignment]
    return made


def is_web(address: str) -> bool:
    """Whether an address is of the web, and nothing that runs here."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


@lru_cache(maxsize=16)  # a page that is live is rendered again and again
def markdown(text: str) -> Markup:
    """Markdown as HTML; what is too long to be laid out, as it is."""
    shown = visible(text)
    if len(shown) > MOST_MARKED:
        return Markup('<pre class="text">%s</pre>') % shown
    return Markup('<div class="markdown" dir="auto">%s</div>') % Markup(_reader().render(shown))  # noqa: S704  # without HTML of its own


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language in LANGUAGES else None
    except ClassNotFound:
        return None


def code(text: str, language: str = "") -> Markup:
    """Code in colours, as HTML."""
    return Markup("\n").join(code_lines(text, language))


@lru_cache(maxsize=16)
def code_lines(text: str, language: str = "") -> tuple[Markup, ...]:
    """The lines of code in colours: each is whole by itself."""
    shown = visible(text)
    lexer = _lexer(language) if len(shown) <= MOST_MARKED else None
    if lexer is None:
        return tuple(escape(one) for one in shown.split("\n"))
    lines: list[list[tuple[str, str]]] = [[]]  # joined at the end: a line may have as many parts as characters
    until, done = time.thread_time() + COLOURED_S, 0
    for kind, value in lexer.get_tokens(shown):
        name = STANDARD_TYPES.get(kind, "")
        _add(lines, value, name if name.startswith(COLOURED) else "")
        done += len(value)
        if time.thread_time() > until:
            _add(lines, shown[done:], "")
            break
    return tuple(map(_coloured, lines))


def numbered(text: str, language: str = "", said: Mapping[int, str] | None = None) -> Markup:
    """Code as the items of a list, one for each line; those that something is *said* about are marked, and have an
    address.
    """
    lines = list(code_lines(text, language))
    items = [f"<li>{one}</li>" for one in lines]
    for at, what in (said or {}).items():
        if 0 < at <= len(lines):
            note = Markup('<span class="said">%s</span>') % line(what, MOST_SAID) if what else ""
            items[at - 1] = f'<li id="line-{at}" class="marked">{lines[at - 1]}{note}</li>'
    return Markup("".join(items))  # noqa: S704  # lines and notes are escaped


def _add(lines: list[list[tuple[str, str]]], text: str, name: str) -> None:
    for at, part in enumerate(text.split("\n")):
        if at:
            lines.append([])
        if part:
            lines[-1].append((name, part))


def _coloured(parts: list[tuple[str, str]]) -> Markup:
    """One line: what stands side by side in the same colour is one piece."""
    made = []
    for name, same in groupby(parts, key=itemgetter(0)):
        text = escape("".join(part for _, part in same))
        made.append(f'<span class="t-{name}">{text}</span>' if name else str(text))
    return Markup("".join(made))  # noqa: S704  # each part is escaped
