"""The page to which the browser comes back, and the tokens that are kept."""

import asyncio
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError

import pytest
from mcp.shared.auth import OAuthToken

from toolglot.mcp.client.oauth import LoopbackPage, StoredTokens
from toolglot.mcp.client.oauth_gate import OAuthGate


@asynccontextmanager
async def open_page() -> AsyncGenerator[LoopbackPage]:
    page = LoopbackPage()
    await page.open(0)
    try:
        yield page
    finally:
        page.close()


async def visit(page: LoopbackPage, query: str) -> int:
    def get() -> int:
        try:
            with urllib.request.urlopen(f"{page.address}?{query}") as response:
                return response.status
        except HTTPError as e:
            with e:
                return e.code

    return await asyncio.to_thread(get)


@pytest.mark.parametrize("answer", ["code=right", "error=access_denied"])
async def test_only_the_answer_to_the_sign_in_counts(answer: str) -> None:
    """Any page in the browser can send requests to a local port: it must neither end a sign-in nor choose its
    account.
    """
    async with open_page() as page:
        assert await visit(page, f"{answer}&state=s1") == 400, "nothing has been started"
        page.expect("https://auth.example/authorize?client_id=c&state=s1&scope=x")
        waiting = asyncio.create_task(page.wait())
        for forged in (
            "code=evil",
            "error=access_denied",
            "code=evil&state=",
            "code=evil&state=s2",
            "code=evil&state=s1x",
        ):
            assert await visit(page, forged) == 400
        assert await visit(page, "state=s1") == 404
        assert not waiting.done()
        assert await visit(page, f"{answer}&state=s1") == 200
        result = await waiting
        assert (result.code, result.state) == ("right" if "code" in answer else "", "s1")


async def test_a_sign_in_without_a_secret_is_not_answered() -> None:
    async with open_page() as page:
        page.expect("https://auth.example/authorize?client_id=c")
        for query in ("code=c", "code=c&state="):
            assert await visit(page, query) == 400


async def test_where_a_server_was_is_kept_with_its_tokens(tmp_path: Path) -> None:
    """Tokens are refreshed before it responds."""

    def make_storage() -> tuple[StoredTokens, OAuthGate]:
        gate = OAuthGate("s", "http://127.0.0.1/mcp", has_person=False)
        storage = StoredTokens(tmp_path / "tokens.json", gate=gate)
        setattr(storage, "context", SimpleNamespace(oauth_metadata=None, protected_resource_metadata=None))  # noqa: B010
        return storage, gate

    storage, gate = make_storage()
    gate.place = "loopback"
    await storage.set_tokens(OAuthToken(access_token="t"))
    storage, gate = make_storage()
    assert gate.place is None
    assert await storage.get_tokens() is not None
    assert gate.place == "loopback"
