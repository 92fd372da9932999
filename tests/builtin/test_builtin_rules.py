"""Rules and approvals for the built-in tools: what sends, writes or runs needs a decision, under whatever
name it is called.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.tools.policy_kit import make_caller

from toolglot import Agent, BuiltinOptions, ToolConfig, WebConfig, builtins, from_config
from toolglot.common.jsontext import dumps_text
from toolglot.facades.catalog import FACADE_MODULES
from toolglot.tools.policy import ToolPolicy, Verdict


@contextmanager
def counting_server() -> Generator[tuple[str, list[str]]]:
    """A server on this machine, and the paths that were requested from it."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", requested
        finally:
            server.shutdown()
            thread.join()


def open_tools(root: Path, site: str = "127.0.0.1:1") -> Any:
    return builtins(
        root, options=BuiltinOptions(web=WebConfig(allow_private=[site], browser="none"), backups=False)
    )


def error_codes(agent: Agent, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    prompt = " then ".join(f"call! {name} {dumps_text(arguments)}" for name, arguments in calls)
    return [outcome.result.error_code or "" for outcome in agent.run_sync(prompt).outcomes]


def sending_calls(site: str, mark: str) -> list[tuple[str, dict[str, Any]]]:
    """Every way to open a page, by the names of the base tools, which facades may hide."""
    url = f"http://{site}/{mark}"
    return [
        ("web_open", {"target": f"{url}/open"}),
        ("web_find", {"target": f"{url}/find", "pattern": "x"}),
        ("web", {"open": [{"ref_id": f"{url}/web"}]}),
        ("web", {"find": [{"ref_id": f"{url}/web-find", "pattern": "x"}]}),
    ]


class TestSending:
    def test_nothing_is_sent_without_a_decision_under_any_facade(self, tmp_path: Path) -> None:
        with counting_server() as (site, requested):
            tools = open_tools(tmp_path, site)
            for facade in FACADE_MODULES:
                agent = Agent("simulator", tools=tools.tools, facade=facade)
                codes = error_codes(agent, *sending_calls(site, facade))
                assert len(codes) == 4
                assert "" not in codes, facade
            tools.close()
        assert requested == []

    def test_a_refused_page_is_not_found_in_either(self, tmp_path: Path) -> None:
        """Without a question, `web_find` searches only pages that are open."""
        with counting_server() as (site, requested):
            tools, asked = open_tools(tmp_path, site), list[str]()

            def approve(request: Any) -> bool:
                asked.append(request.tool)
                return request.target.endswith("/yes")

            agent = Agent("simulator", tools=tools.tools, facade="neutral", approve=approve)
            for name in ("no", "yes"):
                url = f"http://{site}/{name}"
                error_codes(
                    agent, ("web_open", {"target": url}), ("web_find", {"target": url, "pattern": "ok"})
                )
            tools.close()
        assert (asked, requested) == (["web_open", "web_find", "web_open"], ["/yes"])

    @pytest.mark.parametrize("denied", ["web_open", "WebFetch", "web_open(127.0.0.1)", "web_*"])
    def test_denying_pages_denies_every_way_to_open_one(
        self, denied: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOLGLOT_CONFIG", str(tmp_path / "none.toml"))
        with counting_server() as (site, requested):
            tools = open_tools(tmp_path, site)
            for facade in ("neutral", "claude-code", "codex"):
                flags = {
                    "policy.deny": (denied,),
                    "policy.approve": ("web_open", "web*", "web"),
                    "facade": facade,
                    "audit": False,
                }
                agent = from_config(
                    "simulator", directory=tmp_path, flags=flags, tools=tools.tools, approve=lambda _: "yes"
                )
                assert "" not in error_codes(agent, *sending_calls(site, facade))
            tools.close()
        assert requested == []

    def test_a_rule_for_a_host_lets_its_pages_be_opened(self, tmp_path: Path) -> None:
        with counting_server() as (site, requested):
            tools = open_tools(tmp_path, site)
            config = ToolConfig(approve=[f"web_open({site}/a/**)"])
            agent = Agent("simulator", tools=tools.tools, facade="neutral", config=config)
            codes = error_codes(
                agent, *sending_calls(site, "a"), *sending_calls(site, "b"), *sending_calls(site, "a?secret")
            )
            tools.close()
        assert codes == [""] * 4 + ["approval_required"] * 8
        assert sorted(requested) == ["/a/find", "/a/open", "/a/web", "/a/web-find"]


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Any]:
    """Judges a call of a built-in tool in a directory with `src`, `secrets` and links between them."""
    root = tmp_path / "root"
    for name in ("src/deep", "secrets", "../outside"):
        (root / name).mkdir(parents=True)
    (root / "secrets" / "key").touch()
    (root / "src" / "link").symlink_to("../secrets")
    (root / "src" / "file").symlink_to("../secrets/key")
    (root / "src" / "out").symlink_to(tmp_path / "outside")
    (root / "alias").symlink_to("src")
    tools = open_tools(root)
    by_name = {tool.name: tool for tool in tools.all_tools}

    def judge(config: ToolConfig, name: str, **arguments: Any) -> Verdict:
        return ToolPolicy().judge(by_name[name], make_caller(config, can_ask=True), arguments)

    yield judge
    tools.close()


class TestFiles:
    @pytest.mark.parametrize(("path", "expected"), [
        ("src/a.py", "run"), ("src/deep/new/a.py", "run"), ("./src//a.py", "run"), ("alias/a.py", "run"),
        ("src/../src/a.py", "run"),
        ("src/link/a", "ask"), ("src/file", "ask"), ("src/out/a", "ask"), ("src/../secrets/a", "ask"), ("secrets/a", "ask"),
        ("a", "ask"),
        ("src", "ask"), ("../outside/a", "ask"), ("/etc/passwd", "ask"), ("src/\0", "ask"), ("", "ask"), ("srcx/a", "ask"),
        ("~/a", "ask"),
    ])  # fmt: skip
    def test_rules_are_about_real_paths(self, judge: Any, path: str, expected: str) -> None:
        allowed = ToolConfig(approve=["write(src/**)"])
        denied = ToolConfig(approve=["write"], deny=["write(secrets/**)"])
        for name in ("write", "edit", "multi_edit", "insert", "notebook_edit"):
            assert judge(allowed, name, path=path).action == expected, name
            if "link" in path or "secrets" in path or path == "src/file":
                assert judge(denied, name, path=path).action == "refuse", name

    def test_all_files_of_a_patch_count(self, judge: Any) -> None:
        config = ToolConfig(approve=["write(src/**)"], deny=["write(secrets/**)"])

        def patch(*paths: str) -> str:
            text = "".join(f"*** Add File: {path}\n+x\n" for path in paths)
            return judge(config, "patch", text=f"*** Begin Patch\n{text}*** End Patch").action

        assert [patch("src/a"), patch("src/a", "b"), patch("src/a", "src/link/b")] == ["run", "ask", "refuse"]
        move = "*** Begin Patch\n*** Update File: src/a\n*** Move to: {}\n@@\n-x\n+y\n*** End Patch"
        assert judge(config, "patch", text=move.format("b")).action == "ask"
        assert judge(config, "patch", text=move.format("secrets/b")).action == "refuse"
        assert judge(config, "patch", text="nonsense").action == "ask"

    @pytest.mark.parametrize(
        "rule", ["read(secrets/**)", "read(secrets/)", "read(**/key)", "read(./secrets/*)"]
    )
    def test_what_may_not_be_read_is_not_shown_by_any_tool(self, judge: Any, rule: str) -> None:
        config = ToolConfig(deny=[rule], approve=["write"])
        for path in ("secrets/key", "src/file", "src/link/key", "src/../secrets/key"):
            for name in ("read", "view_image", "grep", "ast_search", "edit", "ast_rewrite"):
                assert judge(config, name, path=path, pattern="x").action == "refuse", (name, path)
            assert judge(config, "read_many", include=["src/a", path]).action == "refuse", path
        for path in (".", "secrets", "src/link"):
            for name in ("grep", "ast_search", "ast_rewrite"):
                assert judge(config, name, path=path, pattern="x").action != "run", (name, path)
        for pattern in (
            "**",
            "*",
            "*/key",
            "s*/key",
            "secrets/k?y",
            "{src,secrets}/key",
            "secrets",
            "src/link/*",
            "[s]ecrets/key",
        ):
            assert judge(config, "read_many", include=["src/a", pattern]).action != "run", pattern
        if rule != "read(**/key)":
            assert judge(config, "grep", path="src", pattern="x").action == "run"
            assert judge(config, "read_many", include=["src/**/*.py", "src/a"]).action == "run"
        for name in ("glob", "list_dir"):  # names are no secrets
            assert judge(config, name, path=".", pattern="x").action == "run"

    def test_searching_a_directory_is_allowed_by_a_rule_for_all_of_it(self, judge: Any) -> None:
        for rule, expected in {
            "read(src/**)": "run",
            "grep(**)": "run",
            "read(src/*)": "ask",
            "read(src)": "ask",
        }.items():
            config = ToolConfig(ask={"read"}, approve=[rule])
            assert judge(config, "grep", path="src/deep", pattern="x").action == expected, rule

    def test_a_change_below_a_directory_is_asked_about(self, judge: Any) -> None:
        config = ToolConfig(approve=["write(src/**)", "ast_rewrite(**)"], deny=["write(secrets/**)"])
        common = {"pattern": "a", "replacement": "b", "dry_run": False}
        assert judge(config, "ast_rewrite", path="src/deep", **common).action == "ask"
        assert judge(config, "ast_rewrite", **common).action == "ask"
        assert (
            judge(
                ToolConfig(approve=["ast_rewrite"], deny=["write(secrets/**)"]), "ast_rewrite", **common
            ).action
            == "ask"
        )
        assert judge(ToolConfig(approve=["ast_rewrite"]), "ast_rewrite", **common).action == "run"


class TestCommands:
    @pytest.mark.parametrize(("arguments", "expected"), [
        ({"command": "git status"}, "run"), ({"argv": ["git", "status", "a b; rm x"]}, "run"),
        ({"command": "git status", "cwd": "src"}, "run"),
        ({"command": "git status", "then": ["git status -s"]}, "run"), ({"command": "git status", "background": True}, "run"),
        ({"command": "git status", "then": ["rm x"]}, "ask"), ({"command": "git status", "env": {"PATH": "."}}, "ask"),
        ({"command": "git status", "stdin": "rm x"}, "ask"), ({"command": "git status", "stdin": ""}, "ask"),
        ({"restart": True}, "ask"),
        ({"argv": ["git", "commit"]}, "ask"), ({"command": "git status;rm x"}, "ask"), ({}, "ask"),
    ])  # fmt: skip
    def test_what_else_decides_on_a_command_is_not_covered(
        self, judge: Any, arguments: dict[str, Any], expected: str
    ) -> None:
        assert judge(ToolConfig(approve=["shell(git status *)"]), "shell", **arguments).action == expected

    def test_leaving_the_sandbox_is_never_covered(self, judge: Any) -> None:
        verdict = judge(ToolConfig(approve=["shell"], ask=()), "shell", command="ls", escalate=True)
        assert (verdict.action, verdict.each_time) == ("ask", True)
        assert judge(ToolConfig(deny=["shell(ls)"]), "shell", command="ls", escalate=True).action == "refuse"


def test_models_own_names_in_rules(tmp_path: Path) -> None:
    tools = open_tools(tmp_path)
    config = ToolConfig(approve=["Bash(echo *)", "Write(src/**)"], deny=["Bash(echo no)"])
    agent = Agent("simulator:anthropic/claude-sonnet-4-5", tools=tools.tools, config=config)
    calls = [("Bash", {"command": command}) for command in ("echo hi", "echo no", "pwd")]
    assert error_codes(agent, *calls) == ["", "denied", "approval_required"]
    assert error_codes(agent, ("Write", {"file_path": f"{tmp_path}/src/a", "content": "x"})) == [""]
    tools.close()


def test_a_run_that_waits_is_resumed_where_nobody_is_asked(tmp_path: Path) -> None:
    """A process without `approve=` carries out the decisions that it is given, and what comes after them
    waits again.
    """
    first, second = open_tools(tmp_path), open_tools(tmp_path)
    agent = Agent("simulator", tools=first.tools, facade="neutral", approve=lambda _: "later")
    paused = agent.run_sync(
        'call! write {"path": "a", "content": "x"} then call! write {"path": "b", "content": "x"}'
    )
    loaded = Agent.load(agent.save(), tools=second.tools, facade="neutral")
    result = loaded.resume_sync({paused.requests[0].fingerprint: True})
    assert ([outcome.ran for outcome in result.outcomes], result.stop) == ([True], "approval")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    first.close()
    second.close()
