"""The console of `go-ent serve --http`: clients sign in with their token, if their configuration allows it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.security.corpus import attack
from tests.support.serving import serving

TOKENS = {"ANN_TOKEN": "a" * 32, "BOB_TOKEN": "b" * 32, "CI_TOKEN": "c" * 32}
CONFIG = """
[serve.clients.ann]
token_env = "ANN_TOKEN"
console = true
[serve.clients.bob]
token_env = "BOB_TOKEN"
console = true
[serve.clients.ci]
token_env = "CI_TOKEN"
"""


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def sign_in(
    clients: contextlib.ExitStack, base: str, token: str, **headers: str
) -> tuple[httpx2.Client, httpx2.Response]:
    sent = {"origin": base, "sec-fetch-site": "same-origin", **headers}
    client = clients.enter_context(httpx2.Client(base_url=base, headers=sent, timeout=60))
    return client, client.post("/console/enter", data={"token": token})


@attack("console", "a client who may not use it, a wrong token, and another client's session")
def test_clients_sign_in_with_their_token(tmp_path: Path, clients: contextlib.ExitStack) -> None:
    (tmp_path / "project" / ".go-ent").mkdir(parents=True)
    (tmp_path / "project" / ".go-ent" / "config.toml").write_text(CONFIG)
    with serving(tmp_path / "project", env=TOKENS) as served:
        base = served.url.removesuffix("/mcp")
        for token in ("c" * 32, "d" * 32, "", "a" * 31):
            _, answer = sign_in(clients, base, token)
            assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
        ann, answer = sign_in(clients, base, "a" * 32)
        assert answer.status_code == 303
        assert "samesite=strict" in answer.headers["set-cookie"].lower()
        assert "a" * 32 not in answer.headers["set-cookie"]
        csrf = re.search(r'name="csrf" value="([^"]+)"', ann.get("/console/runs").text)
        assert csrf is not None
        assert "client <bdi>ann</bdi>" in ann.get("/console/runs").text
        assert ann.get("/console/health").status_code == 403
        assert ann.get("/console/runs", headers={"host": "evil.example"}).status_code == 421
        assert ann.get("/console/runs", headers={"origin": "https://evil.example"}).status_code == 403
        assert ann.get("/console/runs", headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert httpx2.get(f"{base}/console/runs").status_code == 401
        # A session is no way to MCP, and a token is none to the pages.
        assert ann.post("/mcp", json={}).status_code == 401
        assert httpx2.get(f"{base}/console/runs", headers={"authorization": f"Bearer {'a' * 32}"}).status_code == 401
        bob, _ = sign_in(clients, base, "b" * 32)
        forged = bob.post("/console/leave", data={"csrf": csrf[1]})
        assert forged.status_code == 403
        _, secure = sign_in(clients, base, "a" * 32, origin=base.replace("http:", "https:"))
        assert "secure" in secure.headers["set-cookie"].lower()


@attack("console", "the console of a server that nobody has opened it for")
@pytest.mark.more
def test_without_console_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "project" / ".go-ent").mkdir(parents=True)
    (tmp_path / "project" / ".go-ent" / "config.toml").write_text(CONFIG.replace("console = true\n", ""))
    with serving(tmp_path / "project", env=TOKENS) as served:
        base = served.url.removesuffix("/mcp")
        assert httpx2.get(f"{base}/console").status_code == 404
        assert httpx2.post(f"{base}/console/enter", data={"token": "a" * 32}).status_code == 404
