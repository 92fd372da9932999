"""Our loggers in a program that configures logging itself: keys reach no handler."""

import asyncio
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.cli.logging_setup import configure_logging
from toolglot.common.known_keys import known_keys, remember_key
from toolglot.common.loggers import get_logger
from toolglot.common.redact import REDACTED
from toolglot.engine.factory import create_engine
from toolglot.errors import ConnectFailed
from toolglot.loop.agent.agent import Agent
from toolglot.tools.tool import tool
from toolglot.values.messages import user
from toolglot.values.request import Request

KEY = "Zk93-planted_Key7QpLm"  # looks like nothing in particular
LOOKS_LIKE_A_KEY = "sk-abcdefgh12345678"
SOURCE = Path(__file__).resolve().parents[2] / "src" / "toolglot"


class Collector(logging.Handler):
    """A handler of the program's own, which sees all that a record has."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        formatter = logging.Formatter("%(name)s %(message)s")
        return "\n".join(
            f"{formatter.format(record)} {vars(record)} {record.exc_info}" for record in self.records
        )


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector, logger = Collector(), logging.getLogger("toolglot")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(collector)
    yield collector
    logger.removeHandler(collector)
    logger.setLevel(level)


class Odd:
    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        if not self.text:
            raise RuntimeError("no text")
        return self.text

    __repr__ = __str__


class TestRecords:
    @pytest.fixture(autouse=True)
    def log(self) -> logging.Logger:
        remember_key(KEY)
        return get_logger("toolglot.test_loggers")

    @pytest.mark.parametrize("key", [KEY, LOOKS_LIKE_A_KEY, KEY[::-1], KEY.encode().hex()])
    def test_a_key_is_hidden_wherever_it_is(
        self, log: logging.Logger, collector: Collector, key: str
    ) -> None:
        log.info(f"a message with {key}")
        log.info("an argument: %s", key)
        log.info("arguments by name: %(key)s", {"key": key})
        log.info("an object: %s", Odd(key))
        fields: dict[str, Any] = {
            "text": key,
            "nested": {"a": [key, (key,)]},
            "odd": Odd(key),
            key: 1,
            "api_key": "unknown",
        }
        log.info("fields", extra=fields)
        log.info("does not fit: %s %s", key)
        log.info("a stack", stack_info=True)
        try:
            raise ValueError(key)
        except ValueError as error:
            log.exception("an exception: %r", error)
            log.warning("behind another", exc_info=RuntimeError(error))
        values = [
            value for record in collector.records for name, value in vars(record).items() if name != key
        ]
        # the name of a field is the program's own
        assert key not in collector.text.replace(f"'{key}': 1", "")
        assert key not in str(values)
        assert len(collector.records) == 9
        assert collector.text.count(REDACTED) >= 9
        assert "unknown" not in collector.text

    def test_what_has_no_key_stays_as_it_is(self, log: logging.Logger, collector: Collector) -> None:
        odd = Odd("nothing")
        error = ValueError("nothing")
        log.warning("%d calls of %s", 3, odd, exc_info=error, extra={"sizes": (1, 2), "odd": odd})
        (record,) = collector.records
        assert (record.msg, record.args) == ("%d calls of %s", (3, odd))
        assert record.exc_info is not None
        assert record.exc_info[1] is error
        assert (vars(record)["sizes"], vars(record)["odd"]) == ((1, 2), odd)

    def test_nothing_that_cannot_be_written_stops_the_work(
        self, log: logging.Logger, collector: Collector
    ) -> None:
        log.info("%s", Odd(""), extra={"odd": Odd("")})
        assert vars(collector.records[0])["odd"] == REDACTED

    def test_the_command_line_still_writes_the_traceback(self, log: logging.Logger, tmp_path: Path) -> None:
        configure_logging("debug", tmp_path / "log", secrets=known_keys)
        try:
            raise ValueError(f"it was {KEY}")
        except ValueError:
            log.exception("failed")
        line = (tmp_path / "log").read_text()
        configure_logging("warning", None, secrets=known_keys)
        assert f"ValueError: it was {REDACTED}" in line
        assert "Traceback" in line

    def test_a_record_that_nobody_wants_costs_nothing(
        self, log: logging.Logger, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logging.getLogger("toolglot").setLevel(logging.WARNING)
        monkeypatch.setattr("toolglot.common.loggers.known_keys", lambda: pytest.fail("keys were looked up"))
        log.info("%s", Odd(""))
        assert collector.records == []


class TestPrograms:
    def test_a_tool_that_repeats_a_key(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

        @tool
        def get() -> str:
            """Get something."""
            raise ValueError(f"401 for {KEY} and {LOOKS_LIKE_A_KEY}")

        Agent("simulator", tools=[get]).run_sync("call get {}")
        assert "tool get raised ValueError: 401 for" in collector.text
        assert KEY not in collector.text
        assert LOOKS_LIKE_A_KEY not in collector.text

    def test_a_key_that_was_given_to_an_engine(self, collector: Collector) -> None:
        key = f"{KEY}-given"
        engine = create_engine("openai:gpt-5", key=key, base_url="http://127.0.0.1:9")

        @tool
        def get() -> str:
            """Get something."""
            raise ValueError(f"wrong: {key}")

        with pytest.raises(ConnectFailed, match="127"):
            asyncio.run(engine.ask(Request("", [user("hi")])))
        Agent("simulator", tools=[get]).run_sync("call get {}")
        assert "tool get raised ValueError: wrong: " in collector.text
        assert key not in collector.text

    def test_the_default_handler_shows_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without any configuration, Python prints warnings to stderr."""
        out = io.StringIO()
        monkeypatch.setattr("logging.lastResort", logging.StreamHandler(out))
        logger = logging.Logger("toolglot.unconfigured")
        for each in get_logger("toolglot.test_loggers").filters:
            logger.addFilter(each)
        logger.warning("the key is %s", LOOKS_LIKE_A_KEY)
        assert out.getvalue() == f"the key is {REDACTED}\n"


def test_every_logger_of_ours_hides_keys() -> None:
    others = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in re.findall(
            r"""getLogger\(\s*(?:__name__|["']toolglot[^"']*["'])?\s*\)""", path.read_text(encoding="utf-8")
        )
    }
    assert others == {("cli/logging_setup.py", 'getLogger("toolglot")')}  # which only has the handler
