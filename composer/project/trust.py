"""Which project folders may start programs and reach servers: those that this user has said so of, once each.

A folder that somebody else wrote is opened without harm: its composed tools run in the sandbox. What its configuration
would start outside of it waits for `go-ent trust`.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import time
from functools import lru_cache
from pathlib import Path

from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import locked, read_bounded, user_data, write_whole
from go_ent.sandbox.messages.advice import Advice

log = logging.getLogger("go_ent.composer")
MAX_BYTES = 4 << 20
VARIABLE = "GO_ENT_TRUST_PROJECT"


def is_trusted(project: Path) -> bool:
    """Whether this user trusts *project*. `GO_ENT_TRUST_PROJECT=1` trusts whatever is opened, for CI."""
    return trusts_all() or str(project.resolve()) in _read()


def trusts_all() -> bool:
    """Whether the environment says that whatever is opened is trusted."""
    return os.environ.get(VARIABLE, "").lower() in ("1", "true", "yes")


def trusted_projects() -> dict[str, float]:
    """The folders that are trusted, and since when."""
    return _read()


def set_trust(project: Path, trusted: bool) -> bool:
    """Trust a folder, or trust it no more. Whether that changed anything."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(file.with_name(".trust.lock")):
        projects = _read()
        name = str(project.resolve())
        if (name in projects) == trusted:
            return False
        if trusted:
            projects[name] = time.time()
        else:
            del projects[name]
        write_whole(file, json.dumps({"version": 1, "projects": projects}, indent=1).encode())
    return True


def share_keys(*keys: bytes) -> None:
    """Seal with a key that several users share, from now on, in this process: the first. What any of them has sealed is
    believed. Without one, the user's own is used.
    """
    global _shared  # noqa: PLW0603
    _shared = keys


def has_shared_key() -> bool:
    """Whether this process seals with a key that it shares."""
    return bool(_shared)


def seal(text: str) -> str:
    """A mark that only this user's own programs can make, or who shares a key with them: what carries it was not
    written by somebody else.
    """
    return _seal(_shared[0] if _shared else _key(), text)


def is_sealed(text: str, mark: str) -> bool:
    """Whether this user, or who shares a key, made *mark* for *text*."""
    return any(
        hmac.compare_digest(_seal(key, text).encode(), mark.encode("ascii", "replace")) for key in _shared or (_key(),)
    )


def _seal(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()


_shared: tuple[bytes, ...] = ()
_keys: dict[tuple[int, ...], bytes] = {}


@lru_cache(maxsize=16)
def _key_path(folder: Path) -> Path:
    """It is asked for with every execution, and a path takes longer to be put together than to be looked at."""
    return folder / "key"


def _key() -> bytes:
    """A secret of the user's, made once. It is read again when its file is another one."""
    path = _key_path(user_data())
    for _ in range(2):
        try:
            stat = os.stat(path)
            stamp = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
            if stamp in _keys:
                return _keys[stamp]
            key = read_bounded(path, 1024)
            if len(key) >= 32 and stat.st_uid == os.getuid():
                _keys.clear()
                _keys[stamp] = key
                return key
            raise StoreError(
                f"{path} is not the user's key any more: remove it; then executions that were begun before need trust",
                advice=Advice("trust"),
            )
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(path.with_name(".key.lock")):
                if not path.exists():
                    write_whole(path, secrets.token_bytes(32), mode=0o600)
    raise StoreError(f"{path} can't be made")


def _file() -> Path:
    return user_data() / "trust.json"


def _read() -> dict[str, float]:
    file = _file()
    try:
        data = read_bounded(file, MAX_BYTES)
        if file.stat().st_uid != os.getuid():
            raise StoreError(f"{file} belongs to another user: remove it, and trust your projects again")
        projects = json.loads(data)["projects"].items()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{file} can't be read, so nothing is trusted: {error}; remove it, and trust your projects again"
        ) from None
    known = {name: float(since) for name, since in projects if isinstance(since, int | float) and abs(since) < 1e18}
    for name in [name for name, _ in projects if name not in known]:
        log.warning(
            "%s: what it says of %s can't be read, so that folder is not trusted: run go-ent trust there again",
            file,
            name[:200],
        )
    return known
