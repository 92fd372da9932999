"""`login` and `logout` as somebody at a terminal, or a script, has them. GitHub is a stand-in on loopback."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail
from tests.cli.cli_kit import Capture, Patch, invoke, run_cli

from toolglot.engine import auth
from toolglot.engine.factory import create_engine
from toolglot.engine.signin import copilot
from toolglot.engine.signin.copilot import GitHub
from toolglot.engine.signin.environment import KEY_VARIABLES
from toolglot.values.messages import user
from toolglot.values.request import Request

KEY = "planted-key-8b1f0c"
LOGIN = "gho_planted0000000000000000000000"
CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}
PAGES = Path(__file__).parent.parent.parent / "docs"


class Memory(KeyringBackend):
    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class Stubborn(Memory):
    """Keeps what it has, and takes nothing more."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise RuntimeError(password)

    def delete_password(self, service: str, username: str) -> None:
        raise RuntimeError(username)


@pytest.fixture(autouse=True)
def memory(monkeypatch: Patch, tmp_path: Path) -> Iterator[Memory]:
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE", "APPDATA", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("toolglot.engine.signin.environment._hidden_keys", {})
    before, backend = keyring.get_keyring(), Memory()
    keyring.set_keyring(backend)
    auth._sign_in.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield backend
    keyring.set_keyring(before)


class TestKeys:
    @pytest.mark.parametrize(
        ("provider", "account"),
        [
            ("anthropic", "anthropic"),
            ("openai", "openai"),
            ("openai-chat", "openai"),
            ("azure", "azure"),
            ("google", "gemini"),
        ],
    )
    def test_a_key_from_a_pipe(self, provider: str, account: str, memory: Memory) -> None:
        outcome = run_cli("login", provider, stdin=f"{KEY}\nanother line\n")
        assert outcome == (0, f"stored the key for {account} in the system keyring\n", "")
        assert memory.kept == {("toolglot", account): KEY}

    def test_a_key_that_is_typed_is_not_shown(self, memory: Memory, monkeypatch: Patch) -> None:
        prompts: list[str] = []

        def read(prompt: str) -> str:
            prompts.append(prompt)
            return f" {KEY} "

        monkeypatch.setattr("toolglot.cli.login.getpass", read)
        code, out, err = run_cli("login", "groq", is_terminal=True)
        assert (code, KEY in out + err, "groq" in prompts[0]) == (0, False, True)
        assert memory.kept == {("toolglot", "groq"): KEY}

    @pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (EOFError, 2)])
    def test_user_who_cancels_stores_nothing(
        self, error: type[BaseException], code: int, memory: Memory, monkeypatch: Patch
    ) -> None:
        def cancel(_: str) -> str:
            raise error

        monkeypatch.setattr("toolglot.cli.login.getpass", cancel)
        assert run_cli("login", "groq", is_terminal=True).code == code
        assert memory.kept == {}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "no key was entered"),
            ("\n", "GROQ_API_KEY"),
            ("a b c", "not a valid key"),
            ("ключ", "not a valid key"),
        ],
    )
    def test_input_that_is_not_a_key(self, text: str, message: str, memory: Memory) -> None:
        code, out, err = run_cli("login", "groq", stdin=text)
        assert (code, out) == (2, "")
        assert message in err
        assert memory.kept == {}

    def test_a_variable_that_takes_precedence_is_named(self) -> None:
        outcome = run_cli("login", "anthropic", stdin=KEY, ANTHROPIC_AUTH_TOKEN="other-key")
        assert (
            outcome.err == "toolglot: ANTHROPIC_AUTH_TOKEN is set and takes precedence over the stored key\n"
        )
        outcome = run_cli("logout", "anthropic", ANTHROPIC_AUTH_TOKEN="other-key")
        assert outcome.err == "toolglot: ANTHROPIC_AUTH_TOKEN is still set\n"

    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            (("login", "vertex"), 2, "gcloud auth application-default login"),
            (("login", "antropic"), 2, "did you mean 'anthropic'"),
            (("logout", "antropic"), 2, "did you mean 'anthropic'"),
            (("login", "groq", "--host", "company.ghe.com"), 2, "only applies to copilot"),
            (("login", "copilot", "--host", "https://company.ghe.com/"), 2, "not a host"),
        ],
    )
    def test_wrong_usage(self, words: tuple[str, ...], code: int, message: str) -> None:
        outcome = run_cli(*words)
        assert outcome[:2] == (code, "")
        assert message in outcome.err

    def test_without_a_keyring_the_variable_is_named(self, monkeypatch: Patch) -> None:
        keyring.set_keyring(fail.Keyring())
        assert "no usable keyring: set GROQ_API_KEY" in run_cli("login", "groq").err
        monkeypatch.setitem(sys.modules, "keyring", None)
        assert "pip install 'toolglot[keyring]'`, or set GROQ_API_KEY" in run_cli("login", "groq").err

    def test_a_keyring_that_fails(self) -> None:
        stubborn = Stubborn()
        keyring.set_keyring(stubborn)
        code, _, err = run_cli("login", "groq", stdin=KEY)
        assert (code, "did not accept the key" in err, KEY in err) == (1, True, False)
        stubborn.kept["toolglot", "groq"] = KEY
        assert "refuses to delete" in run_cli("logout", "groq").err

    def test_logout(self, memory: Memory) -> None:
        run_cli("login", "azure-chat", stdin=KEY)
        assert run_cli("logout", "azure")[:2] == (0, "deleted the key for azure\n")
        assert run_cli("logout", "azure")[:2] == (0, "no key is stored for azure\n")
        assert memory.kept == {}


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class StandIn:
    """GitHub and Copilot: the code is entered before the second look; the first token is refused once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.looks = [{"error": "authorization_pending"}, {"access_token": LOGIN}]
        self.exchange = 200
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                stand_in.asked.append((self.path, self.headers.get("authorization", "")))
                status, value = stand_in.answer(self.path, self.headers.get("authorization", ""))
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        match path:
            case "/login/device/code":
                uri = f"{self.url}/login/device\x1b[31m"
                return 200, {
                    "device_code": "d-1",
                    "user_code": "ABCD-1234",
                    "verification_uri": uri,
                    "interval": 5,
                }
            case "/login/oauth/access_token":
                return 200, self.looks.pop(0)
            case "/copilot_internal/v2/token":
                number = sum(path == each for each, _ in self.asked)
                return self.exchange, {
                    "token": f"tid={number}",
                    "refresh_in": 1500,
                    "endpoints": {"api": self.url},
                }
            case _:
                return (
                    (401, {"error": {"message": "expired"}})
                    if authorization == "Bearer tid=2"
                    else (200, CHAT)
                )


@pytest.fixture
def github() -> Iterator[StandIn]:
    server = StandIn()
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


class TestCopilot:
    @pytest.fixture(autouse=True)
    def _replace_github(self, github: StandIn, monkeypatch: Patch) -> None:
        self.pauses: list[float] = []
        self.interrupt = False

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            if self.interrupt:
                raise KeyboardInterrupt

        def for_host(host: str | None) -> GitHub:
            return GitHub(github.url, github.url)

        monkeypatch.setattr(copilot, "wait_for_login", partial(copilot.wait_for_login, sleep=sleep))
        monkeypatch.setattr(GitHub, "for_host", for_host)

    @pytest.mark.parametrize("backend", [Memory, fail.Keyring], ids=["keyring", "file"])
    def test_from_the_code_to_an_answer_and_out_again(
        self, backend: type[KeyringBackend], github: StandIn, capsys: Capture
    ) -> None:
        keyring.set_keyring(backend())
        assert invoke("login", "copilot") == 0
        out, err = capsys.readouterr()
        location = "the system keyring" if backend is Memory else str(copilot.login_file())
        assert out.splitlines() == [
            f"open {github.url}/login/device[31m and enter the code ABCD-1234",
            f"signed in; the Copilot login is stored in {location}",
        ]
        assert LOGIN not in out + err
        assert self.pauses == [5.0, 5.0]
        engine = create_engine("copilot:gpt-4o")

        async def main() -> str:
            return (await engine.ask(Request("gpt-4o", [user("hello")]))).reply.text

        assert asyncio.run(main()) == "hi"
        exchange, chat = "/copilot_internal/v2/token", "/chat/completions"
        assert github.asked[3:] == [
            (exchange, f"token {LOGIN}"),  # by login, to see that it works
            (exchange, f"token {LOGIN}"),
            (chat, "Bearer tid=2"),
            (exchange, f"token {LOGIN}"),
            (chat, "Bearer tid=3"),
        ]
        assert invoke("logout", "copilot") == 0
        assert copilot.find_login() is None

    @pytest.mark.parametrize(
        ("change", "value", "code", "message"),
        [
            ("exchange", 403, 1, "an account that has Copilot"),
            ("looks", [{"error": "access_denied"}], 1, "denied at GitHub"),
            ("interrupt", True, 130, "waiting for GitHub"),
        ],
    )
    def test_a_failed_sign_in_is_not_stored(
        self, github: StandIn, change: str, value: Any, code: int, message: str
    ) -> None:
        setattr(self if change == "interrupt" else github, change, value)
        outcome = run_cli("login", "copilot")
        assert outcome.code == code
        assert message in outcome.err
        assert "Traceback" not in outcome.err
        assert copilot.find_login() is None
