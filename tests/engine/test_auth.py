"""Where keys come from, which header holds them, and the error if there is none."""

import asyncio
import logging
import sys
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringError, PasswordDeleteError
from msgspec.structs import replace
from scripted_transport import ScriptedTransport, error_reply, whole_reply

from toolglot.engine.auth import KeySource, KeyVariable, describe_key_origin
from toolglot.engine.factory import create_engine
from toolglot.engine.signin import copilot
from toolglot.engine.signin.copilot import Login
from toolglot.engine.signin.keyring_store import delete_key, has_backend, keyring_account, load_key, store_key
from toolglot.errors import AuthenticationFailed, ConnectFailed
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.values.messages import user
from toolglot.values.request import Request

KEY = "planted-key-8b1f0c"
pytestmark = pytest.mark.usefixtures("nobody_signed_in")


def headers(provider: str, key: Any = None) -> dict[str, str]:
    return asyncio.run(KeySource(resolve_profile(provider, "m"), key).headers())


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


@pytest.mark.parametrize(
    ("provider", "name"), [(row.id, name) for row in PROFILES.values() for name in row.key_env]
)
def test_variables_of_every_provider(provider: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"  {KEY}\n")
    assert KEY in "".join(headers(provider).values())


def test_anthropic_tokens_are_sent_as_a_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the vendor's own SDK does: ANTHROPIC_AUTH_TOKEN is sent as a bearer, and never as an API key."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    assert headers("anthropic") == {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("provider", [row.id for row in PROFILES.values() if row.auth != "optional"])
def test_no_key_names_what_to_set(provider: str) -> None:
    profile = PROFILES[provider]
    with pytest.raises(AuthenticationFailed) as caught:
        headers(provider)
    assert profile.key_env
    assert [word for word in (profile.title, "key=", *profile.key_env) if word not in str(caught.value)] == []


@pytest.mark.parametrize("provider", [row.id for row in PROFILES.values() if row.auth == "optional"])
def test_no_key_if_none_is_needed(provider: str) -> None:
    assert headers(provider) == {}
    assert headers(provider, "") == {}


def test_the_first_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "second-key")
    assert headers("gemini") == {"x-goog-api-key": "second-key"}
    monkeypatch.setenv("GOOGLE_API_KEY", "first-key")
    assert headers("gemini") == {"x-goog-api-key": "first-key"}
    monkeypatch.setenv("GOOGLE_API_KEY", "  ")
    assert headers("gemini") == {"x-goog-api-key": "second-key"}
    assert headers("gemini", KEY) == {"x-goog-api-key": KEY}


def test_a_variable_is_read_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KeySource(resolve_profile("openai-chat", "m"))
    for key in ("first-key", "second-key"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        assert asyncio.run(source.headers()) == {"authorization": f"Bearer {key}"}
    assert not source.is_renewable
    assert source.known_keys == {"first-key", "second-key"}


async def _later() -> str:
    return f" {KEY} "


@pytest.mark.parametrize(
    ("key", "renewable"), [(lambda: KEY, True), (lambda: f"{KEY}\n", True), (_later, True), (KEY, False)]
)
def test_strings_and_functions(key: Any, renewable: bool) -> None:
    source = KeySource(resolve_profile("openai-chat", "m"), key)
    assert source.is_renewable == renewable
    assert asyncio.run(source.headers()) == {"authorization": f"Bearer {KEY}"}
    assert KEY not in repr(source)
    assert source.known_keys == {KEY}


@pytest.mark.parametrize("key", ["", None], ids=["empty", "a forgotten return"])
def test_a_function_without_a_key(key: str | None) -> None:
    with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
        headers("openai-chat", lambda: key)


def test_errors_of_a_function_are_not_wrapped() -> None:
    def key() -> str:
        raise LookupError("the vault is closed")

    with pytest.raises(LookupError, match="vault"):
        headers("openai-chat", key)


@pytest.mark.parametrize(
    "bad",
    [
        "a b c d e f",
        "key-with-\r\nx-evil: 1",
        "schlüssel-123",
        "key\x00-zero-1",
        "key\x7f-delete",
        "key\x1b-escape",
    ],
)
def test_keys_that_are_not_allowed_in_a_header(bad: str) -> None:
    with pytest.raises(AuthenticationFailed, match="characters") as caught:
        headers("anthropic", bad)
    assert bad not in str(caught.value)


async def test_only_the_latest_keys_are_remembered() -> None:
    """A service that renews its token for months stays small; the latest ones are what errors can repeat."""
    numbers = iter(range(10_000))
    source = KeySource(resolve_profile("openai-chat", "m"), lambda: f"token-{next(numbers):08}")
    for _ in range(5_000):
        await source.headers()
    assert "token-00004999" in source.known_keys
    assert len(source.known_keys) <= 1_000


class Memory(KeyringBackend):
    """A keyring that forgets everything at the end."""

    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")


class Broken(Memory):
    """A keyring that is locked."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringError(f"locked: {KEY}")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringError(f"locked: {password}")


@pytest.fixture
def memory() -> Memory:
    backend = Memory()
    keyring.set_keyring(backend)
    return backend


def ask(model: str, transport: ScriptedTransport, times: int = 1, **options: Any) -> None:
    engine = create_engine(model, transport=transport, **options)

    async def main() -> None:
        for _ in range(times):
            await engine.ask(Request(engine.model, [user("hello")]))

    asyncio.run(main())


class TestKeyring:
    def test_store_load_and_delete(self, memory: Memory) -> None:
        assert load_key("anthropic") is None
        assert store_key("anthropic", KEY)
        assert (load_key("anthropic"), memory.kept) == (KEY, {("toolglot", "anthropic"): KEY})
        assert [delete_key("anthropic"), delete_key("anthropic")] == [True, False]
        assert memory.kept == {}

    @pytest.mark.parametrize(("account", "rows"), [
        ("openai", ["openai-chat", "openai-responses"]),
        ("azure", ["azure-chat", "azure-responses", "azure-dated-chat", "azure-dated-responses"]),
        ("anthropic", ["anthropic"]),
        ("gemini", ["gemini"]),
        ("vertex", ["vertex"]),
        ("llama.cpp", ["llama.cpp"]),
    ])  # fmt: skip
    def test_providers_of_one_vendor_share_a_key(self, account: str, rows: list[str]) -> None:
        assert [row for row in PROFILES if keyring_account(row) == account] == rows

    @pytest.mark.parametrize(
        "provider", [row.id for row in PROFILES.values() if row.auth != "optional" and row.id != "copilot"]
    )
    def test_its_key_is_sent_like_any_other(self, provider: str, memory: Memory) -> None:
        store_key(provider, KEY)
        assert headers(provider) == dict([HEADERS[PROFILES[provider].auth]])

    def test_a_variable_goes_first(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        store_key("azure-chat", KEY)
        monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-123")
        assert headers("azure-chat") == {"authorization": "Bearer token-123"}
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-123")
        assert headers("azure-chat") == {"api-key": "key-123"}
        assert headers("azure-chat", "given-123") == {"api-key": "given-123"}

    def test_it_is_read_once(self, memory: Memory) -> None:
        store_key("openai-chat", KEY)
        memory.asked = 0
        ask("openai-chat:m", ScriptedTransport(whole_reply(), whole_reply(), whole_reply()), 3)
        assert memory.asked == 1

    def test_it_is_read_again_after_a_refusal_once(self, memory: Memory) -> None:
        store_key("openai-chat", KEY)

        def change_key(_: object) -> Any:
            store_key("openai-chat", "another-key")
            return error_reply(401, "wrong")

        transport = ScriptedTransport(change_key, whole_reply(), whole_reply())
        ask("openai-chat:m", transport, 2)
        assert [request.headers["authorization"] for request in transport.requests] == [
            f"Bearer {KEY}",
            *["Bearer another-key"] * 2,
        ]
        with pytest.raises(AuthenticationFailed):
            ask(
                "openai-chat:m",
                ScriptedTransport(error_reply(401, "no"), error_reply(401, "no"), whole_reply()),
            )

    def test_it_is_not_read_for_a_server_that_needs_no_key(self, memory: Memory) -> None:
        store_key("compatible", KEY)
        memory.asked = 0
        transport = ScriptedTransport(
            whole_reply(), error_reply(401, "who are you?"), whole_reply(), whole_reply()
        )
        ask("compatible:m", transport, 3, base_url="http://host/v1")
        assert [request.headers.get("authorization") for request in transport.requests] == [
            None,
            None,
            *[f"Bearer {KEY}"] * 2,
        ]
        assert memory.asked == 1

    def test_a_server_that_needs_a_missing_key(self) -> None:
        transport = ScriptedTransport(
            error_reply(401, "who are you?"), error_reply(401, "who are you?"), whole_reply()
        )
        with pytest.raises(AuthenticationFailed, match="who are you"):
            ask("compatible:m", transport, base_url="http://host/v1")
        assert len(transport.requests) == 2

    def test_a_login_at_github_is_not_a_key(self, memory: Memory) -> None:
        assert copilot.store_login(Login("gho_1", "http://127.0.0.1:9")) == "system keyring"
        assert not copilot.login_file().exists()
        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:9"):
            headers("copilot")
        assert describe_key_origin(resolve_profile("copilot")) == "GitHub sign-in (system keyring)"
        assert copilot.delete_login()
        assert memory.kept == {}

    def test_a_login_moves_from_the_file_to_the_keyring(self) -> None:
        copilot.store_login(Login("gho_1"))
        assert copilot.login_file().exists()
        keyring.set_keyring(Memory())
        copilot.store_login(Login("gho_2"))
        assert not copilot.login_file().exists()
        login = copilot.find_login()
        assert login is not None
        assert login[0].token == "gho_2"

    def test_a_failing_keyring_counts_as_empty_and_logs_no_secret(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        keyring.set_keyring(Broken())
        caplog.set_level(logging.DEBUG, "toolglot")
        assert load_key("anthropic") is None
        assert [record.getMessage() for record in caplog.records] == [
            "the system keyring failed: KeyringError"
        ]
        assert not store_key("anthropic", KEY)
        assert not delete_key("anthropic")
        with pytest.raises(AuthenticationFailed, match="ANTHROPIC_API_KEY"):
            headers("anthropic")
        assert KEY not in caplog.text

    @pytest.mark.parametrize("backend", [fail.Keyring, null.Keyring], ids=["none", "switched off"])
    def test_no_backend(self, backend: type[KeyringBackend]) -> None:
        keyring.set_keyring(backend())
        assert (has_backend(), load_key("anthropic"), store_key("anthropic", KEY)) == (False, None, False)

    def test_the_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "keyring", None)
        assert [has_backend(), store_key("anthropic", KEY), delete_key("anthropic")] == [False] * 3
        assert load_key("anthropic") is None
        with pytest.raises(AuthenticationFailed, match="ANTHROPIC_API_KEY"):
            headers("anthropic")


class TestDescribeKeyOrigin:
    @pytest.mark.parametrize("provider", PROFILES)
    def test_nowhere(self, provider: str) -> None:
        assert describe_key_origin(PROFILES[provider]) is None

    @pytest.mark.parametrize(
        ("provider", "name"),
        [(row.id, name) for row in PROFILES.values() for name in (*row.key_env, *row.token_env)],
    )
    def test_a_variable(
        self, provider: str, name: str, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store_key(provider, KEY)
        monkeypatch.setenv(name, KEY)
        assert describe_key_origin(PROFILES[provider]) == f"variable {name}"

    @pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "azure-responses", "vertex", "ollama"])
    def test_the_keyring(self, provider: str, memory: Memory) -> None:
        store_key(provider, KEY)
        assert describe_key_origin(PROFILES[provider]) == "system keyring"

    def test_a_sign_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:9/")
        assert describe_key_origin(PROFILES["azure-chat"]) == "Entra sign-in"


def test_a_provider_outside_the_catalog(memory: Memory) -> None:
    profile = replace(resolve_profile("openai-chat", "m"), id="own", title="Own", key_env=())
    with pytest.raises(AuthenticationFailed, match="no key for Own"):
        asyncio.run(KeySource(profile).headers())
    store_key("own", KEY)
    assert asyncio.run(KeySource(profile).headers()) == {"authorization": f"Bearer {KEY}"}
    assert memory.kept == {("toolglot", "own"): KEY}


def test_a_key_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationFailed, match="MY_KEY is not set"):
        headers("openai-chat", KeyVariable("MY_KEY"))
    monkeypatch.setenv("MY_KEY", f" {KEY}")
    assert headers("openai-chat", KeyVariable("MY_KEY")) == {"authorization": f"Bearer {KEY}"}
