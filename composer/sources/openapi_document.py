"""OpenAPI documents: read from a file or a text, of bounded size, all in one piece."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from go_ent.composer.errors import ConfigError
from go_ent.composer.sources.server_config import read_text

MAX_DOCUMENT = 8 << 20
MAX_NODES = 2_000_000  # what a document may unfold to: in YAML a few lines can stand for billions
UNFOLDING = 10  # values for each character at the most: without aliases a text has fewer than one


def load_document(document: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    """An OpenAPI 3 document, of bounded size, all in one piece: it may refer to no other file and no address."""
    name, most = "the OpenAPI document", MAX_NODES
    if isinstance(document, Path):
        name, document = str(document), read_text(document, MAX_DOCUMENT)
    if isinstance(document, str):
        if len(document) > MAX_DOCUMENT:
            raise ConfigError(f"{name}: it is larger than {MAX_DOCUMENT} bytes")
        most = min(most, UNFOLDING * len(document))
        document = _parsed(document, name)
    if not isinstance(document, Mapping):
        raise ConfigError(f"{name}: it must be an object")
    for count, node in enumerate(_nodes(document)):
        if count > most:
            raise ConfigError(f"{name}: it unfolds to more than {most} values")
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str) and not reference.startswith("#"):
            raise ConfigError(
                f"{name}: it refers to {reference[:200]!r}; only references within the document are followed"
            )
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{name}: it is not an OpenAPI 3 document (openapi: {str(version)[:40]})")
    try:
        # Through JSON: YAML has dates, and numbers as keys (200:), where OpenAPI has texts.
        made: dict[str, Any] = json.loads(json.dumps(document, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{name}: it can't be written as JSON: {error}") from None
    return made


def _parsed(text: str, name: str) -> Any:
    if text.lstrip()[:1] == "{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}: it is not JSON: {error}") from None
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(f"{name}: it is not JSON, and YAML needs the package PyYAML") from None
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: it is not YAML: {str(error)[:300]}") from None


def _nodes(document: Any) -> Iterator[Any]:
    """Every value in it, again each time that it is reached by another way."""
    left = [document]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, Mapping):
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def address_of(document: Mapping[str, Any]) -> str:
    """The first server that the document names."""
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, Mapping) else None
    if isinstance(first, Mapping) and isinstance(url, str):
        variables = first.get("variables")
        for name, variable in variables.items() if isinstance(variables, Mapping) else ():
            if isinstance(variable, Mapping):
                url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    if not isinstance(url, str) or not re.match(r"https?://", url):
        raise ConfigError("the OpenAPI document names no server with an http address: give base_url")
    return url
