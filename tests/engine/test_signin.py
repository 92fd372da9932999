"""Sign-ins against servers on loopback: the vendors' own packages are real, their servers are not."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from scripted_transport import cancel

from toolglot.engine.auth import KeySource, SignIn, describe_key_origin
from toolglot.engine.engine import EngineResult
from toolglot.engine.factory import create_engine
from toolglot.engine.signin import copilot
from toolglot.engine.signin.adc import AdcSignIn
from toolglot.engine.signin.copilot import CopilotSignIn, DeviceCode, GitHub, Login
from toolglot.engine.signin.entra import SCOPE, EntraSignIn
from toolglot.engine.signin.environment import (
    KEY_VARIABLES,
    hide_environment,
    read_key_variable,
    secret_values,
)
from toolglot.engine.signin.tokens import CachedSignIn, Token
from toolglot.errors import AuthenticationFailed, ConnectFailed, ServerFailed, ToolglotError, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.config import RetryConfig
from toolglot.values.messages import user
from toolglot.values.request import Request

LOGIN = "gho_planted0000000000000000000000"
CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}
SERVICE_PRINCIPAL = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "hide-me-1"}
CERTIFICATE = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_CERTIFICATE_PATH": "p"}
CERTIFICATE["AZURE_CLIENT_CERTIFICATE_PASSWORD"] = "hide-me-2"
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}


class Received(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str


Answer = tuple[int, Any] | Callable[[Received], tuple[int, Any]]


def in_turn(*answers: Answer) -> Answer:
    """One answer for each request."""
    remaining = list(answers)
    return lambda received: _give(remaining.pop(0), received)


def _give(answer: Answer, received: Received) -> tuple[int, Any]:
    return answer(received) if callable(answer) else answer


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class VendorServer:
    """Answers a path as the test defines, and remembers the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[Received] = []
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                vendor.handle(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0))).decode()
        headers = {name.lower(): value for name, value in handler.headers.items()}
        received = Received(handler.command, handler.path, headers, body)
        self.requests.append(received)
        answer = self.answers.get(urlsplit(handler.path).path, (404, {"message": "no such path"}))
        status, value = _give(answer, received)
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        handler.send_response(status)
        handler.send_header(
            "Content-Type", "application/text" if isinstance(value, str) else "application/json"
        )
        handler.send_header("Content-Length", str(len(data)))
        handler.send_header("Metadata-Flavor", "Google")
        handler.end_headers()
        handler.wfile.write(data)

    def requests_to(self, path: str) -> list[Received]:
        return [received for received in self.requests if urlsplit(received.path).path == path]


@pytest.fixture
def server(nobody_signed_in: None) -> Iterator[VendorServer]:
    vendor = VendorServer()
    thread = threading.Thread(target=vendor.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield vendor
    vendor.server.shutdown()
    thread.join()
    vendor.server.server_close()


pytestmark = pytest.mark.usefixtures("nobody_signed_in")


def headers(provider: str, key: SignIn | None = None) -> dict[str, str]:
    return asyncio.run(KeySource(resolve_profile(provider, "m"), key).headers())


def ask(model: str, times: int = 1, **options: Any) -> list[EngineResult]:
    engine = create_engine(model, retry=RetryConfig(base=0.0, max_delay=0.0), **options)

    async def main() -> list[EngineResult]:
        try:
            return [await engine.ask(Request(engine.model, [user("hello")])) for _ in range(times)]
        finally:
            await engine.close()

    return asyncio.run(main())


def error_text(make: Callable[[], object], *words: str) -> str:
    """The sentence of the error that comes; it is one, and holds these words."""
    with pytest.raises(ToolglotError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []
    assert caught.value.__cause__ is None
    return message


def bearers(requests: list[Received]) -> list[str]:
    return [received.headers["authorization"].removeprefix("Bearer ") for received in requests]


class Fetches(CachedSignIn):
    """Numbered tokens that live for a while."""

    def __init__(self, life: float | None = 3600.0) -> None:
        super().__init__(lambda: self.now)
        self.now, self.life, self.count = 1000.0, life, 0
        self.gate: asyncio.Event | None = None
        self.failures: list[Exception] = []

    async def fetch(self) -> Token:
        if self.failures:
            raise self.failures.pop()
        self.count += 1
        number = self.count
        if self.gate is not None:
            await self.gate.wait()
        return Token(f"token-{number}", None if self.life is None else self.now + self.life)

    def get(self, *, fresh: bool = False) -> str:
        return asyncio.run(self.token(fresh=fresh)).text


class TestTokenCache:
    @pytest.mark.parametrize(
        ("life", "good", "stale"), [(3600.0, 3479.0, 3481.0), (100.0, 49.0, 51.0), (None, 1e9, None)]
    )
    def test_tokens_are_kept_until_shortly_before_they_expire(
        self, life: float, good: float, stale: float | None
    ) -> None:
        fetches = Fetches(life)
        for seconds, text in ((0.0, "token-1"), (good, "token-1"), (stale, "token-2")):
            if seconds is not None:
                fetches.now = 1000.0 + seconds
                assert fetches.get() == text

    def test_a_refused_token_is_replaced(self) -> None:
        fetches = Fetches()
        assert [fetches.get(), fetches.get(fresh=True), fetches.get()] == ["token-1", "token-2", "token-2"]

    def test_an_expired_token_is_not_kept(self) -> None:
        fetches = Fetches(-10.0)
        assert [fetches.get(), fetches.get()] == ["token-1", "token-2"]

    async def test_concurrent_callers_share_one_fetch(self) -> None:
        fetches = Fetches()
        fetches.gate = asyncio.Event()
        tasks = [asyncio.create_task(fetches.token(fresh=number % 2 == 0)) for number in range(50)]
        await asyncio.sleep(0)
        await cancel(tasks.pop())  # the others still get the token
        fetches.gate.set()
        assert {token.text for token in await asyncio.gather(*tasks)} == {"token-1"}
        assert fetches.count == 1

    def test_a_failure_is_not_kept(self) -> None:
        fetches = Fetches()
        fetches.failures = [AuthenticationFailed("not now")]
        with pytest.raises(AuthenticationFailed, match="not now"):
            fetches.get()
        assert fetches.get() == "token-1"

    def test_no_repr_shows_a_secret(self) -> None:
        assert "secret" not in repr(Token("secret-token", 1.0, "https://host", {"x": "secret"}))
        assert "secret" not in repr(Login("secret-token"))
        assert "secret" not in repr(DeviceCode("secret-device", "secret-user", "https://host"))


class Numbered:
    """A sign-in that records how it was called."""

    def __init__(self) -> None:
        self.fresh: list[bool] = []

    async def token(self, *, fresh: bool) -> Token:
        self.fresh.append(fresh)
        return Token(f"token-{1 + sum(self.fresh)}", headers={"x-extra": "1"})


class TestCustomSignIn:
    def test_is_a_key(self) -> None:
        assert headers("anthropic", Numbered()) == {"authorization": "Bearer token-1", "x-extra": "1"}

    def test_is_asked_for_a_fresh_token_once_after_a_401(self, server: VendorServer) -> None:
        server.answers["/v1/chat/completions"] = in_turn(
            (401, {"error": {"message": "expired"}}), (200, CHAT), (200, CHAT)
        )
        sign_in = Numbered()
        ask("compatible:m", 2, base_url=f"{server.url}/v1", key=sign_in)
        assert bearers(server.requests) == ["token-1", "token-2", "token-2"]
        assert sign_in.fresh == [False, False, True, False]

    def test_two_refusals_are_final(self, server: VendorServer) -> None:
        server.answers["/v1/chat/completions"] = (401, {"error": {"message": "expired token-1 token-2"}})
        message = error_text(
            lambda: ask("compatible:m", base_url=f"{server.url}/v1", key=Numbered()), "expired"
        )
        assert len(server.requests) == 2
        assert "token-2" not in message

    async def test_many_refusals_at_once_take_one_fetch(self, server: VendorServer) -> None:
        fetches = Fetches()

        def answer(received: Received) -> tuple[int, Any]:
            return (
                (401, {"error": {"message": "expired"}})
                if "token-1" in received.headers["authorization"]
                else (200, CHAT)
            )

        server.answers["/v1/chat/completions"] = answer
        engine = create_engine("compatible:m", base_url=f"{server.url}/v1", key=fetches)
        await asyncio.gather(*(engine.ask(Request("m", [user("hello")])) for _ in range(10)))
        assert fetches.count == 2
        assert len(server.requests) == 20


class TestEntra:
    @pytest.fixture(autouse=True)
    def managed_identity(self, monkeypatch: pytest.MonkeyPatch, server: VendorServer) -> None:
        """As in App Service: the machine has an account, and a place to ask for its tokens."""
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "managedidentitycredential")
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "msi-secret")
        numbers = iter(range(1, 100))
        token = {"expires_on": "4102444800", "resource": "r", "token_type": "Bearer"}
        server.answers["/msi/token"] = lambda _: (200, {"access_token": f"entra-{next(numbers)}", **token})

    @pytest.mark.parametrize("provider", ["azure-chat", "azure-dated-responses"])
    def test_a_token_is_a_bearer(self, provider: str, server: VendorServer) -> None:
        assert headers(provider) == {"authorization": "Bearer entra-1"}
        received = server.requests[0]
        assert received.headers["x-identity-header"] == "msi-secret"
        assert parse_qs(urlsplit(received.path).query)["resource"] == ["https://cognitiveservices.azure.com"]

    def test_all_engines_share_a_token(self, server: VendorServer) -> None:
        assert headers("azure-chat") == headers("azure-responses")
        assert len(server.requests) == 1

    def test_a_refused_token_is_fetched_anew_once(self, server: VendorServer) -> None:
        path = "/openai/v1/chat/completions"
        server.answers[path] = in_turn(
            (401, {"error": {"code": "401", "message": "Access denied"}}), (200, CHAT)
        )
        assert ask("azure-chat:gpt-4o", base_url=server.url)[0].reply.text == "hi"
        assert bearers(server.requests_to(path)) == ["entra-1", "entra-2"]

    def test_a_refused_identity_is_one_sentence(self, server: VendorServer) -> None:
        server.answers["/msi/token"] = (
            400,
            {"error": "invalid_request", "error_description": "no such identity"},
        )
        error_text(lambda: headers("azure-chat"), "az login")

    def test_nobody_is_signed_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "environmentcredential")
        error_text(lambda: headers("azure-chat"), "Azure OpenAI", "AZURE_OPENAI_API_KEY", "key=", "az login")
        monkeypatch.setitem(sys.modules, "azure.identity", None)
        error_text(
            lambda: headers("azure-chat"), "AZURE_OPENAI_API_KEY", "pip install 'toolglot[azure]'", "Entra"
        )

    @pytest.mark.parametrize(("kind", "variables", "arguments"), [
        ("ClientSecretCredential", SERVICE_PRINCIPAL, {"tenant_id": "t", "client_id": "c", "client_secret": "hide-me-1"}),
        ("CertificateCredential", CERTIFICATE,
            {"tenant_id": "t", "client_id": "c", "certificate_path": "p", "password": "hide-me-2"}),
        ("UsernamePasswordCredential", {"AZURE_CLIENT_ID": "c", "AZURE_USERNAME": "u", "AZURE_PASSWORD": "hide-me-3"},
            {"client_id": "c", "username": "u", "password": "hide-me-3"}),
    ])  # fmt: skip
    def test_hidden_secrets_are_handed_over_and_never_put_back(
        self, kind: str, variables: dict[str, str], arguments: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AZURE_TOKEN_CREDENTIALS")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        hide_environment()
        seen: list[tuple[dict[str, str], bool]] = []

        def get_token(scope: str) -> SimpleNamespace:
            return SimpleNamespace(token=f"for {scope}", expires_on=5)

        def create_credential(**options: str) -> Any:
            seen.append((options, any("hide-me" in value for value in os.environ.values())))
            return nullcontext(SimpleNamespace(get_token=get_token))

        monkeypatch.setitem(sys.modules, "azure.identity", SimpleNamespace(**{kind: create_credential}))
        token = asyncio.run(EntraSignIn().token(fresh=False))
        assert (token.text, token.expires_at) == (f"for {SCOPE}", 5.0)
        assert seen == [(arguments, False)]

    def test_the_real_package_takes_what_is_handed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A secret with a tenant that cannot be is refused before anything is sent."""
        monkeypatch.delenv("AZURE_TOKEN_CREDENTIALS")
        for name, value in {**SERVICE_PRINCIPAL, "AZURE_TENANT_ID": "not a tenant!"}.items():
            monkeypatch.setenv(name, value)
        hide_environment()
        assert "hide-me-1" not in error_text(
            lambda: headers("azure-chat"), "Entra returned no token", "tenant"
        )

    def test_describe_origin(
        self, monkeypatch: pytest.MonkeyPatch, server: VendorServer, tmp_path: Path
    ) -> None:
        assert EntraSignIn().describe_origin() == "Entra sign-in"
        monkeypatch.delenv("IDENTITY_ENDPOINT")
        assert EntraSignIn().describe_origin() is None
        (tmp_path / "home").mkdir()
        assert EntraSignIn().describe_origin() == "Entra sign-in"
        monkeypatch.setitem(sys.modules, "azure.identity", None)
        assert EntraSignIn().describe_origin() is None
        assert server.requests == []


@pytest.fixture(scope="module")
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none).decode()


class TestGoogle:
    VERTEX = "/v1/projects/p/locations/global/publishers/google/models/gemini-3-pro:generateContent"

    @pytest.fixture
    def account(
        self, private_key: str, server: VendorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Path:
        """A service account's key file."""
        numbers = iter(range(1, 100))
        server.answers["/token"] = lambda _: (
            200,
            {"access_token": f"google-{next(numbers)}", "expires_in": 3600},
        )
        file = tmp_path / "account.json"
        key = {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "k",
            "private_key": private_key,
            "client_email": "robot@p.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{server.url}/token",
        }
        file.write_text(json.dumps(key))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        return file

    @pytest.mark.usefixtures("account")
    def test_a_key_file_gives_tokens(self, server: VendorServer) -> None:
        assert headers("vertex") == {"authorization": "Bearer google-1"}
        assert "jwt-bearer" in server.requests[0].body

    @pytest.mark.usefixtures("account")
    def test_the_quota_project_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
        assert headers("vertex") == {"authorization": "Bearer google-1", "x-goog-user-project": "payer"}

    @pytest.mark.usefixtures("account")
    def test_a_token_is_kept_and_renewed_once_when_it_is_refused(self, server: VendorServer) -> None:
        server.answers[self.VERTEX] = in_turn(
            (200, GEMINI), (401, {"error": {"code": 401, "message": "expired"}}), (200, GEMINI)
        )
        ask("vertex:gemini-3-pro", 2, base_url=server.url, project="p")
        assert bearers(server.requests_to(self.VERTEX)) == ["google-1", "google-1", "google-2"]

    @pytest.mark.usefixtures("account")
    def test_expiry(self) -> None:
        from time import time

        token = asyncio.run(AdcSignIn().token(fresh=False))
        assert token.expires_at == pytest.approx(time() + 3600, abs=60)

    @pytest.mark.usefixtures("account")
    def test_a_refused_account_is_one_sentence(self, server: VendorServer) -> None:
        server.answers["/token"] = (
            400,
            {"error": "invalid_grant", "error_description": "Invalid JWT Signature."},
        )
        error_text(lambda: headers("vertex"), "Google refused", "gcloud auth application-default login")

    def test_nobody_answers(self, account: Path) -> None:
        account.write_text(
            account.read_text().replace(
                json.loads(account.read_text())["token_uri"], "http://127.0.0.1:9/token"
            )
        )
        with pytest.raises(ConnectFailed, match="Google's sign-in"):
            headers("vertex")

    @pytest.mark.parametrize("text", ["", "{", '{"type": "service_account"}', '{"type": "odd"}', None])
    def test_an_invalid_key_file(self, text: str | None, account: Path) -> None:
        if text is None:
            account.unlink()
        else:
            account.write_text(text)
        error_text(lambda: headers("vertex"), "GOOGLE_APPLICATION_CREDENTIALS", str(account))

    def test_the_machine_has_an_account(self, server: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on Compute Engine.

        The package reads its variables when it is imported, so the places are set.
        """
        host = server.url.removeprefix("http://")
        monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", False)
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_IP", host)
        accounts = "/computeMetadata/v1/instance/service-accounts"
        server.answers |= {
            "/": (200, {}),
            "/computeMetadata/v1/project/project-id": (200, "p"),
            "/computeMetadata/v1/universe/universe-domain": (200, "googleapis.com"),
            f"{accounts}/default/": (200, {"email": "robot@p", "scopes": ["s"]}),
            f"{accounts}/default/token": (
                200,
                {"access_token": "machine-1", "expires_in": 3600, "token_type": "Bearer"},
            ),
            f"{accounts}/robot@p/token": (
                200,
                {"access_token": "machine-1", "expires_in": 3600, "token_type": "Bearer"},
            ),
        }
        assert AdcSignIn().describe_origin() == "Google sign-in (this machine's account)"
        assert server.requests == []
        assert headers("vertex")["authorization"] == "Bearer machine-1"

    def test_nobody_is_signed_in(self, caplog: pytest.LogCaptureFixture) -> None:
        words = ("Vertex", "GOOGLE_ACCESS_TOKEN", "key=", "gcloud auth application-default login")
        error_text(lambda: headers("vertex"), *words, "GOOGLE_APPLICATION_CREDENTIALS")
        assert [record for record in caplog.records if record.name.startswith("toolglot")] == []

    @pytest.mark.parametrize("package", ["google.auth", "requests"])
    def test_a_package_is_missing(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        if package == "requests":
            monkeypatch.delitem(sys.modules, "google.auth.transport.requests", raising=False)
        error_text(
            lambda: headers("vertex"), "GOOGLE_ACCESS_TOKEN", "pip install 'toolglot[vertex]'", "gcloud"
        )
        assert AdcSignIn().describe_origin() is None

    def test_describe_origin(self, account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert AdcSignIn().describe_origin() == "Google sign-in (GOOGLE_APPLICATION_CREDENTIALS)"
        account.unlink()
        assert AdcSignIn().describe_origin() is None
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
        assert AdcSignIn().describe_origin() is None
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "application_default_credentials.json").write_text("{}")
        assert AdcSignIn().describe_origin() == "Google sign-in (gcloud)"


class TestCopilot:
    PATH = "/copilot_internal/v2/token"

    @pytest.fixture
    def github(self, server: VendorServer) -> VendorServer:
        numbers = iter(range(1, 100))
        server.answers[self.PATH] = lambda _: (
            200,
            {
                "token": f"tid={next(numbers)}",
                "expires_at": 1,
                "refresh_in": 1500,
                "endpoints": {"api": f"{server.url}/far"},
            },
        )
        server.answers["/far/chat/completions"] = (200, CHAT)
        return server

    def sign_in(self, server: VendorServer, **options: Any) -> CopilotSignIn:
        return CopilotSignIn(Login(LOGIN, server.url), **options)

    def test_a_login_is_exchanged_and_the_token_is_used_where_it_is_valid(self, github: VendorServer) -> None:
        ask("copilot:gpt-4o", 3, key=self.sign_in(github))
        (exchange,) = github.requests_to(self.PATH)
        assert (exchange.method, exchange.headers["authorization"]) == ("GET", f"token {LOGIN}")
        assert bearers(github.requests_to("/far/chat/completions")) == ["tid=1"] * 3

    def test_an_explicit_address_is_used(self, github: VendorServer) -> None:
        github.answers["/near/chat/completions"] = (200, CHAT)
        ask("copilot:gpt-4o", key=self.sign_in(github), base_url=f"{github.url}/near")
        assert [urlsplit(received.path).path for received in github.requests] == [
            self.PATH,
            "/near/chat/completions",
        ]

    def test_a_refused_token_is_exchanged_anew_once(self, github: VendorServer) -> None:
        github.answers["/far/chat/completions"] = in_turn((401, "unauthorized: token expired"), (200, CHAT))
        assert ask("copilot:gpt-4o", key=self.sign_in(github))[0].reply.text == "hi"
        assert bearers(github.requests_to("/far/chat/completions")) == ["tid=1", "tid=2"]
        github.answers["/far/chat/completions"] = (401, "unauthorized: token expired")
        before = len(github.requests_to(self.PATH))
        error_text(lambda: ask("copilot:gpt-4o", key=self.sign_in(github)), "expired")
        assert len(github.requests_to(self.PATH)) == before + 2

    def test_it_is_exchanged_again_when_it_expires(self, github: VendorServer) -> None:
        now = 1000.0
        sign_in = self.sign_in(github, clock=lambda: now)
        for seconds, text in ((0, "tid=1"), (1370, "tid=1"), (1390, "tid=2")):
            now = 1000.0 + seconds
            assert asyncio.run(sign_in.token(fresh=False)).text == text

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_a_refused_login(self, status: int, github: VendorServer) -> None:
        github.answers[self.PATH] = (status, {"message": f"Bad credentials {LOGIN}"})
        message = error_text(
            lambda: ask("copilot:gpt-4o", key=self.sign_in(github)), "run `toolglot login copilot`"
        )
        assert LOGIN not in message
        assert len(github.requests) == 1

    def test_a_failure_of_github_is_retried_and_shows_no_login(self, github: VendorServer) -> None:
        good, bad = github.answers[self.PATH], (500, {"message": f"failed for {LOGIN} and plain-login-1"})
        github.answers[self.PATH] = in_turn(bad, good)
        assert ask("copilot:gpt-4o", key=self.sign_in(github))[0].retries == 1
        github.answers[self.PATH] = bad
        for login in (LOGIN, "plain-login-1"):  # the second does not look like a secret
            with pytest.raises(ServerFailed, match="failed for") as caught:
                asyncio.run(copilot.exchange_login(Login(login, github.url)))
            assert caught.value.status == 500
            assert login not in str(caught.value) + repr(vars(caught.value))

    @pytest.mark.parametrize(("answer", "words"), [
        ({"token": ""}, "no token"),
        ({"endpoints": {}}, "no token"),
        ("<html>", "cannot be read"),
        ({"token": "t", "endpoints": {"api": 5}}, "cannot be read"),
        ({"token": "t", "endpoints": {"api": "http://api.example.com"}}, "not https"),
        ({"token": "t", "endpoints": {"api": "ftp://127.0.0.1"}}, "not https"),
        ({"token": "t", "endpoints": {"api": "http://["}}, "not https"),
    ], ids=["empty", "absent", "a page", "a number", "plain", "odd", "broken"])  # fmt: skip
    def test_invalid_answers(self, answer: Any, words: str, github: VendorServer) -> None:
        github.answers[self.PATH] = (200, answer)
        error_text(lambda: headers("copilot", self.sign_in(github)), words)

    @pytest.mark.parametrize(
        "answer", [{"token": "t"}, {"token": "t", "endpoints": None}, {"token": "t", "endpoints": {}}]
    )
    def test_answers_without_an_address(self, answer: Any, github: VendorServer) -> None:
        github.answers[self.PATH] = (200, answer)
        token = asyncio.run(self.sign_in(github).token(fresh=False))
        assert (token.text, token.base_url, token.expires_at) == ("t", "", None)

    @pytest.mark.parametrize("api", ["http://api.example.com", "file:///etc", ""])
    def test_a_login_goes_over_https_only(self, api: str) -> None:
        error_text(
            lambda: headers("copilot", CopilotSignIn(Login(LOGIN, api))),
            "not https",
            "toolglot login copilot",
        )

    def test_it_needs_its_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        copilot.store_login(Login(LOGIN))
        monkeypatch.setattr("toolglot.engine.signin.keyring_store.is_installed", lambda: False)
        error_text(lambda: headers("copilot"), "pip install 'toolglot[copilot]'", "GITHUB_COPILOT_API_KEY")
        assert describe_key_origin(resolve_profile("copilot", "m")) is None

    @pytest.mark.parametrize(
        "name", ["GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"]
    )
    def test_a_variable_goes_first_and_as_it_is(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(name, LOGIN)
        assert headers("copilot") == {"authorization": f"Bearer {LOGIN}"}

    def test_other_tokens_of_github_are_never_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GITHUB_TOKEN", "GH_TOKEN"):
            monkeypatch.setenv(name, LOGIN)
        error_text(
            lambda: headers("copilot"),
            "GitHub Copilot",
            "GITHUB_COPILOT_API_KEY",
            "key=",
            "run `toolglot login copilot`",
        )

    def test_a_login_in_a_file_is_its_owners_only(self, github: VendorServer) -> None:
        location = copilot.store_login(Login(LOGIN, github.url))
        assert Path(location) == copilot.login_file()
        if os.name == "posix":
            assert (Path(location).stat().st_mode & 0o777, Path(location).parent.stat().st_mode & 0o777) == (
                0o600,
                0o700,
            )
        assert CopilotSignIn().describe_origin() == f"GitHub sign-in ({location})"
        assert headers("copilot") == {"authorization": "Bearer tid=1"}
        assert [entry.name for entry in Path(location).parent.iterdir()] == ["copilot.json"]
        assert [copilot.delete_login(), copilot.delete_login()] == [True, False]
        assert CopilotSignIn().describe_origin() is None

    @pytest.mark.parametrize(("text", "expected"), [
        (LOGIN, Login(LOGIN)),
        (f'{{"token":"{LOGIN}"}}', Login(LOGIN)),
        (f'{{"token":"{LOGIN}","api":"https://api.x"}}', Login(LOGIN, "https://api.x")),
        ("", None),
        ('{"token":', None),
        ("two words", None),
        ("[]", None),
    ])  # fmt: skip
    def test_login_file_formats(self, text: str, expected: Login | None) -> None:
        file = copilot.login_file()
        file.parent.mkdir(parents=True)
        file.write_text(text)
        kept = copilot.find_login()
        assert (kept[0] if kept else None) == expected

    def test_a_directory_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("a file")
        error_text(lambda: copilot.store_login(Login(LOGIN)), "cannot create the directory", "home")


class TestDeviceFlow:
    CODE = DeviceCode("device-1", "ABCD-1234", "https://github.com/login/device", 60.0, 5.0)
    POLL = "/login/oauth/access_token"

    def finish(self, server: VendorServer, code: DeviceCode = CODE) -> tuple[Login, list[float]]:
        self.pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        login = asyncio.run(copilot.wait_for_login(code, GitHub(server.url, "https://api.x"), sleep=sleep))
        return login, self.pauses

    def test_start(self, server: VendorServer) -> None:
        answer = {
            "device_code": "d",
            "user_code": "U-1",
            "verification_uri": "https://x",
            "expires_in": 899,
            "interval": "7",
        }
        server.answers["/login/device/code"] = (200, answer)
        code = asyncio.run(copilot.request_device_code(GitHub(server.url)))
        assert (code.user_code, code.expires_in, code.interval) == ("U-1", 899.0, 7.0)
        assert parse_qs(server.requests[0].body) == {
            "client_id": ["Iv1.b507a08c87ecfe98"],
            "scope": ["read:user"],
        }

    @pytest.mark.parametrize("answer", [{"error": "unauthorized_client"}, {"device_code": 5}, {}])
    def test_failure_to_start(self, answer: Any, server: VendorServer) -> None:
        server.answers["/login/device/code"] = (200, answer)
        start = copilot.request_device_code(GitHub(server.url))
        error_text(lambda: asyncio.run(start), "did not start", answer.get("error", "no reason"))

    def test_polling_interval(self, server: VendorServer) -> None:
        pending = (200, {"error": "authorization_pending"})
        slower = (200, {"error": "slow_down", "interval": 10})
        server.answers[self.POLL] = in_turn(
            pending, slower, pending, (200, {"access_token": LOGIN, "token_type": "bearer"})
        )
        assert self.finish(server) == (Login(LOGIN, "https://api.x"), [5.0, 5.0, 10.0, 10.0])
        form = parse_qs(server.requests[0].body)
        assert form["device_code"] == ["device-1"]
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:device_code"]

    @pytest.mark.parametrize(("error", "words"), [
        ("expired_token", "not entered in time"),
        ("access_denied", "denied at GitHub"),
        ("incorrect_device_code", "incorrect_device_code"),
        ("odd <b> error", "no reason given"),
    ])  # fmt: skip
    def test_failure(self, error: str, words: str, server: VendorServer) -> None:
        server.answers[self.POLL] = (200, {"error": error})
        error_text(lambda: self.finish(server), words, "toolglot login copilot")
        assert len(server.requests) == 1

    def test_the_code_expires(self, server: VendorServer) -> None:
        server.answers[self.POLL] = (200, {"error": "authorization_pending"})
        error_text(lambda: self.finish(server), "not entered in time")
        assert sum(self.pauses) == 60.0

    def test_network_errors_are_retried(self) -> None:
        nobody = VendorServer()
        nobody.server.server_close()
        error_text(lambda: self.finish(nobody), "not entered in time")

    @pytest.mark.parametrize(("host", "expected"), [
        (None, GitHub()),
        ("github.com", GitHub()),
        ("company.ghe.com", GitHub("https://company.ghe.com", "https://api.company.ghe.com")),
    ])  # fmt: skip
    def test_enterprise_host(self, host: str | None, expected: GitHub) -> None:
        assert GitHub.for_host(host) == expected

    @pytest.mark.parametrize(
        "host", ["", "https://x.com", "x.com/path", "x.com:80", "a..b", "x@y.com", "ü.com"]
    )
    def test_invalid_host(self, host: str) -> None:
        with pytest.raises(UsageError, match="not a host"):
            GitHub.for_host(host)


class TestHiddenVariables:
    def test_only_the_key_source_sees_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        secrets = {
            name: f"hide-me-{number}" for number, name in enumerate(sorted(KEY_VARIABLES | {"MY_KEY"}))
        }
        for name, value in secrets.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("toolglot.engine.signin.environment._extra_names", set[str]())
        hide_environment(keep=["GROQ_API_KEY"], extra=["MY_KEY"])
        child = subprocess.run(
            [sys.executable, "-S", "-c", "import os; print(*os.environ.values())"],
            capture_output=True,
            text=True,
        )
        kept = secrets["GROQ_API_KEY"]
        assert child.stdout.split().count(kept) == 1
        assert child.stdout.replace(kept, "").count("hide-me") == 0
        assert [
            value for name, value in os.environ.items() if "hide-me" in value and name != "GROQ_API_KEY"
        ] == []
        assert {name: read_key_variable(name) for name in secrets} == secrets
        assert secret_values() >= set(secrets.values())
        assert headers("anthropic") == {"x-api-key": secrets["ANTHROPIC_API_KEY"]}

    def test_a_variable_that_is_set_later_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XAI_API_KEY", "first-key")
        headers("xai")
        assert os.environ["XAI_API_KEY"] == "first-key"  # the library hides nothing by itself
        hide_environment()
        assert read_key_variable("XAI_API_KEY") == "first-key"
        monkeypatch.setenv("XAI_API_KEY", " second-key ")
        assert read_key_variable("XAI_API_KEY") == "second-key"

    def test_tokens_in_use_are_secrets(self) -> None:
        headers("anthropic", Numbered())
        assert "token-1" in secret_values()
