"""Pages on loopback, opened by a real browser and by plain requests."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from web_site import ARTICLE, PUBLIC, Caller, Names, Site, make_response, redirect, serve

from toolglot.builtin.web import browser
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.confine import programs
from toolglot.values.messages import ToolCall

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def put(site: Site, path: str, page: bytes | str) -> str:
    site.pages[path] = page if isinstance(page, bytes) else make_response(page)
    return site.url(path)


# ---- both ways


class TestEitherWay:
    def test_an_article_is_read_with_table_code_and_links(self, either: Caller, site: Site) -> None:
        data = either.data("web_open", target=site.url(), format="markdown")
        page = either.web.pages.get_fresh(site.url())
        assert page is not None
        link = f"[link 7]({site.url('/more/7')})"
        assert all(
            part in page.text for part in ("| Apple | 1.20 |", "def fly(high):\n    return high + 1", link)
        )
        assert (data["title"], data["status"], data["ref"], data["url"]) == (
            "On Things & more",
            200,
            "w1",
            site.url(),
        )

    def test_a_long_page_is_loaded_once_and_shown_part_by_part(self, either: Caller, site: Site) -> None:
        data = either.data("web_open", target=site.url("/long"))
        seen = [data["text"]]
        while data["next_line"] is not None:
            data = either.data("web_open", target=data["ref"], start_line=data["next_line"])
            seen.append(data["text"])
        lines = [line for line in "\n".join(seen).split("\n") if line]
        assert lines == [f"line {number} of many" for number in range(1, 801)]
        assert site.paths == ["/long"]

    def test_a_url_without_a_start_is_opened_anew(self, http_web: Caller, site: Site) -> None:
        for _ in range(2):
            http_web.data("web_open", target=site.url("/long"))
        data = http_web.data("web_open", target=site.url("/long"), start_char=5000)
        assert (data["start_char"], len(data["text"]) <= 4000) == (5000, True)
        assert site.paths == ["/long", "/long"]

    def test_find_text(self, either: Caller, site: Site) -> None:
        ref = either.data("web_open", target=site.url("/long"))["ref"]
        data = either.data("web_find", target=ref, pattern="LINE 718 of")
        assert (data["total"], data["matches"][0]["text"]) == (1, "line 718 of many")
        shown = either.data("web_open", target=ref, start_line=data["matches"][0]["line"])
        assert shown["text"].startswith("line 718 of many")
        assert site.paths == ["/long"]

    def test_find_nothing(self, http_web: Caller, site: Site) -> None:
        result = http_web("web_find", target=site.url("/near"), pattern="nowhere").result
        assert (result.is_error, result.data["total"]) == (False, 0)
        assert "None of the 1 lines contains 'nowhere'" in result.text

    @pytest.mark.parametrize(
        ("format", "part"), [("markdown", "[link 7]("), ("text", "with link 7 and"), ("html", '<a href="')]
    )
    def test_formats(self, http_web: Caller, site: Site, format: str, part: str) -> None:
        url = put(site, "/form", ARTICLE.replace("'", '"'))
        assert part in http_web.data("web_open", target=url, format=format)["text"]

    @pytest.mark.parametrize(
        ("path", "text", "media_type"),
        [
            ("/data.json", '{"a": [1, {"b": "c"}]}', "application/json"),
            ("/plain.txt", "one\ntwo <b>three</b>[31m", "text/plain"),
            ("/latin", "café", "text/html"),
            ("/feed.xml", "<list><entry>first entry</entry></list>", "application/xml"),
        ],
    )
    def test_other_text_is_shown_as_it_is(
        self, either: Caller, site: Site, path: str, text: str, media_type: str
    ) -> None:
        data = either.data("web_open", target=site.url(path))
        assert (data["text"], data["media_type"]) == (text, media_type)

    def test_a_file_is_read_if_it_is_text(self, either: Caller, site: Site) -> None:
        assert (
            "is a file (application/zip, 300 bytes)"
            in either.error("web_open", target=site.url("/file.zip"))[1]
        )
        data = either.data("web_open", target=site.url("/table.csv"))
        assert (data["text"], data["method"]) == ("a,b\n1,2", "http")

    def test_a_missing_page_is_an_error_with_its_text(self, either: Caller, site: Site) -> None:
        kind, text = either.error("web_open", target=site.url("/missing"))
        assert (kind, "status 404" in text, "gone for good" in text) == ("execution", True, True)

    def test_redirects_are_followed_unless_they_loop(self, either: Caller, site: Site) -> None:
        data = either.data("web_open", target=site.url("/far"))
        assert (data["url"], data["requested"], data["text"]) == (
            site.url("/near"),
            site.url("/far"),
            "you are here",
        )
        assert "in a loop" in either.error("web_open", target=site.url("/circle"))[1]

    def test_lines_with_words_of_the_question_are_listed(self, http_web: Caller, site: Site) -> None:
        result = http_web("web_open", target=site.url(), question="How much is a Pear?").result
        assert result.data["question"] == "How much is a Pear?"
        assert "Words of your question are in lines" in result.text

    def test_the_target_of_a_ref_is_its_url(self, http_web: Caller, site: Site) -> None:
        ref = http_web.data("web_open", target=site.url("/near"))["ref"]
        describe = http_web.tools[1].target
        assert describe is not None
        assert describe({"target": ref}) == site.url("/near")


# ---- addresses


PRIVATE = [
    *(
        "http://127.0.0.1:1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0/",
    ),
    *(
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::]/",
    ),
    *(
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/",
    ),
    *(
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://224.0.0.1/",
        "http://localhost/",
        "http://localhost./",
    ),
    *("https://localhost:8443/", "http://[64:ff9b::7f00:1]/", "http://168.63.129.16/", "http://inside.test/"),
    *("http://both.test/", "http://8.8.8.8:25/", "http://a.test:80@127.0.0.1/", "file:///etc/passwd"),
    *("view-source:http://8.8.8.8/", "data:text/html,x"),
]


class TestAddresses:
    @pytest.mark.parametrize("url", PRIVATE)
    def test_an_address_that_is_not_public_is_refused(
        self, http_web: Caller, names: Names, site: Site, url: str
    ) -> None:
        names.answers |= {"inside.test": [["10.0.0.1"]], "both.test": [[PUBLIC, "10.0.0.1"]]}
        kind, text = http_web.error("web_open", target=url)
        assert kind == "not_allowed", text
        assert names.reached == []

    @pytest.mark.parametrize("path", ["/to-private", "/to-metadata", "/to-file", "/to-name"])
    def test_a_redirect_to_a_private_address_is_refused(
        self, either: Caller, names: Names, site: Site, path: str
    ) -> None:
        names.answers["inside.test"] = [["192.168.3.4"]]
        kind, text = either.error("web_open", target=site.url(path))
        assert kind == "not_allowed", text
        assert {address for address, _ in names.reached} == {"127.0.0.1"}

    def test_a_name_that_changes_to_loopback_is_refused(
        self, either: Caller, names: Names, site: Site
    ) -> None:
        """Public when checked first, loopback when the proxy connects."""
        names.answers["turns.test"] = [[PUBLIC], ["127.0.0.1"]]
        assert either.error("web_open", target=f"http://turns.test:{site.port + 1}/near")[0] == "not_allowed"
        assert names.reached == []

    def test_a_public_name_is_opened_at_the_address_that_was_checked(
        self, either: Caller, names: Names, site: Site
    ) -> None:
        names.answers["good.test"] = [[PUBLIC]]
        assert either.data("web_open", target="http://good.test/near")["text"] == "you are here"
        assert set(names.reached) == {(PUBLIC, 80)}

    def test_other_ports_of_an_allowed_host_are_refused(self, http_web: Caller, site: Site) -> None:
        assert http_web.error("web_open", target=f"http://127.0.0.1:{site.port + 1}/")[0] == "not_allowed"

    def test_a_page_cannot_load_private_addresses(self, chromium: Caller, names: Names, site: Site) -> None:
        names.answers["inside.test"] = [["10.9.8.7"]]
        with serve({"/secret": make_response("the secret", Access_Control_Allow_Origin="*")}) as other:
            names.answers["turns.test"] = [["127.0.0.1"]]
            urls = [
                *(other.url("/secret", host) for host in ("127.0.0.1", "localhost", "turns.test")),
                "http://inside.test/",
            ]
            show = "then(r => r.text()).then(t => document.body.append(t), () => {})"
            script = "; ".join(f"fetch('{url}').{show}" for url in urls)
            frames = "".join(
                f"<iframe src='{url}'></iframe><img src='{url}'><script src='{url}'></script>" for url in urls
            )
            script += (
                f"; new WebSocket('ws://127.0.0.1:{other.port}/secret'); "
                f"navigator.sendBeacon('{urls[0]}', 'x')"
            )
            page = f"<p>here</p>{frames}<script>{script}</script><link rel=prefetch href='{urls[0]}'>"
            data = chromium.data("web_open", target=put(site, "/curious", page))
            assert "secret" not in data["text"]
            assert other.requests == []
        assert {address for address, _ in names.reached} == {"127.0.0.1"}
        assert {port for _, port in names.reached} == {site.port}

    @pytest.mark.parametrize(
        "script",
        ["", browser._DISABLE_UDP_SCRIPT],  # pyright: ignore[reportPrivateUsage]
        ids=["by its flags", "by its flags and a script"],
    )
    def test_nothing_bypasses_the_proxy(
        self, chromium: Caller, site: Site, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        monkeypatch.setattr(browser, "_DISABLE_UDP_SCRIPT", script)
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets,
            socket.create_server(("127.0.0.1", 0)) as streams,
        ):
            packets.bind(("127.0.0.1", 0))
            packets.setblocking(False)
            streams.setblocking(False)
            host = f"127.0.0.1:{packets.getsockname()[1]}"
            urls = f"['turn:{host}', 'turn:127.0.0.1:{streams.getsockname()[1]}?transport=tcp']"
            page = f"""<body><p>here</p><script>
                const peer = new RTCPeerConnection({{iceServers: [
                    {{urls: 'stun:{host}'}}, {{urls: {urls}, username: 'a', credential: 'b'}}]}});
                const moves = setInterval(() => document.body.append('.'), 20);
                peer.onicegatheringstatechange = () => {{
                    document.body.append(peer.iceGatheringState);
                    if (peer.iceGatheringState === 'complete') clearInterval(moves);
                }};
                peer.createDataChannel('x');
                peer.createOffer().then(offer => peer.setLocalDescription(offer));
                </script><script>new WebTransport('https://{host}/')</script>"""
            text = chromium.data("web_open", target=put(site, "/around", page))["text"]
            assert ("complete" in text) == (not script)
            with pytest.raises(BlockingIOError):
                packets.recv(1)
            with pytest.raises(BlockingIOError):
                streams.accept()

    def test_a_script_that_navigates_to_a_private_page_is_refused(
        self, chromium: Caller, names: Names, site: Site
    ) -> None:
        names.answers["inside.test"] = [["10.0.0.9"]]
        url = put(site, "/leads", "<p>a while</p><script>location = 'http://inside.test/'</script>")
        result = chromium("web_open", target=url).result
        assert result.is_error
        assert result.error_kind == "not_allowed", result.text


# ---- a real browser


class TestChromium:
    def test_scripts_have_run(self, chromium: Caller, site: Site) -> None:
        page = chromium.data("web_find", target=site.url(), pattern="made by a script: 42")
        data = chromium.data("web_open", target=site.url())
        assert (page["total"], data["method"]) == (1, "chromium")
        assert data["sandbox"] is (os.geteuid() != 0)

    def test_content_that_loads_later_is_awaited(self, chromium: Caller, site: Site) -> None:
        script = (
            "fetch('/near').then(r => r.text()).then(t => { document.body.innerHTML = '<p>then ' + t + "
            "'</p>' })"
        )
        data = chromium.data(
            "web_open", target=put(site, "/late", f"<p>loading</p><script>{script}</script>")
        )
        assert "you are here" in data["text"]

    def test_open_shadow_trees_are_read(self, chromium: Caller, site: Site) -> None:
        script = "document.body.attachShadow({mode: 'open'}).innerHTML = '<p>in the shadow</p>'"
        url = put(site, "/shadow", f"<body><script>{script}</script>")
        assert "in the shadow" in chromium.data("web_open", target=url)["text"]

    TRICKS = (
        "alert(1); confirm(2); prompt(3); onbeforeunload = () => 'stay'",
        "open('/near'); open('about:blank'); open('data:text/html,x')",
        "const a = document.createElement('a'); a.href = '/file.zip'; a.download = 'x'; "
        "document.body.append(a); a.click()",
        "document.documentElement.requestFullscreen(); Notification.requestPermission()",
        "new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:3478'}]}).createOffer()",
        "location = 'file:///etc/passwd'",
        "location = 'view-source:about:blank'",
    )

    def test_dialogs_popups_and_downloads_do_not_block(self, chromium: Caller, site: Site) -> None:
        scripts = "".join(f"<script>{trick}</script>" for trick in self.TRICKS)
        data = chromium.data(
            "web_open", target=put(site, "/tricks", f"<body><p>still here</p>{scripts}"), timeout=10
        )
        assert data["text"] == "still here"

    def test_calls_share_nothing(self, chromium: Caller, site: Site) -> None:
        script = (
            "document.body.append(document.cookie + localStorage.x); document.cookie = 'a=1'; "
            "localStorage.x = 'b'"
        )
        url = put(site, "/keeps", f"<body><script>{script}</script>")
        assert [chromium.data("web_open", target=url)["text"] for _ in range(2)] == ["undefined", "undefined"]

    def test_pages_open_at_the_same_time(self, chromium: Caller, site: Site) -> None:
        for number in range(4):
            put(site, f"/same{number}", f"<p>page number {number}</p>")
        calls = [
            ToolCall(f"c{number}", "web_open", {"target": site.url(f"/same{number}")}) for number in range(4)
        ]
        outcomes = asyncio.run(asyncio.wait_for(chromium.executor.run_all(calls), 20))
        assert [outcome.result.data["text"] for outcome in outcomes] == [
            f"page number {number}" for number in range(4)
        ]

    @LINUX
    def test_a_page_that_takes_too_much_memory_is_ended(self, chromium: Caller, site: Site) -> None:
        script = (
            "const a = []; setInterval(() => document.body.append(a.push(new Uint8Array(2e7).fill(1))), 5)"
        )
        put(site, "/greedy", f"<body><script>{script}</script>")
        web = WebClient(WebConfig(allow_private=(f"127.0.0.1:{site.port}",), max_memory=400_000_000))
        try:
            assert (
                "used more memory than allowed"
                in Caller(web).error("web_open", target=site.url("/greedy"))[1]
            )
            page = Caller(web)("web_open", target=site.url("/near")).result  # the next page is not affected
            assert "you are here" in page.text
            is_root = os.geteuid() == 0
            assert (browser.NO_SANDBOX_NOTE in page.text) is is_root  # told once
            assert (
                browser.NO_SANDBOX_NOTE not in Caller(web)("web_open", target=site.url("/near")).result.text
            )
        finally:
            web.close()

    @pytest.mark.untraced
    @LINUX
    def test_a_browser_that_was_interrupted_is_restarted(self, chromium: Caller, site: Site) -> None:
        chromium.data("web_open", target=site.url("/near"))
        before = find_browsers()
        assert before
        for process in find_processes(b"playwright/driver"):
            os.kill(process, signal.SIGINT)
        assert chromium("web_open", target=site.url("/near")).result.text.endswith("you are here")
        assert find_browsers().isdisjoint(before)

    def test_an_untrusted_certificate_is_refused(
        self, chromium: Caller, tls_site: Site, names: Names
    ) -> None:
        names.answers["secure.test"] = [[PUBLIC]]
        names.port = tls_site.port
        assert "certificate is not trusted" in chromium.error("web_open", target="https://secure.test/")[1]


def find_processes(*marks: bytes) -> set[int]:
    """Return the descendants of this process with all marks in their command line."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for directory in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(directory.name)] = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(directory.name)] = (directory / "cmdline").read_bytes()
    ours = {os.getpid()}
    while descendants := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= descendants
    return {process for process in ours if all(mark in commands.get(process, b"") for mark in marks)}


def find_browsers() -> set[int]:
    """Return the main processes of browsers."""
    return find_processes(b"\0--remote-debugging-pipe\0") - find_processes(b"\0--type=")


@pytest.fixture
def tls_site(names: Names) -> Iterator[Site]:
    """A site with a certificate of an authority that only we know."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = authority.issue_cert("secure.test")
    certificate.configure_cert(context)
    port = names.port
    with serve({"/": make_response("<p>over TLS</p>")}, context) as site:
        site.pages["authority"] = authority.cert_pem.bytes()
        yield site
    names.port = port


# ---- bounds


class TestBounds:
    @pytest.mark.parametrize("path", ["/forever", "/bomb"])
    def test_a_body_that_is_too_large_is_truncated(self, either: Caller, site: Site, path: str) -> None:
        result = either("web_open", target=site.url(path), timeout=10).result
        if result.is_error:  # Chromium lets go of a page that unpacks beyond its limit
            assert result.error_kind == "limit", result.text
        else:
            assert "was truncated" in result.text
            assert result.data["total_chars"] <= 400_000

    def test_a_page_that_never_ends_is_read_as_far_as_it_loaded(
        self, chromium: Caller, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser, "LOAD_SHARE", 0.1)
        result = chromium("web_open", target=site.url("/stalled"), timeout=15).result
        assert result.data["text"] == "the beginning", result.text
        assert "still loading" in result.text

    def test_a_page_that_never_responds_times_out(self, either: Caller, site: Site) -> None:
        kind, text = either.error("web_open", target=site.url("/silent"), timeout=1)
        assert kind == "timeout"
        assert "within 1 s" in text

    def test_an_endless_script_times_out_and_the_next_page_opens(self, chromium: Caller, site: Site) -> None:
        url = put(site, "/busy", "<p>busy</p><script>setTimeout(() => { while (true); }, 0)</script>")
        assert chromium("web_open", target=url, timeout=1).result.error_kind == "timeout"
        assert chromium.data("web_open", target=site.url("/near"))["text"] == "you are here"

    def test_a_page_that_grows_forever_is_read_once(
        self, chromium: Caller, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser, "SETTLE_SECONDS", 0.3)
        script = (
            "setInterval(() => { for (let i = 0; i < 100; i++) "
            "document.body.append(document.createElement('p')) }, 5)"
        )
        data = chromium.data(
            "web_open",
            target=put(site, "/grows", f"<body><p>begins</p><script>{script}</script>"),
            timeout=10,
        )
        assert data["text"].startswith("begins")

    def test_cancelling_stops_the_page(self, chromium: Caller, site: Site) -> None:
        reached = threading.Event()

        async def serve_forever(request: Any, writer: asyncio.StreamWriter) -> None:
            reached.set()
            await asyncio.Event().wait()

        site.pages["/arrived"] = serve_forever

        async def main() -> None:
            call = ToolCall("c1", "web_open", {"target": site.url("/arrived")})
            task = asyncio.create_task(chromium.executor.run(call))
            await asyncio.to_thread(reached.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert chromium.data("web_open", target=site.url("/near"))["text"] == "you are here"


# ---- without a browser


class TestPlainRequests:
    def test_the_result_says_that_no_script_ran(self, http_web: Caller, site: Site) -> None:
        result = http_web("web_open", target=site.url("/packed")).result
        assert (result.data["method"], result.data["sandbox"]) == ("http", None)
        assert "without a browser" in result.text
        page = http_web.web.pages.get_fresh(site.url("/packed"))
        assert page is not None
        assert "not yet" in page.text

    @pytest.mark.parametrize(
        ("module", "path", "reason"),
        [
            ("playwright", "", "playwright is not installed"),
            ("", "/no/such/browser", "the browser '/no/such/browser' does not exist"),
        ],
    )
    def test_without_browser_or_playwright_pages_still_open(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, module: str, path: str, reason: str
    ) -> None:
        if module:
            monkeypatch.setitem(sys.modules, module, None)
        else:
            pytest.importorskip("playwright")
        web = WebClient(WebConfig(allow_private=(f"127.0.0.1:{site.port}",), browser=path))
        try:
            result = Caller(web)("web_open", target=site.url("/near")).result
            assert result.text.endswith("you are here")
            assert reason in result.text
        finally:
            web.close()

    def test_a_page_that_is_only_searched_says_how_it_was_opened(self, http_web: Caller, site: Site) -> None:
        text = http_web("web_find", target=site.url("/near"), pattern="you").result.text
        assert "Note: the page was opened without a browser, so no scripts ran" in text

    def test_no_browser_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr(browser, "_INSTALL_PATHS", ())
        monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
        with pytest.raises(browser.BrowserUnavailable, match="no Chrome or Chromium is installed"):
            browser.find_browser()

    def test_tls_is_verified_through_the_proxy(self, tls_site: Site, names: Names) -> None:
        names.answers["secure.test"] = [[PUBLIC]]
        names.port = tls_site.port
        authority = tls_site.pages["authority"]
        assert isinstance(authority, bytes)
        trusting = ssl.create_default_context(cadata=authority.decode())
        for context, expected in (
            (trusting, "over TLS"),
            (None, "the certificate of secure.test is not trusted"),
        ):
            web = WebClient(
                WebConfig(browser="none"), resolve=names.resolve, connect=names.connect, ssl=context
            )
            try:
                assert expected in Caller(web)("web_open", target="https://secure.test/").result.text
            finally:
                web.close()
        assert set(names.reached) == {(PUBLIC, 443)}

    @pytest.mark.parametrize(
        ("path", "page", "words"),
        [
            ("/cut", make_response("x" * 100)[:-50], "closed the connection"),
            ("/nonsense", b"nonsense\r\n\r\n", "sent no valid response"),
            ("/nothing", b"", "closed the connection"),
            ("/brotli", make_response("x", Content_Encoding="br"), "compressed with 'br'"),
            ("/not-packed", make_response("x" * 100, Content_Encoding="gzip"), "cannot be decompressed"),
            ("/to-user", redirect("http://a:b@8.8.8.8/"), "contains a user name"),
            ("/to-nonsense", redirect("http://[/"), "is malformed"),
        ],
    )
    def test_a_broken_response_is_one_sentence(
        self, http_web: Caller, site: Site, path: str, page: bytes, words: str
    ) -> None:
        text = http_web.error("web_open", target=put(site, path, page))[1]
        assert words in text
        assert "\n" not in text

    def test_only_a_few_headers_are_sent(self, http_web: Caller, site: Site) -> None:
        http_web.data("web_open", target=site.url("/near"))
        (request,) = site.requests
        assert set(request.headers) == {"host", "connection", "user-agent", "accept", "accept-encoding"}


# ---- beginning and end


class TestLife:
    def test_close_twice_then_open(self, site: Site) -> None:
        web = WebClient(WebConfig(allow_private=(f"127.0.0.1:{site.port}",), browser="none"))
        caller = Caller(web)
        caller.data("web_open", target=site.url("/near"))
        web.close()
        web.close()
        kind, text = caller.error("web_open", target=site.url("/near"))
        assert (kind, text) == ("execution", "the web tools are closed")

    def test_a_client_collected_in_its_own_thread_ends(self, site: Site) -> None:
        held = [WebClient(WebConfig(allow_private=(f"127.0.0.1:{site.port}",), browser="none"))]
        asyncio.run(held[0].open(site.url("/near"), 5))
        worker = held[0]._loop_thread  # pyright: ignore[reportPrivateUsage]
        (loop, _), thread = worker._started.result(), worker._thread  # pyright: ignore[reportPrivateUsage]
        assert thread is not None
        loop.call_soon_threadsafe(lambda: (held.clear(), gc.collect()))
        thread.join(5)
        assert not thread.is_alive()

    @pytest.mark.untraced
    def test_a_program_that_does_not_close_leaves_nothing_behind(self, chromium: Caller, site: Site) -> None:
        program = f"""
import asyncio
from toolglot.builtin.web.client import WebClient, WebConfig
web = WebClient(WebConfig(allow_private=("127.0.0.1:{site.port}",)))
for _ in range(2):  # another event loop each time
    print(asyncio.run(web.open({site.url("/near")!r}, 20)).text)
"""
        with tempfile.TemporaryDirectory() as directory:
            environment = {**os.environ, "TMPDIR": directory, "SECRET_KEY": "sk-very-secret-1234567890"}
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", program],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.stdout.split("\n")[:2] == ["you are here"] * 2, done.stderr
            assert done.stderr == ""
            assert list(Path(directory).iterdir()) == []

    def test_nothing_heavy_is_imported_before_it_is_needed(self) -> None:
        heavy = "'aiohttp', 'playwright', 'trafilatura', 'lxml'"
        program = (
            f"import sys, toolglot.builtin.web.tools; print([name for name in ({heavy}) if name in "
            "sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
        assert done.stdout.strip() == "[]", done.stderr

    def test_a_driver_that_another_thread_starts_does_not_block_the_loop(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("playwright", reason="needs playwright, which is not installed")
        monkeypatch.setattr(browser, "START_SECONDS", 0.01)
        chromium = browser.Chromium(cast(Any, None), WebConfig(browser="/bin/sh"))
        with vars(browser)["_driver_lock"], pytest.raises(browser.BrowserUnavailable, match="TimeoutError"):
            asyncio.run(chromium.start())

    @LINUX
    def test_a_page_is_killed_before_the_browser(self, monkeypatch: pytest.MonkeyPatch) -> None:
        argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with (
            subprocess.Popen(argv, stdin=subprocess.PIPE) as main,
            subprocess.Popen([*argv, "--type=renderer"], stdin=subprocess.PIPE) as page,
        ):
            chromium: Any = browser.Chromium(cast(Any, None), WebConfig(max_memory=10**9))
            usage = {main.pid: 10**9, page.pid: 10**8}
            monkeypatch.setattr(browser, "measure_memory", {"HOME=": usage}.get)

            async def watch() -> None:
                limit = asyncio.ensure_future(chromium._limit_memory())
                await asyncio.to_thread(page.wait, 20)
                limit.cancel()

            try:
                asyncio.run(watch())
                assert (page.returncode, main.poll()) == (-signal.SIGKILL, None)
            finally:
                main.kill()
                page.kill()

    @LINUX
    def test_the_driver_has_no_terminal(self, chromium: Caller, site: Site) -> None:
        """Node would put its modes back at the end, whatever they were when it started."""
        chromium.data("web_open", target=site.url("/near"))
        drivers = find_processes(b"run-driver")
        assert [os.readlink(f"/proc/{driver}/fd/2") for driver in drivers] == [os.devnull] * len(drivers)
        assert drivers

    @LINUX
    def test_the_browser_does_not_see_the_environment(self, chromium: Caller, site: Site) -> None:
        chromium.data("web_open", target=site.url("/near"))
        (main,) = find_browsers()
        assert "TOOLGLOT_STATE" in os.environ
        assert b"TOOLGLOT_STATE=" not in Path(f"/proc/{main}/environ").read_bytes()
