"""Where keys come from, which header holds them, and what is said where there is none."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolglot.engine.auth import KeySource
from toolglot.errors import AuthenticationFailed
from toolglot.providers.catalog import PROFILES, resolve

KEY = "planted-key-8b1f0c"
VARIABLES = sorted({name for row in PROFILES.values() for name in row.key_env})


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def headers(provider: str, key: Any = None) -> dict[str, str]:
    return asyncio.run(KeySource(resolve(provider, "m"), key).headers())


HEADERS = {
    "bearer": ("authorization", f"Bearer {KEY}"),
    "optional": ("authorization", f"Bearer {KEY}"),
    "x-api-key": ("x-api-key", KEY),
    "api-key": ("api-key", KEY),
    "x-goog-api-key": ("x-goog-api-key", KEY),
}


@pytest.mark.parametrize("provider", PROFILES)
def test_header_of_every_provider(provider: str) -> None:
    assert headers(provider, KEY) == dict([HEADERS[PROFILES[provider].auth]])


@pytest.mark.parametrize(("provider", "name"), [(row.id, name) for row in PROFILES.values() for name in row.key_env])
def test_variables_of_every_provider(provider: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"  {KEY}\n")
    assert KEY in "".join(headers(provider).values())


def test_a_token_of_anthropic_is_a_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the vendor's own SDK does: ANTHROPIC_AUTH_TOKEN is sent as a bearer, and never as an API key."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    assert headers("anthropic") == {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("provider", [row.id for row in PROFILES.values() if row.auth != "optional"])
def test_no_key_names_what_to_set(provider: str) -> None:
    profile = PROFILES[provider]
    with pytest.raises(AuthenticationFailed) as caught:
        headers(provider)
    said = str(caught.value)
    assert profile.title in said
    assert "key=" in said
    assert profile.key_env
    assert all(name in said for name in profile.key_env)


@pytest.mark.parametrize("provider", [row.id for row in PROFILES.values() if row.auth == "optional"])
def test_no_key_where_none_is_needed(provider: str) -> None:
    assert headers(provider) == {}
    assert headers(provider, "") == {}


def test_what_the_caller_gives_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    assert headers("openai-chat", KEY) == {"authorization": f"Bearer {KEY}"}


def test_the_first_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "second-key")
    assert headers("gemini") == {"x-goog-api-key": "second-key"}
    monkeypatch.setenv("GOOGLE_API_KEY", "first-key")
    assert headers("gemini") == {"x-goog-api-key": "first-key"}
    monkeypatch.setenv("GOOGLE_API_KEY", "  ")
    assert headers("gemini") == {"x-goog-api-key": "second-key"}


def test_a_variable_is_read_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KeySource(resolve("openai-chat", "m"))
    monkeypatch.setenv("OPENAI_API_KEY", "first-key")
    assert asyncio.run(source.headers()) == {"authorization": "Bearer first-key"}
    monkeypatch.setenv("OPENAI_API_KEY", "second-key")
    assert asyncio.run(source.headers()) == {"authorization": "Bearer second-key"}
    assert source.known == {"first-key", "second-key"}


async def _later() -> str:
    return f" {KEY} "


@pytest.mark.parametrize("key", [lambda: KEY, lambda: f"{KEY}\n", _later], ids=["text", "with a line end", "awaited"])
def test_functions(key: Callable[[], str | Awaitable[str]]) -> None:
    source = KeySource(resolve("openai-chat", "m"), key)
    assert source.renewable
    assert asyncio.run(source.headers()) == {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("key", [None, KEY])
def test_what_cannot_be_renewed(key: str | None) -> None:
    assert not KeySource(resolve("openai-chat", "m"), key).renewable


def test_a_function_that_has_none() -> None:
    with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
        headers("openai-chat", lambda: "")


def test_a_function_that_returns_nothing_at_all() -> None:
    """What a forgotten `return` or a missing secret gives: said in words, not an AttributeError."""
    with pytest.raises(AuthenticationFailed):
        headers("openai-chat", lambda: None)


def test_errors_of_a_function_are_its_own() -> None:
    def key() -> str:
        raise LookupError("the vault is closed")

    with pytest.raises(LookupError, match="vault"):
        headers("openai-chat", key)


@pytest.mark.parametrize(
    "bad", ["a b c d e f", "key-with-\r\nx-evil: 1", "schlüssel-123", "key\x00-zero-1", "key\x7f-delete", "key\x1b-escape"]
)
def test_keys_that_no_header_can_hold(bad: str) -> None:
    with pytest.raises(AuthenticationFailed, match="characters") as caught:
        headers("anthropic", bad)
    assert bad not in str(caught.value)


def test_the_source_shows_no_key() -> None:
    source = KeySource(resolve("openai-chat", "m"), KEY)
    asyncio.run(source.headers())
    assert KEY not in repr(source)
    assert source.known == {KEY}


def test_keys_that_change_all_the_time_are_not_all_kept() -> None:
    """A service that renews its token for months stays small; the latest ones are what errors can repeat."""
    numbers = iter(range(10_000))
    source = KeySource(resolve("openai-chat", "m"), lambda: f"token-{next(numbers):08}")

    async def main() -> None:
        for _ in range(5_000):
            await source.headers()

    asyncio.run(main())
    assert "token-00004999" in source.known
    assert len(source.known) <= 1_000
