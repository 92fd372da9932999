"""What a model may get wrong: every bad call is a typed error of one sentence, and nothing goes out."""

from typing import Any

import pytest
from web_site import Caller, Names, Site

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.errors import UsageError

BIG = 10**30
ODD_VALUES: list[Any] = [None, 7, -1, 1.5, True, [], ["x"], {}, {"a": 1}]
BAD_TARGETS: list[Any] = [
    *("", " ", "\n", "\t \n", "w0", "w99", "w999999999", "[w5]", "w1234567890", "W1", "r1", "turn0search0", "x"),
    *("example", "example.com", "www.example.com/x", "/etc/passwd", "../etc", "C:\\x", "\\\\host\\share", "~", "*"),
    *(
        "http:",
        "http://",
        "http:///",
        "http://?",
        "http://#",
        "http://:80",
        "http://@",
        "http://a:b@",
        "http:\\\\a",
        "http//a.test",
    ),
    *(
        "http://a.test:0",
        "http://a.test:65536",
        "http://a.test:-1",
        "http://a.test:1e3",
        "http://[",
        "http://[]",
        "http://[::1",
    ),
    *(
        "http://[::g]/",
        "http://a\x00b/",
        "http://a b/",
        "http://a.test/ b",
        "http://a.test/\r\nHost: b",
        "http://a\\b/",
        "\ud800",
    ),
    *(
        "http://a.test/\ud800",
        "http://a.test/" + "x" * 9000,
        "x" * 100_000,
        "http://" + "a" * 5000 + ".test/",
        "http://" + "a." * 200,
    ),
    *(
        "file:///etc/passwd",
        "FILE:///x",
        "data:,x",
        "javascript:1",
        "view-source:https://a.test",
        "ftp://a.test",
        "about:blank",
    ),
    *(
        "chrome://version",
        "blob:x",
        "ws://8.8.8.8/",
        "mailto:a@b.test",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0/",
        "http://10.1/",
    ),
    *(
        "http://localhost/",
        "http://user@8.8.8.8/",
        "http://unknown.invalid/",
        "http://.test/",
        "http://\u200b/",
        "http://\uff0e/",
    ),
    *(value for value in ODD_VALUES if not isinstance(value, list) or value != ["x"]),
]


def each(*values: Any) -> tuple[Any, ...]:
    return values


GOOD = "http://127.0.0.1:1/"  # it is refused, but only after everything else is found right
BAD_OPENINGS: list[dict[str, Any]] = [
    {},
    {"url": GOOD},
    *({"target": target} for target in BAD_TARGETS),
    *({"target": GOOD, "start_line": value} for value in each("a", [], {}, 1.5, "1.5", BIG)),
    *({"target": GOOD, "start_char": value} for value in each("a", [], {}, 1.5, BIG)),
    {"target": GOOD, "start_line": 1, "start_char": 0},
    *({"target": GOOD, "question": value} for value in each(7, [], {})),
    *({"target": GOOD, "format": value} for value in each("pdf", "", 7, None, [])),
    *(
        {"target": GOOD, "timeout": value}
        for value in each(0, -1, 0.5, 121, BIG, "soon", [], "nan", "inf", float("nan"), float("inf"))
    ),
]
BAD_FINDINGS: list[dict[str, Any]] = [
    {},
    {"target": GOOD},
    {"pattern": "x"},
    *({"target": target, "pattern": "x"} for target in BAD_TARGETS),
    *({"target": GOOD, "pattern": value} for value in each("", " ", "\n\t", "x" * 1001, [], {}, None)),
]
BAD_SEARCHES: list[dict[str, Any]] = [
    {},
    {"query": "x"},
    *(
        {"queries": value}
        for value in each(None, {}, [], [""], [" "], ["a", ""], [None], [7, []], [["a"]], ["a"] * 3 + ["x" * 1001])
    ),
    *(
        {"queries": value}
        for value in each([str(n) for n in range(9)], ["a\x00b"], ["a\x1bb"], ["\ud800"], ["\u202e"], ["x" * 10**6])
    ),
    *({"queries": ["a"], "max_results": value} for value in each(0, -1, 21, BIG, "many", [], 1.5)),
    *({"queries": ["a"], "recency_days": value} for value in each(0, -1, 36_501, BIG, "old", [], 1.5)),
    *(
        {"queries": ["a"], name: value}
        for name in ("allowed_domains", "blocked_domains")
        for value in each(
            *({}, [""], [" "], ["."], ["a b"], ["a/b"], ["https://a.test"], ["a.test/x"], ["a..b"], ["-a.test"], ["a_.test"]),
            *(
                ["a.test", None],
                ["x" * 64 + ".test"],
                ["a." * 130 + "b"],
                ["a.test) OR (site:b"],
                ["\x00"],
                ["a\n.test"],
                ["*"],
            ),
            *(["a.test"] * 51, ["@"]),
        )
    ),
]
KINDS = {"validation", "not_found", "not_allowed", "execution", "limit"}


@pytest.fixture(scope="module")
def closed() -> Caller:
    """Tools that may reach nothing."""
    return Caller(WebClient(WebConfig(browser="none", searxng_url="http://127.0.0.1:1", timeout=5)))


def refused(caller: Caller, name: str, arguments: dict[str, Any]) -> str:
    result = caller(name, **arguments).result
    assert result.is_error
    assert result.error_kind in KINDS
    for sign in ("Traceback", "Error:", "error(", "object at 0x"):
        assert sign not in result.text
    assert len(result.text) < 1500
    return str(result.error_kind)


@pytest.mark.parametrize("arguments", BAD_OPENINGS, ids=range(len(BAD_OPENINGS)))
def test_a_bad_opening_is_an_error_and_nothing_goes_out(
    closed: Caller, names: Names, site: Site, arguments: dict[str, Any]
) -> None:
    refused(closed, "web_open", arguments)
    assert site.asked == []


@pytest.mark.parametrize("arguments", BAD_FINDINGS, ids=range(len(BAD_FINDINGS)))
def test_a_bad_finding_is_an_error_and_nothing_goes_out(closed: Caller, site: Site, arguments: dict[str, Any]) -> None:
    refused(closed, "web_find", arguments)
    assert site.asked == []


@pytest.mark.parametrize("arguments", BAD_SEARCHES, ids=range(len(BAD_SEARCHES)))
def test_a_bad_search_is_told_before_anybody_is_asked(closed: Caller, arguments: dict[str, Any]) -> None:
    assert refused(closed, "web_search", arguments) == "validation"


def test_there_are_enough_of_them() -> None:
    assert min(map(len, (BAD_OPENINGS, BAD_FINDINGS, BAD_SEARCHES))) >= 60


@pytest.mark.parametrize(
    "fields", [{"timeout": 0}, {"max_bytes": 10}, {"max_chars": 1}, {"timeout": float("nan")}, {"allow_private": ("a b",)}]
)
def test_a_configuration_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        WebClient(WebConfig(**fields))
