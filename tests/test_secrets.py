"""The hunt for keys: they are planted wherever one may come from, things go wrong in every way, and all bytes
that come out are searched for them. Also what is taken for a key, and what is not.
"""

import asyncio
import base64
import json
import logging
import os
import pickle
import re
import sys
import time
import traceback
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent_kit import setup_of

from toolglot.cli.logging_setup import configure_logging
from toolglot.common.jsontext import dumps
from toolglot.common.redact import REDACTED, redact
from toolglot.engine.auth import Key
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.recording import RecordingTransport, ReplayTransport
from toolglot.engine.transport import HttpRequest, Timeouts
from toolglot.errors import ProviderError, ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.providers.catalog import PROFILES
from toolglot.simulator.core import Simulator
from toolglot.simulator.server import serve
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import RetryConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import user
from toolglot.values.request import Options, Request

ONCE = RetryConfig(max_retries=1, base=0.0, max_delay=0.0)
QUICK = Timeouts(connect=5.0, first_byte=0.15, idle=0.15)


def make_key(name: str) -> str:
    """A key that looks like nothing in particular: only what knows it can hide it."""
    return sha256(name.encode()).hexdigest()[:40]


# ---- searching


class Hunt:
    """Everything that came out, and the keys that may not be in it.

    A key that was cut short is a leak too.
    """

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.found: list[tuple[str, bytes]] = []

    def plant(self, name: str) -> str:
        self.keys.append(make_key(name))
        return self.keys[-1]

    def keep(self, where: str, *things: Any) -> None:
        for thing in things:
            data = thing if isinstance(thing, bytes) else str(thing).encode("utf-8", "backslashreplace")
            self.found.append((where, data))

    def keep_file(self, path: Path) -> None:
        self.keep(path.name, path.read_bytes())

    def keep_error(self, error: BaseException, where: str = "") -> None:
        """All that can be seen of an error and of those behind it."""
        where = f"{where} {type(error).__name__}".strip()
        self.keep(where, str(error), repr(error), repr(error.args), repr(vars(error)))
        self.keep(f"{where}, traceback", "".join(traceback.format_exception(error)))
        if isinstance(error, ToolglotError):
            self.keep(f"{where}, pickle", pickle.dumps([type(error), error.args, vars(error)]))
        for behind in (error.__cause__, error.__context__):
            if behind is not None:
                self.keep_error(behind, where)

    def keep_records(self, records: Iterable[logging.LogRecord]) -> None:
        for record in records:
            self.keep(
                f"log {record.name}", record.getMessage(), repr({**vars(record), "args": repr(record.args)})
            )

    @property
    def leaks(self) -> set[str]:
        """Where a key was seen, in which form, and what stood around it."""
        return {
            f"{where}: …{data[max(0, at - 60) : at + 12].decode('utf-8', 'replace')}…"
            for key in self.keys
            for form in _forms(key)
            for where, data in self.found
            if (at := data.find(form)) >= 0
        }

    @property
    def size(self) -> int:
        return sum(len(data) for _, data in self.found)


def _forms(key: str) -> set[bytes]:
    start = key[:12]
    in_base64 = base64.b64encode(f"me:{key}".encode())[:18]
    return {
        start.encode(),
        quote(start, safe="").encode(),
        json.dumps(start)[1:-1].encode(),
        start.encode().hex().encode(),
        in_base64,
    }


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key of this machine, and no home of it."""
    for row in PROFILES.values():
        for name in (*row.key_env, *row.token_env, *row.base_env):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "home" / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


@pytest.fixture
def hunt(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Iterator[Hunt]:
    """A hunt that takes in all log records, raw, and what was printed. It fails where a key was seen."""
    caplog.set_level(logging.DEBUG)
    hunt = Hunt()
    yield hunt
    hunt.keep_records(caplog.records)
    hunt.keep("printed", *capfd.readouterr())
    assert hunt.keys
    assert hunt.size > 200, "nothing came out that could be searched"
    if hunt.leaks:
        pytest.fail("a key was seen:\n" + "\n".join(sorted(hunt.leaks)[:20]), pytrace=False)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


# ---- a server that tells what it was told


class Echo:
    """Answers with the whole head of the request, in the way that the path's first part names."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.heads: list[str] = []
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            self.heads.append(head)
            writer.write(_echo(head.split()[1].split("/")[1], head))
            await writer.drain()
        writer.close()


def _echo(mode: str, head: str) -> bytes:
    line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
    basic = headers.get("authorization", "").removeprefix("Basic ")
    with suppress(ValueError):
        headers["decoded"] = base64.b64decode(basic, validate=True).decode()
    values = [value.removeprefix("Bearer ") for value in headers.values()]
    text = (
        f"{line} {' '.join(values)} {json.dumps(headers)} "
        f"{'&'.join(quote(value, safe='') for value in values)}"
    )
    error = {
        "type": "error",
        "message": text,
        "error": {"type": "strange", "message": text, "headers": headers},
    }
    kind, status, extra_headers, body = "application/json", 200, "", dumps(error)
    match mode:
        case "code":
            status, body = 400, dumps({"error": {"message": "no", "code": " ".join(values), "type": values}})
        case "plain":
            status, kind, body = 401, "text/plain", head.encode()
        case "long":
            status = 500
            kind = "text/plain"
            body = b"x" * 1990 + b" ".join(value.encode() for value in values)
        case "nested":
            status, body = 400, dumps({"problem": "x" * 480, "headers": headers})
        case "redirect":
            status, extra_headers = 307, f"Location: http://127.0.0.1:1/{quote(text)}\r\n"
        case "request-id":
            status, extra_headers = (
                500,
                f"x-request-id: {' '.join(values)}\r\nwww-authenticate: {text}\r\nretry-after: {text}\r\n",
            )
        case "stream-error":
            kind, body = "text/event-stream", b"event: error\ndata: " + dumps(error) + b"\n\n"
        case "line-error":
            kind, body = "application/x-ndjson", dumps({"error": text}) + b"\n"
        case "not-json":
            kind, body = "text/event-stream", f"data: {text}\n\n".encode()
        case "shape":
            body = dumps(
                dict.fromkeys(("choices", "content", "output", "candidates", "message", "usage"), text)
            )
        case "cut":
            kind, body = "text/event-stream", b'data: {"id": "' + text.encode()
        case "no-http":
            return f"HTTP/1.1 {text}\r\n\r\n".encode()
        case "bad-header":
            return f"HTTP/1.1 200 OK\r\n{text}\r\n\r\n".encode()
        case "heal":
            message = f"Unsupported parameter: 'temperature' is not supported with this model. {text}"
            status = 400
            body = dumps({"type": "error", "error": {"message": message, "type": "invalid_request_error"}})
        case _:
            status = int(mode)
    start = (
        f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: "
        "close\r\n"
    )
    return (start + extra_headers + "\r\n").encode() + body


MODES = (
    *("400", "401", "403", "404", "429", "500", "529"),
    *("code", "plain", "long", "nested", "redirect", "request-id", "heal"),
    *("stream-error", "line-error", "not-json", "shape", "cut", "no-http", "bad-header"),
)
FEW = ("401", "code", "plain", "not-json", "no-http")
ASKED = Request("", [user("Hi")], options=Options(temperature=0.5))


def make_engine(provider: str, base_url: str, **options: Any) -> Engine:
    """An engine at an address of ours."""
    places = dict.fromkeys(PROFILES[provider].url_parameter_env, "x")
    arguments: dict[str, Any] = {"retry": ONCE, **places, **options}
    return create_engine(f"{provider}:m-1", base_url=base_url, **arguments)


async def ask_both_ways(
    hunt: Hunt, engine: Engine, where: str, request: Request = ASKED
) -> list[ToolglotError]:
    """Asks for a whole answer and for a stream; keeps what is seen of either."""
    errors: list[ToolglotError] = []
    hunt.keep(where, repr(engine), repr(engine.keys), repr(engine.new_state()))
    for streamed in (False, True):
        try:
            if streamed:
                async for event in engine.stream(request):
                    hunt.keep(f"{where} event", repr(event), dumps(event))
            else:
                hunt.keep(where, repr(await engine.ask(request)))
        except ToolglotError as error:
            hunt.keep_error(error, where)
            errors.append(error)
    hunt.keep(where, repr(engine.applied_heals))
    return errors


async def echo_everywhere(
    hunt: Hunt, provider: str, *, user_info: str = "", modes: Iterable[str] = MODES, **options: Any
) -> None:
    """Every way to be told one's own key. The key was sent each time, else the test means nothing."""
    async with Echo() as echo:
        transport = HttpTransport(QUICK)
        for mode in modes:
            engine = make_engine(
                provider, f"http://{user_info}{echo.host}/{mode}", transport=transport, **options
            )
            errors = await ask_both_ways(hunt, engine, mode)
            assert len(errors) == 2, (mode, errors)
        await transport.close()
        assert all(any(key in _readable(head) for key in hunt.keys) for head in echo.heads)


def _readable(head: str) -> str:
    match = re.search(r"Basic (\S+)", head)
    return head + (base64.b64decode(match[1]).decode() if match else "")


# ---- keys from everywhere, at a server that repeats them

ONE_OF_EACH_WIRE = ("anthropic", "gemini", "ollama", "openai-chat", "openai-responses")
WITH_VARIABLES = sorted(id for id, row in PROFILES.items() if row.key_env)


class TestAServerThatRepeatsWhatItWasTold:
    @pytest.mark.parametrize("provider", WITH_VARIABLES)
    def test_a_key_of_the_environment(
        self, hunt: Hunt, provider: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PROFILES[provider].key_env[0], hunt.plant(provider))
        run(echo_everywhere(hunt, provider, modes=MODES if provider in ONE_OF_EACH_WIRE else FEW))

    @pytest.mark.parametrize("provider", [id for id, row in PROFILES.items() if row.token_env])
    def test_a_token_of_the_environment(
        self, hunt: Hunt, provider: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PROFILES[provider].token_env[0], hunt.plant(f"{provider} token"))
        run(echo_everywhere(hunt, provider, modes=FEW))

    def test_a_key_that_is_given(self, hunt: Hunt) -> None:
        run(echo_everywhere(hunt, "anthropic", key=hunt.plant("given"), modes=FEW))

    @pytest.mark.parametrize("mark", ["/", '"', "\\", "%"])
    def test_a_key_that_looks_different_in_json_and_in_addresses(self, hunt: Hunt, mark: str) -> None:
        hunt.keys.append(f"{make_key('odd')[:5]}{mark}{make_key('odd')[5:30]}")
        run(echo_everywhere(hunt, "openai-chat", key=hunt.keys[0], modes=FEW))

    @pytest.mark.parametrize("is_async", [False, True])
    def test_keys_that_a_function_gives_and_renews(self, hunt: Hunt, is_async: bool) -> None:
        turns = iter(range(1000))
        keys = [hunt.plant(f"turn {number}") for number in range(3)]

        def give() -> str:
            return keys[next(turns) % 3]

        async def give_later() -> str:
            return give()

        key: Key = give_later if is_async else give
        run(echo_everywhere(hunt, "gemini", key=key))

    @pytest.mark.parametrize("name", ["x-my-secret-key", "Authorization", "Cookie"])
    def test_a_key_in_a_header_of_the_callers(self, hunt: Hunt, name: str) -> None:
        secret = hunt.plant(f"header {name}")
        value = f"Bearer {secret}" if "uthorization" in name else secret
        run(echo_everywhere(hunt, "compatible", headers={name: value}))

    @pytest.mark.parametrize("provider", ["compatible", "ollama"])
    def test_a_password_in_the_address(self, hunt: Hunt, provider: str) -> None:
        run(echo_everywhere(hunt, provider, user_info=f"me:{hunt.plant('password')}@"))

    async def test_a_login_of_copilot_in_its_file(self, hunt: Hunt, tmp_path: Path) -> None:
        from toolglot.engine.signin.copilot import CopilotSignIn, Login, login_file, store_login

        kept = store_login(Login(hunt.plant("login"), "http://127.0.0.1:9"))
        assert Path(kept) == login_file()
        assert tmp_path in Path(kept).parents
        hunt.keep("where it is", kept)
        async with Echo() as echo:
            for mode in MODES:
                store_login(Login(hunt.keys[0], f"http://{echo.host}/{mode}"))
                engine = make_engine("copilot", f"http://{echo.host}/500", key=CopilotSignIn())
                assert len(await ask_both_ways(hunt, engine, mode)) == 2
            assert hunt.keys[0] in echo.heads[-1]

    def test_a_token_that_a_sign_in_gives(self, hunt: Hunt) -> None:
        from toolglot.engine.auth import Token

        class Given:
            async def token(self, *, fresh: bool) -> Token:
                access_token = Token(hunt.keys[fresh], headers={"x-goog-user-project": "p"})
                hunt.keep("token", repr(access_token))
                return access_token

        hunt.plant("stale")
        hunt.plant("fresh")
        run(echo_everywhere(hunt, "vertex", key=Given()))

    def test_a_key_in_the_keyring(self, hunt: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
        keyring = pytest.importorskip("keyring")
        secret = hunt.plant("keyring")
        monkeypatch.setattr(keyring, "get_password", lambda service, account: secret)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        run(echo_everywhere(hunt, "anthropic", modes=FEW))

    def test_a_keyring_that_fails_with_the_key_in_its_words(
        self, hunt: Hunt, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keyring = pytest.importorskip("keyring")
        secret = hunt.plant("keyring")

        def fail(service: str, account: str) -> str:
            raise RuntimeError(f"cannot decrypt {secret}")

        monkeypatch.setattr(keyring, "get_password", fail)
        errors = run(ask_both_ways(hunt, make_engine("anthropic", "http://127.0.0.1:9"), "no keyring"))
        assert len(errors) == 2


# ---- real flows


@tool(target=lambda arguments: arguments["url"])
def fetch(url: str) -> str:
    """Fetch a page."""
    if "broken" in url:
        raise RuntimeError(f"cannot fetch {url}")
    return "a page"


FAULTS = (
    *(
        "rate-limit",
        "unauthorized 9",
        "server-error 9",
        "reset 9",
        "reset-mid-stream",
        "stall-first",
        "html 9",
        "half-json",
    ),
    *("error-in-200", "error-in-200-first 9", "quota", "context-too-long"),
)
VENDORS = ("openai-responses", "anthropic", "gemini", "ollama", "mistral")


class TestOnTheSimulator:
    @pytest.mark.parametrize("provider", VENDORS)
    async def test_over_http(
        self, hunt: Hunt, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Tools, faults, retries and timeouts; recorded, audited, logged and saved."""
        monkeypatch.setenv(PROFILES[provider].key_env[0], hunt.plant(provider))
        recording, audit = tmp_path / "recording.jsonl", tmp_path / "audit.jsonl"
        async with serve(Simulator()) as url:
            transport = RecordingTransport(HttpTransport(QUICK), recording)
            arguments: dict[str, Any] = {
                "base_url": f"{url}/@{provider}",
                "transport": transport,
                "retry": ONCE,
            }
            agent = Agent(f"{provider}:m-1", tools=[fetch], audit=AuditLog(audit), **arguments)
            for fault in ("", *(f"fault {fault}" for fault in FAULTS)):
                with suppress(ToolglotError):
                    async for event in agent.stream(f'call fetch {{"url": "http://x/"}}\n{fault}'):
                        hunt.keep("event", repr(event), dumps(event))
            hunt.keep("saved", agent.save(), repr(agent), repr(setup_of(agent).config.metrics.snapshot()))
            await transport.close()
        for path in (recording, audit):
            hunt.keep_file(path)
        assert recording.read_bytes().count(b"\n") > 5

    @pytest.mark.parametrize("file", [True, False])
    def test_the_log_at_debug(
        self, hunt: Hunt, file: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str], own_loggers: None
    ) -> None:
        """Also where somebody else's words hold the key, and nothing but the log knows it."""
        key, path = hunt.plant("logged"), tmp_path / "log.jsonl"
        configure_logging("debug", path if file else None, secrets=lambda: [key])
        logging.getLogger("toolglot").propagate = False  # what is raw is what is tested elsewhere
        log = logging.getLogger("toolglot.tools")
        agent = Agent("simulator", tools=[fetch])
        agent.run_sync(f'call fetch {{"url": "http://broken/{key}"}}')
        log.info("with %s", key, extra={"field": {"in": [key]}, "bytes": key.encode()})
        try:
            raise ValueError(key) from KeyError(key)
        except ValueError:
            log.exception("with an exception")
        logging.getLogger("asyncio").error("a task failed: %s", key)
        written = path.read_text() if file else capfd.readouterr().err
        assert written.count("\n") > 5
        hunt.keep("log", written)

    async def test_a_connection_that_is_refused(self, hunt: Hunt) -> None:
        async with Echo() as echo:
            gone = echo.host
        for user_info in ("", f"me:{hunt.plant('password')}@"):
            engine = make_engine(
                "anthropic",
                f"http://{user_info}{gone}",
                key=hunt.plant("refused"),
                transport=HttpTransport(QUICK),
            )
            assert len(await ask_both_ways(hunt, engine, "refused")) == 2
            await engine.close()

    @pytest.mark.parametrize(
        "proxy",
        ["http://me:{}@127.0.0.1:9", "me:{}@127.0.0.1:9", "http://me:{}@[bad", "socks5://me:{}@127.0.0.1"],
    )
    def test_a_proxy_with_a_password(self, hunt: Hunt, proxy: str) -> None:
        async def ask() -> None:
            transport = HttpTransport(QUICK, proxy=proxy.format(hunt.plant("proxy")))
            await ask_both_ways(
                hunt,
                make_engine("anthropic", "http://127.0.0.1:9", key=hunt.plant("key"), transport=transport),
                "proxy",
            )
            await transport.close()

        try:
            run(ask())
        except UsageError as error:
            hunt.keep_error(error)

    async def test_a_replay_that_misses(self, hunt: Hunt, tmp_path: Path) -> None:
        key, path = hunt.plant("replayed"), tmp_path / "recording.jsonl"
        async with serve() as url:
            transport = RecordingTransport(HttpTransport(QUICK), path)
            await make_engine("openai-chat", url, key=key, transport=transport).ask(
                Request("", [user(f"say {key}")])
            )
            await transport.close()
        engine = make_engine("openai-chat", url, key=key, transport=ReplayTransport(path))
        for _ in range(2):
            with pytest.raises(UsageError) as caught:
                await engine.ask(Request("", [user(f"say {key} and more")]))
            hunt.keep_error(caught.value)
        hunt.keep_file(path)

    def test_the_audit_log(self, hunt: Hunt, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        agent = Agent("simulator", tools=[fetch], audit=AuditLog(path))
        secrets = [f"sk-ant-api03-{hunt.plant('shaped')}", f"AIza{make_key('google')}"]
        targets = [
            *secrets,
            f"https://me:{hunt.plant('address')}@host/",
            f"https://host/?access_token={hunt.plant('query')}&x=1",
            f"curl -H 'Authorization: Bearer {hunt.plant('bearer')}'",
            f"MISTRAL_API_KEY={hunt.plant('variable')} python x.py",
            f"{'x' * 1980} sk-ant-api03-{hunt.plant('cut')}",
        ]
        hunt.keys.append(secrets[1])
        for target in targets:
            agent.run_sync(f"call fetch {json.dumps({'url': target})}")
        assert path.read_bytes().count(b"\n") == len(targets)
        hunt.keep_file(path)


@pytest.fixture
def own_loggers() -> Iterator[None]:
    """Loggers that are as before afterwards."""
    loggers = [logging.getLogger(name) for name in ("toolglot", "asyncio", "aiohttp")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


class TestWhatIsShownOfValues:
    def test_requests(self, hunt: Hunt) -> None:
        url = f"https://me:{hunt.plant('password')}@host/path?key={hunt.plant('query')}"
        hunt.keep(
            "HttpRequest",
            repr(HttpRequest(url, {"authorization": f"Bearer {hunt.plant('header')}"}, b"{}")) + " " * 200,
        )

    def test_engines_and_what_they_are_made_of(self, hunt: Hunt) -> None:
        base_url = f"https://me:{hunt.plant('password')}@host/v1"
        engine = make_engine(
            "compatible", base_url, key=hunt.plant("given"), headers={"x-key": hunt.plant("header")}
        )
        hunt.keep(
            "engine",
            repr(engine),
            engine.name,
            repr(engine.keys),
            repr(engine.new_state()),
            repr(engine.transport),
        )
        hunt.keep("agent", repr(Agent(engine)), Agent(engine).save(), " " * 200)

    @pytest.mark.parametrize("address", ["ftp://me:{}@host/", "me:{}@", "https://{}@", "http://me:{}@[bad/"])
    def test_an_address_that_is_none(self, hunt: Hunt, address: str) -> None:
        hunt.keep("padding", " " * 200)
        text = address.format(hunt.plant("address"))
        with pytest.raises(UsageError) as caught:
            raise run(ask_both_ways(hunt, make_engine("compatible", text), "address"))[0]
        hunt.keep_error(caught.value)

    @pytest.mark.parametrize("end", ["\n", "é", " x", "\0"])
    def test_a_key_that_no_header_can_hold(self, hunt: Hunt, end: str) -> None:
        key = hunt.plant("odd") + "\n" + end + "x"
        engines = [
            make_engine("anthropic", "http://127.0.0.1:9", key=key),
            make_engine("compatible", "http://127.0.0.1:9", headers={"k": key}),
        ]
        for engine in engines:
            assert run(ask_both_ways(hunt, engine, "header"))

    def test_errors_survive_a_pickle_without_the_key(self, hunt: Hunt) -> None:
        error = ProviderError(f"no: {REDACTED}", status=401, request_id="req_1")
        hunt.plant("nothing")
        hunt.keep_error(error)
        assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


# ---- the command line

TOOLS = '''
import os, subprocess, sys
from toolglot import tool

@tool
def look() -> str:
    """Look around."""
    child = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True)
    again = subprocess.run(["env"], capture_output=True, text=True)
    parent = subprocess.run(["sh", "-c", "cat /proc/$PPID/environ"], capture_output=True, text=True)
    print(dict(os.environ))
    return f"{dict(os.environ)} {child.stdout} {again.stdout} {parent.stdout}"
'''


class TestTheCommandLine:
    async def test_a_tool_and_its_children_see_no_key(self, hunt: Hunt, tmp_path: Path) -> None:
        """Every variable is set; a tool prints its environment, and so do children, one of them that of its
        parent.
        """
        (tmp_path / "my_tools.py").write_text(TOOLS)
        names = {name for row in PROFILES.values() for name in (*row.key_env, *row.token_env)}
        environment = {
            **os.environ,
            **{name: hunt.plant(name) for name in sorted(names)},
            "MY_OWN": "is-seen",
        }
        async with serve() as url:
            options = f"-m openai-chat:gpt-4o --base-url {url} --tools my_tools:look --json"
            out, err = await _toolglot("run", "call look {}", *options.split(), cwd=tmp_path, env=environment)
        assert b'"RunDone"' in out
        assert out.count(b"is-seen") >= 3
        hunt.keep("stdout", out)
        hunt.keep("stderr", err)

    @pytest.mark.untraced
    async def test_a_refusal_that_repeats_the_key(self, hunt: Hunt, tmp_path: Path) -> None:
        async with Echo() as echo:
            words = [
                "run",
                "hi",
                "-m",
                "mistral:m-1",
                "--base-url",
                f"http://{echo.host}/401",
                "--json",
                "-vv",
            ]
            environment = {**os.environ, "MISTRAL_API_KEY": hunt.plant("mistral")}
            out, err = await _toolglot(*words, cwd=tmp_path, env=environment)
        assert b"RunFailed" in out
        assert b"engine  sending a request to mistral:m-1" in err
        assert b"AuthenticationFailed" in out
        hunt.keep("stdout", out)
        hunt.keep("stderr", err)

    async def test_commands_that_tell_of_the_configuration(self, hunt: Hunt, tmp_path: Path) -> None:
        config = tmp_path / "config.toml"
        config.write_text(
            "[providers.compatible]\n"
            f'base_url = "http://me:{hunt.plant("password")}@127.0.0.1:9/v1"\n'
            f'headers = {{ x-mine = "{hunt.plant("header")}" }}\n'
        )
        names = {name for row in PROFILES.values() for name in (*row.key_env, *row.token_env)}
        environment = {
            **os.environ,
            **{name: hunt.plant(name) for name in sorted(names)},
            "TOOLGLOT_CONFIG": str(config),
        }
        commands = (["config", "show"], ["config", "show", "--json"], ["doctor"], ["doctor", "--json"])
        outputs = await asyncio.gather(
            *(_toolglot(*words, cwd=tmp_path, env=environment) for words in commands)
        )
        for words, (out, err) in zip(commands, outputs, strict=True):
            assert len(out) > 200, (words, err)
            hunt.keep(" ".join(words), out, err)
        assert any(b"x-mine" in data for _, data in hunt.found)


async def _toolglot(*words: str, cwd: Path, env: dict[str, str]) -> tuple[bytes, bytes]:
    command = (sys.executable, "-m", "toolglot.cli.main", *words)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=env, stdout=pipe, stderr=pipe)
    return await process.communicate()


# ---- what is taken for a key, and what is not

HEX = "0123456789abcdef" * 4
SHAPES = {
    "OpenAI": f"sk-{HEX[:48]}",
    "OpenAI, project": f"sk-proj-{HEX[:40]}_T3BlbkFJ-{HEX[:20]}",
    "Anthropic": f"sk-ant-api03-{HEX[:40]}-AA",
    "OpenRouter": f"sk-or-v1-{HEX}",
    "DeepSeek": f"sk-{HEX[:32]}",
    "Google": f"AIzaSy{HEX[:33]}",
    "Google, new": f"AQ.Ab8RN6{HEX[:40]}",
    "Google, token": f"ya29.a0AfB_by{HEX[:40]}",
    "Google, refresh": f"1//0g{HEX[:40]}-L9",
    "GitHub": f"ghp_{HEX[:36]}",
    "GitHub, login": f"gho_{HEX[:36]}",
    "GitHub, app": f"ghu_{HEX[:36]}",
    "GitHub, server": f"ghs_{HEX[:36]}",
    "GitHub, fine": f"github_pat_11ABCDEFG0{HEX[:20]}_{HEX[:30]}",
    "Copilot": f"tid={HEX[:32]};exp=1763200000;sku=yearly;proxy-ep=proxy.example;8kp=1;ip=1.2.3.4;asn=AS1:{HEX}",
    "xAI": f"xai-{HEX}",
    "Groq": f"gsk_{HEX[:52]}",
    "Hugging Face": f"hf_{HEX[:34]}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS, session": "ASIAIOSFODNN7EXAMPLE",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{HEX[:43]}",
}
AROUND = {
    "alone": "{}",
    "a sentence": "the key {} is wrong",
    "JSON": '{{"a":"{}","b":1}}',
    "an escape of JSON": '{{"a":"so:\\n{}\\nis it"}}',
    "an escape of a URL": "x%3D{} y",
    "other letters": "密钥{} 无效",
    "a header": "Authorization: Bearer {}",
    "a repr": "{{'a': '{}'}}",
}


class TestWhatLooksLikeAKey:
    @pytest.mark.parametrize("around", AROUND.values(), ids=list(AROUND))
    @pytest.mark.parametrize("shape", SHAPES)
    def test_it_is_hidden(self, shape: str, around: str) -> None:
        assert redact(around.format(SHAPES[shape])) == around.format(REDACTED)

    @pytest.mark.parametrize(("text", "shown"), [
        (f"Authorization: Basic {base64.b64encode(b'me:hunter2').decode()}", "Authorization: Basic [hidden]"),
        ("https://me:hunter2@host/x", "https://[hidden]@host/x"),
        ("https://me:hun@ter2@host/x", "https://[hidden]@host/x"),
        (f"git clone https://{HEX[:30]}@host/x", "git clone https://[hidden]@host/x"),
        (f"https://host/v1?alt=sse&key={HEX[:39]}", "https://host/v1?alt=sse&key=[hidden]"),
        (f"https://host/v1?api-key={HEX[:32]}&b=1", "https://host/v1?api-key=[hidden]&b=1"),
    ])  # fmt: skip
    def test_it_is_hidden_where_it_stands_in_a_head_or_an_address(self, text: str, shown: str) -> None:
        assert redact(text) == shown

    @pytest.mark.parametrize(("text", "shown"), [
        (f"AZURE_OPENAI_API_KEY={HEX[:32]}", "AZURE_OPENAI_API_KEY=[hidden]"),
        (f"api-key: {'aB3' * 28}", "api-key: [hidden]"),
        ("mistral_api_key = 'abc def'", "mistral_api_key = '[hidden]'"),
        ("x-api-key: abc\nhost: b", "x-api-key: [hidden]\nhost: b"),
        ("{'x-goog-api-key': 'abc', 'a': 1}", "{'x-goog-api-key': '[hidden]', 'a': 1}"),
        ("[(b'x-api-key', b'abc'), (b'a', b'c')]", "[(b'x-api-key', b'[hidden]'), (b'a', b'c')]"),
        ('{"client_secret":"a\\"b c","d":1}', '{"client_secret":"[hidden]","d":1}'),
        ('{\\"password\\":\\"abc\\",\\"d\\":1}', '{\\"password\\":\\"[hidden]\\",\\"d\\":1}'),
        ("authorization: token abc", "authorization: token [hidden]"),
        ("Cookie: a=b; c=d\nhost: b", "Cookie: [hidden]\nhost: b"),
        ("login --token abc --user me", "login --token [hidden] --user me"),
        ("login --api-key=abc --user me", "login --api-key=[hidden] --user me"),
        ("https://host/?key=abc&sig=abc&x=1", "https://host/?key=[hidden]&sig=[hidden]&x=1"),
        ("refresh_token=abc&grant_type=x", "refresh_token=[hidden]&grant_type=x"),
        ("DB_PASSWORD_PROD=abc", "DB_PASSWORD_PROD=[hidden]"),
    ])  # fmt: skip
    def test_what_is_only_called_a_secret_is_hidden_on_demand(self, text: str, shown: str) -> None:
        assert redact(text, by_name=True) == shown
        assert redact(shown, by_name=True) == shown

    @pytest.mark.parametrize("text", [
        "a task-oriented risk-assessment of scikit-learn", "sk-learn-contrib and sk-SK are words",
        "max_tokens=100, tokens: 5, token_count=7, token_type: bearer",
        "Bearer authentication is required: Bearer authorization_uri=x", "basic functionality, basic "
                                                                         "auth=none",
        "http://localhost:8080/v1/chat?x=1 and http://[::1]:80/a@b",
        "the password is wrong; the token was refused; a secret of success", "set OPENAI_API_KEY or pass "
                                                                             "key=…",
        "password=None, token: null, secret=false", "monkey=5 turkey: 6 keyboard=us",
        "msg_01XFDUDYJgAACzvnptvVoYEL call_abcdef0123456789abcdef01 toolu_01A09q90qw90lq917835lq9 "
        "req_011CSHoEeqs5C35K2U",
        "4d7f296c2f1d4e8a9b0c1d2e3f405162 is a hash, 123e4567-e89b-12d3-a456-426614174000 an id",
        "tokenizer: o200k, passwordless: yes, secretary: Ada",
        '{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}],"stop":"end"}', "tid=5; path=/",
        "me@example.org wrote to https://example.org/@me",
    ])  # fmt: skip
    def test_everything_else_stays(self, text: str) -> None:
        assert redact(text, by_name=True) == text

    @pytest.mark.parametrize("end", ["", "'", '"', "…"])
    def test_a_known_key_that_was_truncated_with_its_text(self, end: str) -> None:
        assert redact(f"so {HEX[:11]}{end}", [HEX]) == f"so {REDACTED}{end}"
        assert redact(f"so {HEX[:7]}{end}", [HEX]) == f"so {HEX[:7]}{end}"
        assert redact(f"so {HEX[:11]} is it", [HEX]) == f"so {HEX[:11]} is it"


PIECES = st.sampled_from(
    [
        *(
            "sk-",
            "eyJ",
            "token",
            "=",
            ": ",
            "password",
            "://",
            "@",
            ":",
            "Bearer ",
            "Basic ",
            "tid=",
            ";",
            "--",
            "-",
            "key",
        ),
        *(
            "?key=",
            "cookie: ",
            "authorization",
            '"',
            "'",
            "\\",
            "\\n",
            "%20",
            "\n",
            " ",
            ".",
            "a1",
            "Z" * 20,
            "0" * 9,
            "hf_",
        ),
        *("AKIA", "[hidden]", "secret-known-1", "secret-", "é", "/", "…"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


class TestLawsOfHiding:
    @given(TEXTS)
    def test_a_known_key_is_nowhere(self, text: str) -> None:
        assert "secret-known-1" not in redact(text, ["secret-known-1"])

    @given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.lists(TEXTS, max_size=2)), max_size=3))
    def test_json_stays_json(self, value: dict[str, Any]) -> None:
        json.loads(redact(json.dumps(value), ["secret-known-1"]))

    @settings(max_examples=50)
    @given(st.lists(PIECES, min_size=1, max_size=3).map("".join))
    def test_time_grows_with_the_text_only(self, piece: str) -> None:
        assert cpu_ratio(piece, 2_000, 20_000) < 40

    @pytest.mark.parametrize(
        "piece", ["sk-", "eyJaaaaaaaaaaa-", "://a:", "--a", "token_", 'password="', "tid=aaaaaa;", "x"]
    )
    def test_200_kb_are_no_burden(self, piece: str) -> None:
        assert cpu_ratio(piece, 20_000, 200_000) < 40


def cpu_ratio(piece: str, small: int, large: int) -> float:
    """How much longer a text of ten times the size takes: 10 if the time is linear, 100 if it is quadratic."""

    def seconds(size: int) -> float:
        times = list[float]()
        for _ in range(3):
            start = time.thread_time()
            redact(piece * (size // len(piece)), [HEX], by_name=True)
            times.append(time.thread_time() - start)
        return min(times)

    return seconds(large) / max(seconds(small), 1e-4)
