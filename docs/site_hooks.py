"""For `make site`: README is the home page, blocks that are files have their name as a title, and links out of docs/
lead to the repository. A link to a missing file fails.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# A block of the documentation may name the file that it is: ```python top_words.py. The site shows that as its title.
NAMED_BLOCK = re.compile(r"^(`{3,})(\w+) (\S+)$", re.M)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """README.md, as the home page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = "" if page.file.src_uri == "index.md" else posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def outside(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(here, match[1]))
        anchor = match[2] or ""
        if not (ROOT / path).exists():
            raise SystemExit(f"{page.file.src_uri}: {match[1]} leads nowhere")
        if path == "README.md":
            path = "docs/index.md"
        if path.startswith("docs/"):
            if (ROOT / path).is_dir():
                return f"]({config['repo_url']}/tree/main/{path})"
            inside = posixpath.relpath(path, posixpath.join("docs", posixpath.dirname(page.file.src_uri)))
            return f"]({inside}{anchor})"
        return f"]({config['repo_url']}/blob/main/{path}{anchor})"

    return LINK.sub(outside, NAMED_BLOCK.sub(titled, markdown))


def titled(match: re.Match[str]) -> str:
    fence, language, name = match.groups()
    return f"{fence}{language}" if language == "console" else f'{fence}{language} title="{name}"'
