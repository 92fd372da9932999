"""One site and one browser for all tests of the web."""

from collections.abc import Iterator

import pytest
from web_site import ARTICLE, Caller, Names, Site, answer, bomb, forever, packed, redirect, served, silent, stalled

from toolglot.builtin.web.browser import BrowserUnavailable, find_browser
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig

MAX_BYTES = 400_000


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A site with good and bad pages."""
    lines = "".join(f"<p>line {number} of many</p>" for number in range(1, 801))
    with served(
        {
            "/": answer(ARTICLE),
            "/long": answer(f"<html><head><title>Long</title></head><body>{lines}</body></html>"),
            "/packed": packed(ARTICLE.encode()),
            "/data.json": answer('{"a": [1, {"b": "c"}]}', "application/json"),
            "/plain.txt": answer("one\r\ntwo <b>three</b>\x1b[31m\n", "text/plain; charset=utf-8"),
            "/latin": answer("<p>caf\xe9</p>".encode("latin-1"), "text/html; charset=iso-8859-1"),
            "/feed.xml": answer("<list><entry>first entry</entry></list>", "application/xml"),
            "/missing": answer("<p>gone for good</p>", status="404 Not Found"),
            "/file.zip": answer(b"PK\x03\x04\0\0" * 50, "application/zip"),
            "/table.csv": answer("a,b\n1,2\n", "text/csv", Content_Disposition="attachment; filename=table.csv"),
            "/bomb": bomb(60_000_000),
            "/forever": forever,
            "/stalled": stalled,
            "/silent": silent,
            "/circle": redirect("/circle"),
            "/far": redirect("/near"),
            "/near": answer("<p>you are here</p>"),
            "/to-private": redirect("http://10.0.0.1/"),
            "/to-metadata": redirect("http://169.254.169.254/latest/meta-data/"),
            "/to-file": redirect("file:///etc/passwd"),
            "/to-name": redirect("http://inside.test/"),
        }
    ) as found:
        yield found


@pytest.fixture(scope="session")
def names(site: Site) -> Names:
    found = Names()
    found.port = site.port
    return found


@pytest.fixture(autouse=True)
def _only_own_traces(site: Site, names: Names) -> None:
    site.asked.clear()
    names.answers.clear()
    names.reached.clear()


def _web(site: Site, names: Names, browser: str) -> WebClient:
    config = WebConfig(allow_private=(f"127.0.0.1:{site.port}",), browser=browser, max_bytes=MAX_BYTES, max_chars=4000)
    return WebClient(config, resolve=names.resolve, connect=names.connect)


@pytest.fixture(scope="session")
def plain_web(site: Site, names: Names) -> Iterator[Caller]:
    """The tools without a browser."""
    web = _web(site, names, "none")
    yield Caller(web)
    web.close()


@pytest.fixture(scope="session")
def chromium(site: Site, names: Names) -> Iterator[Caller]:
    """The tools with a real browser; skips where there is none."""
    pytest.importorskip("playwright", reason="needs playwright, which is not installed")
    try:
        find_browser()
    except BrowserUnavailable as e:
        pytest.skip(f"needs a browser: {e}")
    web = _web(site, names, "")
    yield Caller(web)
    web.close()


@pytest.fixture(params=["chromium", "http"])
def either(request: pytest.FixtureRequest) -> Caller:
    """What holds whichever way a page is opened."""
    return request.getfixturevalue("chromium" if request.param == "chromium" else "plain_web")
