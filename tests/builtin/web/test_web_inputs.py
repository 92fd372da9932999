"""Every bad call of a web tool is refused with one sentence, and nothing is sent."""

from typing import Any

import pytest
from search_kit import flatten_table
from web_site import Caller, Site

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.errors import UsageError

BIG = 10**30
BAD_TARGETS: list[Any] = [
    *(
        "",
        " ",
        "\n",
        "\t \n",
        "w0",
        "w99",
        "w999999999",
        "[w5]",
        "w1234567890",
        "W1",
        "r1",
        "turn0search0",
        "x",
        "example",
    ),
    *(
        "example.com",
        "www.example.com/x",
        "/etc/passwd",
        "../etc",
        "C:\\x",
        "\\\\host\\share",
        "~",
        "*",
        "http:",
        "http://",
    ),
    *(
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
    ),
    *(
        "http://[::1",
        "http://[::g]/",
        "http://a\x00b/",
        "http://a b/",
        "http://a.test/ b",
        "http://a.test/\r\nHost: b",
    ),
    *("http://a\\b/", "\ud800", "http://a.test/\ud800", "http://a.test/" + "x" * 9000, "x" * 100_000),
    *(
        "http://" + "a" * 5000 + ".test/",
        "http://" + "a." * 200,
        "file:///etc/passwd",
        "FILE:///x",
        "data:,x",
        "javascript:1",
    ),
    *(
        "view-source:https://a.test",
        "ftp://a.test",
        "about:blank",
        "chrome://version",
        "blob:x",
        "ws://8.8.8.8/",
    ),
    *(
        "mailto:a@b.test",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0/",
        "http://10.1/",
        "http://localhost/",
    ),
    *("http://user@8.8.8.8/", "http://unknown.invalid/", "http://.test/", "http://\u200b/", "http://\uff0e/"),
    *(None, 7, -1, 1.5, True, [], {}, {"a": 1}),
]
BAD_DOMAINS: list[Any] = [
    *(
        {},
        [""],
        [" "],
        ["."],
        ["a b"],
        ["a/b"],
        ["https://a.test"],
        ["a.test/x"],
        ["a..b"],
        ["-a.test"],
        ["a_.test"],
        ["*"],
    ),
    *(
        ["a.test", None],
        ["x" * 64 + ".test"],
        ["a." * 130 + "b"],
        ["a.test) OR (site:b"],
        ["\x00"],
        ["a\n.test"],
        ["@"],
    ),
    ["a.test"] * 51,
]
GOOD = {
    # it is refused, but only after everything else has been accepted
    "web_open": {"target": "http://127.0.0.1:1/"},
    "web_find": {"target": "http://127.0.0.1:1/", "pattern": "x"},
    "web_search": {"queries": ["a"]},
}
BAD: dict[str, dict[str, list[Any]]] = {
    "web_open": {
        "target": BAD_TARGETS,
        "start_line": ["a", [], {}, 1.5, "1.5", BIG],
        "start_char": ["a", [], {}, 1.5, BIG],
        "question": [7, [], {}],
        "format": ["pdf", "", 7, None, []],
        "timeout": [0, -1, 0.5, 121, BIG, "soon", [], "nan", "inf"],
    },
    "web_find": {"target": BAD_TARGETS, "pattern": ["", " ", "\n\t", "x" * 1001, [], {}, None]},
    "web_search": {
        "queries": [
            *(
                None,
                {},
                [],
                [""],
                [" "],
                ["a", ""],
                [None],
                [7, []],
                [["a"]],
                ["a"] * 3 + ["x" * 1001],
                ["x" * 10**6],
            ),
            *([str(n) for n in range(9)], ["a\x00b"], ["a\x1bb"], ["\ud800"], ["\u202e"]),
        ],
        "max_results": [0, -1, 21, BIG, "many", [], 1.5],
        "recency_days": [0, -1, 36_501, BIG, "old", [], 1.5],
        "allowed_domains": BAD_DOMAINS,
        "blocked_domains": BAD_DOMAINS,
    },
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(
        (tool, GOOD[tool] | {name: value})
        for tool, table in BAD.items()
        for name, value in flatten_table(table)
    ),
    *(
        ("web_open", {}),
        ("web_open", {"url": "http://127.0.0.1:1/"}),
        ("web_search", {}),
        ("web_search", {"query": "x"}),
    ),
    *(("web_find", {}), ("web_find", {"pattern": "x"}), ("web_find", GOOD["web_open"])),
    ("web_open", {**GOOD["web_open"], "start_line": 1, "start_char": 0}),
]


@pytest.fixture(scope="module")
def offline_tools() -> Caller:
    """Tools that may reach nothing."""
    return Caller(WebClient(WebConfig(browser="none", searxng_url="http://127.0.0.1:1", timeout=5)))


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=range(len(CALLS)))
def test_a_bad_call_is_refused_and_nothing_is_sent(
    offline_tools: Caller, site: Site, name: str, arguments: dict[str, Any]
) -> None:
    result = offline_tools(name, **arguments).result
    kinds = (
        {"validation"}
        if name == "web_search"
        else {"validation", "not_found", "not_allowed", "execution", "limit"}
    )
    assert result.is_error
    assert result.error_kind in kinds
    for sign in ("Traceback", "Error:", "error(", "object at 0x"):
        assert sign not in result.text
    assert len(result.text) < 1500
    assert site.requests == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_json_are_refused(offline_tools: Caller, site: Site, number: str) -> None:
    result = offline_tools.call_raw(
        "web_open", f'{{"target": "http://127.0.0.1:1/", "timeout": {number}}}'
    ).result
    assert result.error_kind == "validation"
    assert number in result.text
    assert site.requests == []


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout": 0},
        {"max_bytes": 10},
        {"max_chars": 1},
        {"timeout": float("nan")},
        {"allow_private": ("a b",)},
    ],
)
def test_an_invalid_configuration_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        WebClient(WebConfig(**fields))
