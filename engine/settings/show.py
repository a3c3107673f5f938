"""What is in force, setting by setting, and where each comes from. Of secrets, only the names of what they stand
for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from go_ent.composer.config import Files, read_config
from go_ent.composer.project.layers import AS_WRITTEN, Layers, dotted, shown
from go_ent.composer.sources.server_config import REFERENCE, servers_from_mcp_json
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import read_engine_config, read_engine_settings
from go_ent.engine.settings.schema import whole

DEFAULT = "default"
WITHHELD = "default, until go-ent trust"
HIDDEN = "(hidden)"
# Lengths are bounded: a file of somebody else's must not make looking take long.
_SECRET_FLAG = re.compile(
    r"(-{1,2}[\w-]{0,60}(?:token|key|secret|passw|auth|header|credential|cookie)[\w-]{0,60})(=.*)?",
    re.IGNORECASE | re.DOTALL,
)
_PAIR_FLAG = re.compile(r"-[uHb]|--(?:proxy-)?user")  # as of curl: user:password, or a header, or name=value follows
_JOINED = re.compile(r"(?:-[uHb]|--(?:proxy-)?user=)(?=[^\s:=]+[:=])")  # the same in one word
_NAMED = re.compile(r"(?:-[eE]|--[\w-]+=)?[A-Za-z_]\w*=")  # a variable's value
_NAMES_SECRET = re.compile(
    r"\b(?:bearer|basic)\s{1,8}\S|(?:authorization|token|key|secret|passw|cookie)[\w-]{0,60}\s{0,8}[:=]", re.IGNORECASE
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, its value as it may be shown, and its source: `default`, a file and line, or a
    variable.
    """

    name: str
    value: Any
    source: str


def settings_in_force(project: Path) -> list[Setting]:
    """Every setting of a project, or `ConfigError` with what is wrong with them."""
    layers = read_engine_settings(project)
    tools = read_config(project, layers=layers, look=True)
    read_engine_config(project, layers=layers)
    defaults = {one.name: one.value for one in _walk((), whole()(), layers)} if tools.withheld else {}
    withheld = {dotted(path) for path in tools.withheld} - {
        "mcp_json"
    }  # whose servers are shown, as are others that are not started
    found = [
        Setting(one.name, defaults[one.name], WITHHELD) if one.name in withheld else one
        for one in _walk((), whole().model_validate(layers.table), layers)
    ]
    own = {dotted(("servers", name)) for name in layers.table.get("servers", {})}
    for file in _mcp_files(layers):
        source = shown(project / file)
        for name, server in servers_from_mcp_json(project / file).items():
            path = ("servers", name)
            if name in tools.servers and dotted(path) not in own:
                given = server.model_fields_set
                found += [
                    Setting(one.name, one.value, source if one.name.split(".")[2] in given else DEFAULT)
                    for one in _walk(path, server, layers)
                ]
    return found


def _mcp_files(layers: Layers) -> tuple[str, ...]:
    from pydantic import TypeAdapter

    files: tuple[str, ...] = TypeAdapter(Files).validate_python(layers.table.get("mcp_json", []))
    return files


def _walk(path: tuple[str, ...], value: Any, layers: Layers) -> Iterator[Setting]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _walk((*path, name), getattr(value, name), layers)
    elif isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _walk((*path, name), one, layers)
    else:
        yield Setting(dotted(path), _shown(path, value), layers.where(path) if layers.has(path) else DEFAULT)


def _shown(path: tuple[str, ...], value: Any) -> Any:
    if isinstance(value, tuple | list):
        return masked_arguments([str(one) for one in value])
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        return value
    if AS_WRITTEN & set(path[:-1]) or path[-1] == "token":
        return _references(value)
    return _address(value) if path[-1] in ("url", "base_url") else value


def _references(text: str) -> str:
    """What a secret is made of, without anything that is not a reference; the default of one may be a secret too."""
    names = " ".join(f"${{env:{name}}}" for name, _ in REFERENCE.findall(text))
    return names if names and REFERENCE.fullmatch(text) else f"{HIDDEN} {names}".strip()


def _address(url: str) -> str:
    """An address without a password, and without what comes after a question mark."""
    if REFERENCE.search(url):
        return _references(url)
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    kept = f"{parts.scheme}://{host}{parts.path}"
    return kept if kept == url else f"{kept} {HIDDEN}"


def masked_arguments(arguments: list[str]) -> list[str]:
    """A list as it may be shown: without what follows a flag that names a secret, and what looks like one by itself."""
    made: list[str] = []
    before = ""
    for argument in arguments:
        flag = _SECRET_FLAG.fullmatch(argument)
        if flag:
            made.append(f"{flag[1]}={HIDDEN}" if flag[2] else argument)
        elif _SECRET_FLAG.fullmatch(before) and "=" not in before:
            made.append(_references(argument))
        elif _PAIR_FLAG.fullmatch(before) and re.search("[:=]", argument):
            made.append(HIDDEN)
        else:
            made.append(_argument(argument))
        before = argument
    return made


def _argument(text: str) -> str:
    """One of a list, by itself."""
    if REFERENCE.fullmatch(text):
        return _references(text)
    if joined := _JOINED.match(text):
        return f"{joined[0]}{HIDDEN}"
    if named := _NAMED.match(text):
        return f"{named[0]}{_references(text[named.end() :])}"
    if _NAMES_SECRET.search(text):
        return HIDDEN
    return _URL.sub(lambda found: _address(found[0]), text)
