"""`toolglot doctor`: what there is, where it comes from, what is broken; never a key."""

import json
import os
import re
import socket
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from toolglot.cli.doctor import EXTRAS, run_doctor
from toolglot.config.layers import Configuration, read_configuration
from toolglot.errors import UsageError
from toolglot.providers.catalog import PROFILES

KEY = "sk-ant-api03-0123456789abcdef"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, no keys, no programs, no sign-in, no keyring."""
    named = {name for row in PROFILES.values() for name in (*row.key_env, *row.token_env, *row.base_env)}
    for name in named | {
        name for name in os.environ if name.startswith(("TOOLGLOT_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_"))
    }:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "TOOLGLOT_STATE", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("TOOLGLOT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("toolglot.engine.auth.load_key", lambda _account: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.chdir(tmp_path)


def configured(tmp_path: Path, text: str = "") -> Configuration:
    (tmp_path / "config.toml").write_text(text)
    return read_configuration(directory=tmp_path)


def found(
    capsys: pytest.CaptureFixture[str], configuration: Any, *, online: bool = False, broken: bool = False
) -> dict[str, Any]:
    assert run_doctor(configuration, online=online, json=True) == int(broken)
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    said: dict[str, Any] = json.loads(out)
    assert bool(said["problems"]) == broken
    return said


def text(capsys: pytest.CaptureFixture[str], configuration: Any, *, online: bool = False) -> str:
    run_doctor(configuration, online=online, json=False)
    return capsys.readouterr().out


# ---- what is installed


def test_versions_are_those_of_the_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = found(capsys, configured(tmp_path))["versions"]
    assert list(versions)[:3] == ["toolglot", "python", "platform"]
    assert {"msgspec", "aiohttp"} <= {*versions}
    assert all(re.match(r"\d", version) for name, version in versions.items() if name != "platform")


def test_a_missing_package_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: ["no-such-package>=1", "other; extra == 'x'"])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    said = found(capsys, configured(tmp_path), broken=True)
    assert said["problems"] == ["package no-such-package is missing: reinstall toolglot"]
    assert "other" not in said["versions"]


def test_an_extra_that_is_absent_has_its_command_and_is_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "azure", (("no-such-package",), "sign in"))
    configuration = configured(tmp_path)
    assert found(capsys, configuration)["extras"]["azure"] is None
    assert "not installed; to sign in: pip install 'toolglot[azure]'" in text(capsys, configuration)


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for_users = {name: packages for name, packages in project.items() if name not in ("test", "check", "dev", "all")}
    assert {*EXTRAS} <= {*for_users}
    for name, (packages, _) in EXTRAS.items():
        assert list(packages) == [re.split(r"[^\w-]", line, maxsplit=1)[0] for line in for_users[name]]


def program(folder: Path, name: str, script: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    file = folder / "bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_programs_are_looked_for_and_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(tmp_path, "git", f"touch {tmp_path}/started")
    program(tmp_path, "google-chrome", f"touch {tmp_path}/started")
    programs = found(capsys, configured(tmp_path))["programs"]
    bin = tmp_path / "bin"
    assert programs == {"rg": None, "git": str(bin / "git"), "chromium": str(bin / "google-chrome")}
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("level", "run", "why"),
    [
        (2, "in bwrap+seccomp", {}),
        (1, "in landlock+seccomp", {"no bwrap+seccomp": "no permissions"}),
        (0, "unconfined: each one needs approval", {"no bwrap+seccomp": "not found", "no landlock+seccomp": "off"}),
    ],
)
def test_what_holds_commands_is_told(
    level: int,
    run: str,
    why: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = ("none", "landlock+seccomp", "bwrap+seccomp")
    said = {
        "level": level,
        "sandbox": labels[level],
        "reasons": {name.removeprefix("no "): reason for name, reason in why.items()},
        "bwrap": "/usr/bin/bwrap" if level == 2 else None,
        "landlock": 7 if level else 0,
        "processes": "cgroup",
        "gaps": [] if level == 2 else ["others can be seen"],
    }
    monkeypatch.setattr("toolglot.cli.diagnostics.describe_sandbox", lambda: said)
    sandbox = found(capsys, configured(tmp_path))["sandbox"]
    assert sandbox["commands run"] == run
    assert {name: reason for name, reason in sandbox.items() if name.startswith("no ")} == why
    assert sandbox.get("gaps") == (None if level == 2 else "others can be seen")


# ---- configuration and keys


def test_settings_that_are_not_as_usual_have_their_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = found(capsys, configured(tmp_path, "[policy]\nmax_turns = 7\n"))
    origin = f"user file {tmp_path}/config.toml"
    assert said["settings"] == [{"key": "policy.max_turns", "value": "7", "origin": origin}]
    assert said["files"] == {"user file": f"{tmp_path}/config.toml"}


def test_without_settings_all_is_as_usual(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    out = text(capsys, read_configuration(directory=tmp_path))
    assert f"user file  {tmp_path}/config.toml (does not exist)" in out
    assert "settings   all defaults" in out
    assert "no problems found" in out


def test_what_an_untrusted_project_did_not_get_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "toolglot.toml").write_text('[providers.anthropic]\nbase_url = "http://127.0.0.1:1"\n')
    said = found(capsys, configured(tmp_path))
    assert [one["key"] for one in said["held_back"]] == ["providers.anthropic.base_url"]
    assert "not trusted: run toolglot trust" in said["files"]["project file"]
    assert "Ignored until the directory is trusted" in text(capsys, read_configuration(directory=tmp_path))


def test_a_configuration_that_cannot_be_read_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    said = found(capsys, UsageError("/x/config.toml, line 3: unknown key 'modle'"), broken=True)
    assert said["problems"] == ["/x/config.toml, line 3: unknown key 'modle'"]
    assert said["settings"] == []


def test_keys_have_an_origin_and_no_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MY_GROQ", KEY)
    configuration = configured(
        tmp_path,
        f'[providers.groq]\nkey_env = "MY_GROQ"\n[providers.google]\nkey_env = "ABSENT"\n'
        f'[providers.anthropic.headers]\nx-team = "plain-looking"\nauthorization = "Bearer {KEY}"\n',
    )
    keys = found(capsys, configuration)["keys"]
    assert {id: origin for id, origin in keys.items() if origin} == {
        "openai-chat": "variable OPENAI_API_KEY",
        "openai-responses": "variable OPENAI_API_KEY",
        "anthropic": "variable ANTHROPIC_API_KEY",
        "groq": "variable MY_GROQ",
    }
    assert {*keys} == {*PROFILES}
    run_doctor(configuration, online=False, json=True)
    for said in (capsys.readouterr().out, text(capsys, configuration)):
        assert KEY not in said
        assert "plain-looking" not in said
        assert "openai-chat, openai-responses" in said or said.startswith("{")


@pytest.mark.parametrize(
    ("model", "key", "problem"),
    [
        ("anthropic:claude-opus-5", "", "set ANTHROPIC_API_KEY, or run toolglot login anthropic"),
        ("anthropic:claude-opus-5", KEY, None),
        ("antropic:claude-opus-5", KEY, "cannot be used: unknown provider 'antropic'"),
        ("ollama:qwen3", "", None),
        ("simulator", "", None),
    ],
)
def test_a_configured_model_that_cannot_be_asked_is_a_problem(
    model: str,
    key: str,
    problem: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    said = found(capsys, configured(tmp_path, f'model = "{model}"\n'), broken=problem is not None)
    assert problem is None or problem in said["problems"][0]


# ---- the audit log


def call(tool: str, outcome: str = "ok", seconds: float = 1.0, **more: Any) -> str:
    return json.dumps({"tool": tool, "outcome": outcome, "seconds": seconds, "ran": True, **more})


def test_the_audit_log_is_counted_by_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [call("read", seconds=n / 100) for n in range(1, 101)]
    lines += [call("write", "timeout", 9.0), call("write", "timeout", 9.0), call("write", "rejected", 0.0, ran=False)]
    lines += ["{damaged", "[]", '{"tool": 3}', ""]
    (tmp_path / "audit.jsonl").write_text("\n".join(lines))
    audit = found(capsys, configured(tmp_path))["audit"]
    assert audit["tools"] == [
        {"tool": "read", "calls": 100, "errors": {}, "p50": 0.5, "p95": 0.95},
        {"tool": "write", "calls": 3, "errors": {"timeout": 2, "rejected": 1}, "p50": 9.0, "p95": 9.0},
    ]
    assert (audit["damaged"], audit["whole"]) == (3, True)
    out = text(capsys, configured(tmp_path))
    assert "3 damaged lines were skipped" in out
    assert re.search(r"write +3 +3 +9.000 +9.000 +timeout 2, rejected 1", out)


def test_a_tool_that_never_ran_has_no_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.jsonl").write_text(call("x", "rejected", 0.0, ran=False))
    assert found(capsys, configured(tmp_path))["audit"]["tools"][0]["p50"] is None


def test_only_the_end_of_a_long_log_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [call("old"), *[call("new")] * 3]
    (tmp_path / "audit.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("toolglot.cli.diagnostics.MAX_LOG_BYTES", 3 * (len(lines[1]) + 1) + 5)
    audit = found(capsys, configured(tmp_path))["audit"]
    assert ([one["tool"] for one in audit["tools"]], audit["damaged"], audit["whole"]) == (["new"], 0, False)


@pytest.mark.parametrize(
    ("setting", "file", "said"),
    [
        ("audit = false", None, "audit log  off"),
        ("", "audit.jsonl", "no calls have been recorded yet"),
        ('audit = "other.jsonl"', "other.jsonl", "other.jsonl"),
    ],
)
def test_the_log_is_where_the_configuration_says(
    setting: str,
    file: str | None,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert found(capsys, configured(tmp_path, setting))["audit"]["file"] == (file and str(tmp_path / file))
    assert said in text(capsys, configured(tmp_path, setting))


def test_a_log_that_cannot_be_read_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    assert "cannot read" in found(capsys, configured(tmp_path), broken=True)["problems"][0]


def test_many_tools_with_hostile_names_stay_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = [call(f"\x1b[31m{'x' * 100}{n}") for n in range(30)]
    (tmp_path / "audit.jsonl").write_text("\n".join(lines))
    out = text(capsys, configured(tmp_path))
    assert "\x1b" not in out
    assert "and 10 more tools" in out
    assert max(map(len, out.splitlines())) <= 60


# ---- who answers


class Answering(BaseHTTPRequestHandler):
    """Says no to everything, and remembers it."""

    seen: list[tuple[str, str, dict[str, str]]]

    def do_GET(self) -> None:
        self.seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Answering.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_any_answer_means_that_a_provider_is_reached(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    address = f"http://127.0.0.1:{server.server_port}/v1"
    configuration = configured(tmp_path, f'[providers.openai]\nbase_url = "{address}"\n')
    (reached,) = found(capsys, configuration, online=True)["online"]
    assert reached["providers"] == ["openai-chat", "openai-responses"]
    assert (reached["address"], reached["status"], reached["problem"]) == (address, 404, None)
    assert 0 < reached["seconds"] < 10
    ((method, path, headers),) = Answering.seen
    assert (method, path) == ("GET", "/v1")
    assert KEY not in str(headers)
    assert "openai-chat, openai-responses: HTTP 404" in text(capsys, configuration, online=True)


def test_nobody_is_asked_unless_told_to(
    server: ThreadingHTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    address = f"http://127.0.0.1:{server.server_port}"
    assert found(capsys, configured(tmp_path, f'[providers.openai]\nbase_url = "{address}"\n'))["online"] is None
    assert found(capsys, configured(tmp_path), online=False)["online"] is None
    assert Answering.seen == []


def test_who_does_not_answer_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    configuration = configured(tmp_path, f'[providers.groq]\nbase_url = "http://127.0.0.1:{port}"\n')
    said = found(capsys, configuration, online=True, broken=True)
    assert said["problems"] == [f"groq: could not connect to 127.0.0.1:{port}: Connection refused"]
    assert "✗ groq: " in text(capsys, configuration, online=True)


def test_a_provider_without_its_place_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    said = found(capsys, configured(tmp_path), online=True, broken=True)
    assert {one["address"] for one in said["online"]} == {"https://{resource}.openai.azure.com"}
    assert all("AZURE_OPENAI_RESOURCE" in problem for problem in said["problems"])


def test_without_a_key_nobody_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys, configured(tmp_path), online=True)["online"] == []
    assert "no provider with a key was reached" in text(capsys, configured(tmp_path), online=True)


# ---- text


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_text_fits_the_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (tmp_path / "audit.jsonl").write_text(call("a_tool_of_some_length", "timeout"))
    out = text(capsys, configured(tmp_path, "[policy]\nmax_turns = 7\n[providers.anthropic]\nparallel = false\n"))
    assert max(map(len, out.splitlines())) <= columns
    assert "\x1b" not in out
    for title in ("Versions", "Extras", "Configuration", "Keys", "Sandbox", "Programs", "Tool calls"):
        assert f"{title}\n" in out
