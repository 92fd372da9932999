"""What toolglot tells of itself: levels, lines for people, lines for machines, and nothing secret in either."""

import asyncio
import io
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.cli_kit import Patch

from toolglot.cli.logging_setup import THIRD_PARTY_LOGGERS, configure_logging, effective_level
from toolglot.engine.factory import create_engine
from toolglot.errors import ProviderError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import RetryConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import user
from toolglot.values.request import Request

SECRET = "planted-5ba21c-secret"
LOGGERS = ("toolglot", *THIRD_PARTY_LOGGERS)
log = logging.getLogger("toolglot.engine")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Every logger ends as it began, and so does stderr."""
    stderr = sys.stderr
    before = [
        (logging.getLogger(name), logging.getLogger(name).handlers[:], logging.getLogger(name).level)
        for name in LOGGERS
    ]
    yield
    sys.stderr = stderr
    for logger, handlers, level in before:
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:] = handlers
        logger.setLevel(level)


def secrets() -> list[str]:
    return [SECRET]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, s: str, /) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def log_to(level: str = "debug", out: io.StringIO | None = None) -> io.StringIO:
    """A stderr of our own that lines go to."""
    sys.stderr = out or io.StringIO()
    configure_logging(level, None, secrets=secrets)
    return sys.stderr


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    """Configures a file, and gives a function that reads its lines."""
    path = tmp_path / "log.jsonl"
    configure_logging("debug", path, secrets=secrets)
    return lambda: [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(autouse=True)
def a_terminal_with_colours(monkeypatch: Patch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


class TestTheLevel:
    @pytest.mark.parametrize(
        ("verbosity", "configured", "level"),
        [
            (0, "warning", "warning"),
            (0, "error", "error"),
            (1, "warning", "info"),
            (2, "warning", "debug"),
            (5, "error", "debug"),
            (1, "debug", "debug"),
            (0, "debug", "debug"),
        ],
    )
    def test_it_is_the_more_talkative_one(self, verbosity: int, configured: str, level: str) -> None:
        assert effective_level(verbosity, configured) == level

    @pytest.mark.parametrize(
        ("level", "heard"),
        [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
        ids=lambda value: value,
    )
    def test_what_is_below_it_is_not_written(self, level: str, heard: str) -> None:
        out = log_to(level)
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)(f"<{name[0]}>")
        assert "".join(re.findall("<(.)>", out.getvalue())) == heard

    def test_other_loggers_are_silent_unless_it_is_debug(self) -> None:
        out = log_to("info")
        logging.getLogger("asyncio").error("a task was lost")
        logging.getLogger("aiohttp.client").error("a session was lost")
        logging.getLogger("mcp.server.streamable_http").error("a session was lost")
        assert out.getvalue() == ""
        out = log_to("debug")
        logging.getLogger("asyncio").error("a task was lost with %s", SECRET)
        assert "asyncio error: a task was lost with [hidden]" in out.getvalue()

    def test_the_root_logger_is_not_touched(self) -> None:
        root = logging.getLogger()
        before = (root.level, root.handlers[:])
        log_to()
        assert (root.level, root.handlers) == before
        assert logging.getLogger("toolglot").propagate

    def test_configuring_again_replaces_what_was_there(self, tmp_path: Path) -> None:
        first = log_to()
        configure_logging("debug", tmp_path / "a", secrets=secrets)
        out = log_to()
        log.info("once")
        assert first.getvalue() == (tmp_path / "a").read_text() == ""
        assert out.getvalue().count("once") == 1
        assert len(logging.getLogger("asyncio").handlers) == len(logging.getLogger("aiohttp").handlers) == 1


class TestLinesForPeople:
    def test_a_line_is_short(self) -> None:
        out = log_to()
        fields = {"model": "m", "request": "12ab34cd", "usage": {"input": 5, "output": 0}, "none": ""}
        log.info("%s answered", "m", extra=fields)
        log.warning("careful")
        log.error("broken")
        first, second, third = out.getvalue().splitlines()
        assert re.fullmatch(
            r'\d\d:\d\d:\d\d engine  m answered  request=12ab34cd  usage={"input":5,"output":0}', first
        )
        assert second.endswith(" warning: careful")
        assert third.endswith(" error: broken")

    @pytest.mark.parametrize(
        ("out", "variable", "value", "is_dim"),
        [
            (Terminal, "TERM", "xterm", True),
            (Terminal, "TERM", "dumb", False),
            (Terminal, "NO_COLOR", "1", False),
            (io.StringIO, "TERM", "xterm", False),
        ],
    )
    def test_it_is_dim_on_a_terminal(
        self, out: type[io.StringIO], variable: str, value: str, is_dim: bool, monkeypatch: Patch
    ) -> None:
        monkeypatch.setenv(variable, value)
        stderr = log_to(out=out())
        log.info("hello")
        assert re.fullmatch("\x1b\\[2m.*hello\x1b\\[0m\n" if is_dim else "[^\x1b]*hello\n", stderr.getvalue())

    def test_nothing_that_a_terminal_would_interpret_gets_through(self) -> None:
        out = log_to()
        log.info("a\x1b[2Jb\r\nc", extra={"url": "x\x07y"})
        try:
            raise ValueError(f"the key {SECRET} is wrong\x07")
        except ValueError:
            log.info("raised", exc_info=True)
        assert out.getvalue().splitlines()[-1] == "ValueError: the key [hidden] is wrong "
        assert out.getvalue().count("\n") == len(out.getvalue().splitlines())
        assert not set(out.getvalue()) & set("\x1b\r\x07")
        assert SECRET not in out.getvalue()

    @pytest.mark.parametrize("state", ["broken", "closed", "missing"])
    def test_a_stderr_that_cannot_be_written_is_quiet(self, state: str) -> None:
        out = log_to(out=Broken() if state == "broken" else io.StringIO())
        if state == "closed":
            out.close()
        sys.stderr = None if state == "missing" else out
        log.error("nobody reads this")


class Point(msgspec.Struct):
    x: int
    note: str


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


class TestLinesForMachines:
    def test_a_line_has_everything(self, lines: Any) -> None:
        log.info("%s answered", "m", extra={"seconds": 1.5, "request": "ab", "usage": Point(1, "n")})
        (line,) = lines()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
        assert line == {
            "level": "info",
            "logger": "toolglot.engine",
            "message": "m answered",
            "seconds": 1.5,
            "request": "ab",
            "usage": {"x": 1, "note": "n"},
        }

    def test_an_exception_is_text(self, lines: Any) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            log.exception("raised", stack_info=True)
        (line,) = lines()
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("ValueError: [hidden]")
        assert "test_an_exception_is_text" in line["stack"]

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (f"x {SECRET} y", "x [hidden] y"),
            ({"a": [f"{SECRET}"]}, {"a": ["[hidden]"]}),
            ({SECRET: 1}, {"[hidden]": 1}),
            ({"api_key": "short", "n": 1}, {"api_key": "[hidden]", "n": 1}),
            (Point(1, SECRET), {"x": 1, "note": "[hidden]"}),
            (ValueError(SECRET), "[hidden]"),
            (Path("/a") / SECRET, "/a/[hidden]"),
            ((1, None, True, 2.5), [1, None, True, 2.5]),
            (CIRCLE, "[[...]]"),
            ({("a", 1): SECRET}, "{('a', 1): '[hidden]'}"),
            ("sk-ant-api03-0123456789abcdef", "[hidden]"),
        ],
        ids=repr,
    )
    def test_no_field_holds_a_key(self, lines: Any, value: Any, shown: Any) -> None:
        log.info("hello", extra={"field": value})
        assert lines()[0]["field"] == shown

    def test_what_is_called_a_secret_is_hidden(self, lines: Any) -> None:
        log.info(
            "with password=hunter2 and %s",
            "x-api-key: abc",
            extra={"token": "abc", "tokens": "5", "secret": 7},
        )
        (line,) = lines()
        assert line["message"] == "with password=[hidden] and x-api-key: [hidden]"
        assert (line["token"], line["tokens"]) == ("[hidden]", "5")

    @pytest.mark.parametrize(
        ("message", "arguments"),
        [("%s and %d", ("one",)), ("half \ud83d of a pair", ())],
        ids=["wrong arguments", "surrogate"],
    )
    def test_odd_messages_are_written_as_they_are(
        self, lines: Any, message: str, arguments: tuple[str, ...]
    ) -> None:
        # not through pytest, whose workers cannot report such a text
        (handler,) = logging.getLogger("toolglot").handlers
        handler.handle(logging.LogRecord("toolglot", logging.INFO, "", 1, message, arguments, None))
        assert lines()[0]["message"] == message

    def test_secrets_are_asked_for_each_line(self, tmp_path: Path) -> None:
        known: list[str] = []
        configure_logging("info", tmp_path / "log", secrets=lambda: known)
        log.info("one abcdefgh")
        known.append("abcdefgh")
        log.info("two abcdefgh")
        messages = [json.loads(line)["message"] for line in (tmp_path / "log").read_bytes().splitlines()]
        assert messages == ["one abcdefgh", "two [hidden]"]

    def test_nothing_goes_to_stderr(self, lines: Any) -> None:
        sys.stderr = out = io.StringIO()
        log.error("hello")
        assert (out.getvalue(), len(lines())) == ("", 1)


class TestTheFile:
    def test_only_the_user_can_read_a_new_file(self, tmp_path: Path, monkeypatch: Patch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        before = os.umask(0)
        try:
            configure_logging("info", Path("~/log"), secrets=secrets)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600

    def test_it_is_appended_to(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        path.write_text("before\n")
        configure_logging("info", path, secrets=secrets)
        log.info("after")
        assert [line[:6] for line in path.read_text().splitlines()] == ["before", '{"time']

    @pytest.mark.parametrize(("name", "reason"), [("missing/log", "No such file"), ("", "Is a directory")])
    def test_one_that_cannot_be_written_is_named_and_nothing_changes(
        self, tmp_path: Path, name: str, reason: str
    ) -> None:
        out = log_to("error")
        with pytest.raises(UsageError, match=f"the log .*{re.escape(str(tmp_path))}.*{reason}.*log.file"):
            configure_logging("debug", tmp_path / name, secrets=secrets)
        log.error("still here")
        assert "still here" in out.getvalue()
        assert logging.getLogger("toolglot").level == logging.ERROR

    def test_a_full_disk_is_quiet(self) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("needs /dev/full")
        configure_logging("info", Path("/dev/full"), secrets=secrets)
        log.info("lost")


class TestWhatIsTold:
    """A conversation at debug: every request with its id, every call, and what went wrong."""

    def log_records(self, lines: Any, prompt: str, provider: str = "anthropic") -> list[dict[str, Any]]:
        @tool
        def look(x: int) -> str:
            """Look at a number."""
            if x > 5:
                raise RuntimeError("too high")
            return "seen"

        agent = Agent(f"simulator:{provider}", tools=[look], retry=RetryConfig(base=0.0, max_delay=0.0))
        agent.run_sync(prompt)
        return lines()

    def test_asking_and_answering(self, lines: Any) -> None:
        asking, answered = self.log_records(lines, "say hi")
        assert asking["level"] == "debug"
        assert asking["url"] == "http://simulator/@anthropic/v1/messages"
        assert asking["bytes"] > 50
        assert answered["level"] == "info"
        assert re.fullmatch("[0-9a-f]{8}", asking["request"])
        assert answered["request"] == asking["request"]
        assert answered["provider_request"].startswith("req_")
        assert (answered["status"], answered["stop"], answered["retries"]) == (200, "end", 0)
        assert 0 <= answered["first_byte"] <= answered["seconds"]
        assert answered["usage"]["input"] > 0

    def test_each_request_has_its_own_id_and_keeps_it(self, lines: Any) -> None:
        records = self.log_records(lines, 'call look {"x": 1}\nfault rate-limit\nsay done')
        asked = [line["request"] for line in records if line["message"].startswith("sending a request")]
        assert len(asked) == 3
        assert asked[0] == asked[1] != asked[2]
        again = next(line for line in records if "retrying in" in line["message"])
        assert (again["request"], again["error"], again["attempt"]) == (asked[0], "RateLimited", 1)

    def test_calls_of_tools(self, lines: Any) -> None:
        records = self.log_records(lines, 'call look {"x": 1}\ncall look {"x": 9}')
        assert [(line["tool"], line["kind"]) for line in records if "kind" in line] == [
            ("look", "ok"),
            ("look", "execution"),
        ]
        assert ["RuntimeError: too high" in line["exception"] for line in records if "exception" in line] == [
            True
        ]

    def test_the_query_and_the_user_of_an_address_are_not_told(self, lines: Any) -> None:
        engine = create_engine("simulator:gemini")
        engine.profile = msgspec.structs.replace(
            engine.profile, base_url="http://me:hunter2@simulator/@gemini"
        )
        asyncio.run(engine.ask(Request("", [user("say hi")], stream=True)))
        assert (
            lines()[0]["url"] == "http://simulator/@gemini/v1beta/models/gemini-3-pro-preview:generateContent"
        )

    def test_nothing_is_made_for_a_log_that_is_off(self, monkeypatch: Patch) -> None:
        def never() -> None:
            raise AssertionError("an id was made")

        monkeypatch.setattr("toolglot.engine.engine.uuid4", never)
        configure_logging("warning", None, secrets=secrets)
        assert Agent("simulator").run_sync("say hi\nfault rate-limit").text == "hi"


class TestIdsOfProviders:
    @pytest.mark.parametrize(
        ("headers", "id"),
        [
            ({"x-request-id": "req_1"}, "req_1"),
            ({"request-id": "req_2", "cf-ray": "ray"}, "req_2"),
            ({"x-goog-request-id": "g"}, "g"),
            ({"apim-request-id": "a"}, "a"),
            ({"cf-ray": "8c1-FRA"}, "8c1-FRA"),
            ({"x-request-id": "a\x1b[2J" + "b" * 500}, "a[2J" + "b" * 196),
            ({"x-request-id": f"for {SECRET}"}, "for [hidden]"),
            ({}, ""),
        ],
    )
    def test_an_error_and_its_log_line_carry_it(self, lines: Any, headers: dict[str, str], id: str) -> None:
        engine = create_engine("openai-chat:gpt-4o", key=SECRET, transport=Refusing(headers))
        with pytest.raises(ProviderError) as caught:
            asyncio.run(engine.ask(Request("", [user("hi")])))
        assert caught.value.request_id == id
        failed = lines()[-1]
        assert (failed["message"], failed["provider_request"]) == (
            "openai-chat:gpt-4o failed: no such thing",
            id,
        )
        assert (failed["error"], failed["status"]) == ("NotFound", 404)
        assert failed["request"] == lines()[0]["request"]


class Refusing:
    """A transport that knows nothing, with these headers."""

    status = 404

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self._parts = iter([b'{"error": {"message": "no such thing"}}'])

    async def send(self, request: Any) -> Any:
        return self

    async def read(self) -> bytes:
        return next(self._parts, b"")

    async def close(self) -> None:
        pass
