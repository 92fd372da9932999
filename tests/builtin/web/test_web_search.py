"""Web search, against stand-ins for the services on loopback."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from web_site import Caller, Site, SiteRequest, make_response, redirect, serve, stay_silent

from toolglot.builtin.web import search as searching
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import NO_SEARCH_SERVICE, WebConfig
from toolglot.common.jsontext import dumps, loads
from toolglot.errors import ToolError
from toolglot.tools.tool import Tool

KEY = "tvly-very-secret-1234567890"
FIRST = {
    "title": "The <strong>first</strong> &amp; best",
    "text": "Some <b>words</b>\nabout it.",
    "date": "2026-01-02",
}
HITS = [
    {"url": "https://docs.test/a", **FIRST},
    {"url": "https://www.other.test/b", "title": "Second", "text": "x" * 2000},
    {"url": "https://bad.test/c", "title": "Third", "text": f"it says {KEY}"},
    {"url": "javascript:alert(1)", "title": "no page"},
    {"url": "https://docs.test/a", "title": "twice"},
    {"title": "no address"},
    {"url": 7, "title": None},
    {"url": "https://notdocs.test/d", "title": "Fourth\x1b[31m", "text": None},
]


def rename_fields(**names: str) -> list[dict[str, Any]]:
    return [{names.get(key, key): value for key, value in hit.items()} for hit in HITS]


SEARXNG = {"query": "q", "results": rename_fields(text="content", date="publishedDate")}
BRAVE = {"web": {"results": rename_fields(text="description", date="page_age")}}
TAVILY = {"results": rename_fields(text="content", date="published_date")}


@pytest.fixture(scope="module")
def services() -> Iterator[Site]:
    json = "application/json"
    with serve(
        {
            "/search": make_response(dumps(SEARXNG), json),
            "/brave": make_response(dumps(BRAVE), json),
            "/tavily": make_response(dumps(TAVILY), json),
            "/empty": make_response(b'{"results": [], "web": null}', json),
            "/text": make_response("<p>not json</p>"),
            "/list": make_response(b"[1, 2]", json),
            "/wrong": make_response(b'{"results": {"a": 1}}', json),
            "/401": make_response(KEY, status="401 Unauthorized"),
            "/403": make_response(KEY, status="403 Forbidden"),
            "/429": make_response(KEY, status="429 Too Many Requests"),
            "/500": make_response(KEY, status="500 Oh"),
            "/moved": redirect("http://elsewhere.test/"),
            "/huge": make_response(b"[" + b"1," * 2_100_000 + b"1]", json),
        }
    ) as site:
        yield site


def caller(services: Site, service: str, path: str = "") -> Caller:
    if path:  # SearXNG adds its own path
        services.pages[f"{path}/search"] = services.pages[path]
    configs = {
        "searxng": WebConfig(searxng_url=services.url(path or "/")),
        "brave": WebConfig(brave_key=KEY, brave_url=services.url(path or "/brave")),
        "tavily": WebConfig(tavily_key=lambda: KEY, tavily_url=services.url(path or "/tavily")),
    }
    return Caller(WebClient(configs[service]))


@pytest.fixture(autouse=True)
def _clear_requests(services: Site) -> None:
    services.requests.clear()


@pytest.mark.parametrize("service", ["searxng", "brave", "tavily"])
class TestEveryService:
    def test_results_have_refs_and_plain_text(self, services: Site, service: str) -> None:
        web = caller(services, service)
        result = web("web_search", queries=["what is it"]).result
        assert result.data["service"] == service
        urls = [
            "https://docs.test/a",
            "https://www.other.test/b",
            "https://bad.test/c",
            "https://notdocs.test/d",
        ]
        assert [hit["url"] for hit in result.data["results"]] == urls
        first, second, _, fourth = result.data["results"]
        assert (first["ref"], first["title"], first["snippet"]) == (
            "w1",
            "The first & best",
            "Some words about it.",
        )
        assert (first["date"], len(second["snippet"]), fourth["title"]) == ("2026-01-02", 600, "Fourth[31m")
        assert "[w1] The first & best\nhttps://docs.test/a\n2026-01-02 · Some words about it." in result.text
        assert web.web.pages.resolve_target("w4") == "https://notdocs.test/d"

    def test_the_key_is_in_no_text(self, services: Site, service: str) -> None:
        web = caller(services, service)
        assert service == "searxng" or KEY not in repr(web("web_search", queries=["it"]))
        assert KEY not in repr(web.web.config)

    LIMITS: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"allowed_domains": ["docs.test"]}, ["https://docs.test/a"]),
        (
            {"allowed_domains": ["docs.test", "other.test"]},
            ["https://docs.test/a", "https://www.other.test/b"],
        ),
        (
            {"blocked_domains": ["*.Bad.test.", "docs.test"]},
            ["https://www.other.test/b", "https://notdocs.test/d"],
        ),
        ({"allowed_domains": ["nowhere.test"]}, []),
        ({"max_results": 2}, ["https://docs.test/a", "https://www.other.test/b"]),
    )

    @pytest.mark.parametrize(("limits", "urls"), LIMITS, ids=range(len(LIMITS)))
    def test_limits_hold_even_if_the_service_ignores_them(
        self, services: Site, service: str, limits: dict[str, Any], urls: list[str]
    ) -> None:
        data = caller(services, service).data("web_search", queries=["it"], **limits)
        assert [hit["url"] for hit in data["results"]] == urls

    def test_the_results_of_several_queries_are_merged(self, services: Site, service: str) -> None:
        data = caller(services, service).data("web_search", queries=["one", "two", " one "])
        assert (len(services.requests), len(data["results"]), data["queries"]) == (2, 4, ["one", "two"])

    @pytest.mark.parametrize("path", ["/empty", "/list", "/wrong"])
    def test_no_results(self, services: Site, service: str, path: str) -> None:
        result = caller(services, service, path)("web_search", queries=["it"]).result
        assert (result.text, result.data["results"]) == (
            'No results for "it": try other words, or fewer restrictions.',
            [],
        )

    FAILURES = (
        *(
            ("/text", "execution", "not JSON"),
            ("/500", "execution", "status 500"),
            ("/moved", "execution", "status 302"),
        ),
        *(("/429", "limit", "429"), ("/huge", "limit", "over 4000000 bytes"), ("/401", "not_allowed", "401")),
        ("/403", "not_allowed", "403"),
    )

    @pytest.mark.parametrize(("path", "kind", "words"), FAILURES, ids=[row[0] for row in FAILURES])
    def test_a_failure_is_one_sentence_without_the_key(
        self, services: Site, service: str, path: str, kind: str, words: str
    ) -> None:
        error_kind, text = caller(services, service, path).error("web_search", queries=["it"])
        assert (error_kind, words in text) == (kind, True), text
        assert KEY not in text
        assert "\n" not in text
        assert f"the search service {service} (127.0.0.1:{services.port})" in text


# ---- what is sent


def send_query(services: Site, service: str, **arguments: Any) -> tuple[SiteRequest, dict[str, Any]]:
    caller(services, service).data("web_search", queries=["apples & pears"], **arguments)
    (request,) = services.requests
    fields = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
    return request, loads(request.body) if request.body else fields


def test_searxng_gets_the_query() -> None:
    with serve({"/base/search": make_response(dumps(SEARXNG), "application/json")}) as site:
        Caller(WebClient(WebConfig(searxng_url=site.url("/base/")))).data(
            "web_search", queries=["a b"], recency_days=30
        )
        (request,) = site.requests
    assert parse_qs(urlsplit(request.path).query) == {
        "q": ["a b"],
        "format": ["json"],
        "time_range": ["month"],
    }


def test_domains_become_operators_if_a_service_has_no_field_for_them(services: Site) -> None:
    _, fields = send_query(
        services, "searxng", allowed_domains=["docs.test", "b.test"], blocked_domains=["c.test"]
    )
    assert fields["q"] == "apples & pears (site:docs.test OR site:b.test) -site:c.test"


def test_brave_gets_its_key_in_its_header(services: Site) -> None:
    request, fields = send_query(services, "brave", recency_days=2, max_results=5)
    assert request.headers["x-subscription-token"] == KEY
    assert KEY not in request.path
    assert fields["count"] == "5"
    begin, end = fields["freshness"].split("to")
    assert begin < end


def test_tavily_gets_its_key_in_its_header(services: Site) -> None:
    request, fields = send_query(
        services, "tavily", allowed_domains=["docs.test"], blocked_domains=["c.test"], recency_days=400
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"
    domains = {"include_domains": ["docs.test"], "exclude_domains": ["c.test"]}
    assert fields == {"query": "apples & pears", "max_results": 8, **domains}


@pytest.mark.parametrize(
    ("days", "name"), [(None, ""), (1, "day"), (2, "week"), (8, "month"), (300, "year"), (4000, "")]
)
def test_the_time_range_is_the_shortest_that_includes_the_days(days: int | None, name: str) -> None:
    assert searching.SearchQuery("q", max_age_days=days).time_range == name


def test_without_a_service_the_error_names_the_settings() -> None:
    for config in (WebConfig(), WebConfig(brave_key=lambda: None)):
        kind, text = Caller(WebClient(config)).error("web_search", queries=["it"])
        assert (kind, text) == ("not_allowed", NO_SEARCH_SERVICE)


def test_a_service_that_does_not_answer(services: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Caller(WebClient(WebConfig(searxng_url=f"http://127.0.0.1:{services.port + 1}")))
    assert "could not be reached" in closed.error("web_search", queries=["it"])[1]

    services.pages["/slow/search"] = stay_silent
    monkeypatch.setattr(searching, "TIMEOUT_SECONDS", 0.05)
    web = WebClient(WebConfig(searxng_url=services.url("/slow")))
    with pytest.raises(ToolError, match="did not answer within") as raised:
        asyncio.run(searching.search_web(web.config, [searching.SearchQuery("it")]))
    assert (raised.value.kind, raised.value.retryable) == ("timeout", True)


def test_a_result_is_opened_by_its_ref(services: Site, site: Site) -> None:
    body = dumps({"results": [{"url": site.url("/near"), "title": "Near", "content": "it"}]})
    services.pages["/near/search"] = make_response(body, "application/json")
    config = WebConfig(
        searxng_url=services.url("/near"), browser="none", allow_private=(f"127.0.0.1:{site.port}",)
    )
    web = Caller(WebClient(config))
    ref = web.data("web_search", queries=["it"])["results"][0]["ref"]
    assert web.data("web_open", target=ref)["text"] == "you are here"
    web.web.close()


def test_declarations() -> None:
    declared = {
        "web_search": ["queries", "allowed_domains", "blocked_domains", "recency_days", "max_results"],
        "web_open": ["target", "start_line", "start_char", "question", "format", "timeout"],
        "web_find": ["target", "pattern"],
        "web": ["search_query", "open", "find"],
    }
    tools: list[Tool] = Caller(WebClient()).tools
    assert [tool.name for tool in tools] == list(declared)
    for tool in tools:
        assert tool.effects == {"network"}
        assert tool.definition.examples
        properties: Any = (tool.definition.parameters or {})["properties"]
        assert list(properties) == declared[tool.name]
        assert all(parameter.get("description") for parameter in properties.values())
