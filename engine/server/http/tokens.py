"""The tokens of clients: where they are kept, whether they will do, and whose one is.

Only digests stay in memory. A folder that somebody else wrote may name any variable of the environment here, and learns
nothing by it: what it names is compared, never shown. But what such a folder says of clients opens nothing at all.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from go_ent.composer.errors import ConfigError
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import ClientConfig
from go_ent.engine.server.calls.callers import REMOTE, Caller

LEAST = 24
MOST = 1000
TOKEN = re.compile(r"[\x21-\x7e]+")
MAKE_ONE = 'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'


@dataclass(frozen=True, slots=True)
class Tokens:
    """Who has which token, by its digest."""

    known: tuple[tuple[bytes, Caller], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known)

    def whose(self, token: str) -> Caller | None:
        """The caller with that token. Takes as long whether there is one or not, and whichever it is."""
        digest, found = _digest(token), None
        for known, caller in self.known:
            if hmac.compare_digest(digest, known):
                found = caller
        return found


def read_tokens(
    clients: Mapping[str, ClientConfig], project: Path, environ: Mapping[str, str], *, everything_env: str | None = None
) -> Tokens:
    """The tokens of *clients*, and the one in *everything_env*, with which one may what the project may.
    `ConfigError` if one won't do.
    """
    found: list[tuple[str, str, Caller]] = []
    if everything_env is not None:
        found.append(("--token-env", _from_environment(everything_env, environ, "--token-env"), REMOTE))
    for name, config in clients.items():
        where = f"[serve.clients.{name}]"
        if config.token_env is not None:
            token = _from_environment(config.token_env, environ, where)
        else:
            token = _from_file(project / Path(config.token_file or "").expanduser(), where)
        found.append((where, token, caller_of(name, config)))
    known: dict[bytes, str] = {}
    for where, token, _ in found:
        _check(token, where)
        if (first := known.setdefault(_digest(token), where)) != where:
            raise ConfigError(f"{first} and {where} have the same token: nobody could tell them apart; {MAKE_ONE}")
    return Tokens(tuple((_digest(token), caller) for _, token, caller in found))


def caller_of(name: str, config: ClientConfig) -> Caller:
    return Caller(
        name, allow=config.allow, may_compose=config.compose, may_run_agents=config.engine, ends_with_project=True
    )


def names_of(tokens: Tokens) -> Iterable[str]:
    """Who may call, for a person to read."""
    return (caller.name or "that of --token-env" for _, caller in tokens.known)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _check(token: str, where: str) -> None:
    """Whether a token will do. Nothing that is said quotes it."""
    if not LEAST <= len(token) <= MOST:
        raise ConfigError(
            f"{where}: a token has {LEAST} to {MOST} characters, and this one has {len(token)}; {MAKE_ONE}"
        )
    if TOKEN.fullmatch(token) is None:
        raise ConfigError(f"{where}: a token is ASCII without spaces, and this one is not; {MAKE_ONE}")


def _from_environment(name: str, environ: Mapping[str, str], where: str) -> str:
    token = environ.get(name)
    if not token:
        raise ConfigError(f"{where}: the environment variable {name} is not set; {MAKE_ONE}")
    return token


def _from_file(path: Path, where: str) -> str:
    """What a file says that this user alone, or root, can have written."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{where}: {path} is no ordinary file")
            # An administrator may hand a secret out to a group; this user's own is nobody else's.
            others = 0o077 if found.st_uid == os.getuid() else 0o026
            if found.st_uid not in (os.getuid(), 0) or found.st_mode & others:
                raise ConfigError(f"{where}: {path} belongs to another user, or is open to others: chmod 600 it")
            data = os.read(handle, MOST + 3)  # and the end of a line
        finally:
            os.close(handle)
    except OSError as error:
        raise ConfigError(f"{where}: {path} can't be read: {error.strerror or error}") from None
    try:
        return data.decode("ascii").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{where}: a token is ASCII without spaces, and what is in {path} is not; {MAKE_ONE}"
        ) from None
