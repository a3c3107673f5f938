"""What a child process finds in its environment, and how its secrets are kept out of what is said about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from go_ent.composer.sources.server_config import Scrubber
from go_ent.sandbox.children.programs import with_safe_path

USUAL = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR COLORTERM NO_COLOR SSL_CERT_FILE SSL_CERT_DIR "
    "NODE_EXTRA_CA_CERTS".split()
)
USUAL_PREFIXES = ("LC_", "XDG_")
PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"})
OWN = "GO_ENT_"
LEAST_SECRET = 8  # shorter values are words of any message
NOTHING: Mapping[str, str] = MappingProxyType({})


def child_environment(
    host: Mapping[str, str], *, allow: Iterable[str] = (), set: Mapping[str, str] = NOTHING
) -> dict[str, str]:
    """The whole environment of a child: what any program needs of the host's, what `allow` names, and `set`.

    A name in `allow` that ends in `*` is a prefix. A proxy with a password in its address is not passed on by itself,
    and variables of go-ent's own never are: `set` is the way to give one. Of PATH relative elements are left out.
    `ValueError` for a name that can't be one.
    """
    allow = tuple(allow)
    for name in allow:
        _check(name.removesuffix("*"), name)
    for name, value in set.items():
        _check(name, name)
        if "\0" in value:
            raise ValueError(f"the value of the environment variable {name} holds a NUL")
    passed = {name: value for name, value in host.items() if _usual(name, value) or _allowed(name, allow)}
    return with_safe_path(passed | dict(set))


def secrets_of(
    host: Mapping[str, str], *, allow: Iterable[str] = (), set: Mapping[str, str] = NOTHING
) -> frozenset[str]:
    """The values in a child's environment that nobody should read in a message: all but the usual ones."""
    allow = tuple(allow)
    return frozenset(set.values()) | {
        value for name, value in host.items() if _allowed(name, allow) and not _usual(name, value)
    }


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Text without these values, in any usual spelling. Scrub first, then cut: half a secret is not found."""
    return scrubber(secrets)(text)


def scrubber(secrets: Iterable[str]) -> Scrubber:
    """What takes these values out of texts."""
    return Scrubber(secret for secret in secrets if len(secret) >= LEAST_SECRET)


def _usual(name: str, value: str) -> bool:
    return name in USUAL or name.startswith(USUAL_PREFIXES) or (name in PROXIES and "@" not in value)


def _allowed(name: str, allow: tuple[str, ...]) -> bool:
    if name.startswith(OWN):
        return False
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allow)


def _check(name: str, written: str) -> None:
    if not name or any(bad in name for bad in "=\0*"):
        raise ValueError(
            f"{written!r} is not the name of an environment variable (a * at its end stands for any ending)"
        )
