"""`toolglot doctor`: what there is, where it comes from, what is broken; never a key."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import Patch, run_cli

from toolglot.cli.probes import EXTRAS
from toolglot.providers.catalog import PROFILES

KEY = "sk-ant-api03-0123456789abcdef"
ROOT = Path(__file__).parents[2]


class Doctor:
    """Runs the command in a directory without settings, keys, programs, sign-ins and keyring."""

    def __init__(self, directory: Path, monkeypatch: Patch) -> None:
        self.directory, self.columns, self.setenv = directory, 80, monkeypatch.setenv
        variables = {name for row in PROFILES.values() for name in row.base_env}
        for name in variables | {
            name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_", "IDENTITY_", "MSI_"))
        }:
            monkeypatch.delenv(name, raising=False)
        self.setenv("TOOLGLOT_STATE", str(directory))
        self.setenv("TOOLGLOT_CONFIG", str(directory / "config.toml"))
        self.setenv("PATH", str(directory / "bin"))
        monkeypatch.setattr("toolglot.confine.programs.SYSTEM_DIRECTORIES", ())
        monkeypatch.setattr("toolglot.engine.auth.load_key", lambda _account: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    def configure(self, text: str) -> "Doctor":
        (self.directory / "config.toml").write_text(text)
        return self

    def write_audit(self, *lines: str) -> None:
        (self.directory / "audit.jsonl").write_text("\n".join(lines))

    def report(self, *flags: str, broken: bool = False) -> dict[str, Any]:
        outcome = run_cli("doctor", "--json", *flags)
        (report,) = outcome.records()
        assert (outcome.code, outcome.err, bool(report["problems"])) == (int(broken), "", broken)
        return report

    def text(self, *flags: str) -> str:
        return run_cli("doctor", *flags, COLUMNS=str(self.columns)).out


@pytest.fixture
def doctor(isolated_home: Path, monkeypatch: Patch) -> Doctor:
    return Doctor(isolated_home, monkeypatch)


def test_versions_of_packages(doctor: Doctor) -> None:
    versions = doctor.report()["versions"]
    assert list(versions)[:3] == ["toolglot", "python", "platform"]
    assert {"msgspec", "aiohttp"} <= {*versions}
    assert all(re.match(r"\d", version) for name, version in versions.items() if name != "platform")


def test_missing_package_is_a_problem(doctor: Doctor, monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        "importlib.metadata.requires",
        lambda _name: ["no-such-package>=1", "other; extra == 'x'"],  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    )
    report = doctor.report(broken=True)
    assert report["problems"] == ["package no-such-package is missing: reinstall toolglot"]
    assert "other" not in report["versions"]


def test_missing_extra_is_not_a_problem(doctor: Doctor, monkeypatch: Patch) -> None:
    monkeypatch.setitem(EXTRAS, "azure", (("no-such-package",), "sign in"))
    assert doctor.report()["extras"]["azure"] is None
    assert "not installed; to sign in: pip install 'toolglot[azure]'" in doctor.text()


def test_extras_match_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for_users = {
        name: packages for name, packages in project.items() if name not in ("test", "check", "dev", "all")
    }
    assert {*EXTRAS} == {*for_users}
    for name, (packages, _) in EXTRAS.items():
        assert list(packages) == [re.split(r"[^\w-]", line, maxsplit=1)[0] for line in for_users[name]]


def test_programs_are_found_but_not_started(doctor: Doctor, monkeypatch: Patch) -> None:
    directory, work = doctor.directory / "bin", doctor.directory / "work"
    for folder in (directory, work / "bin"):
        folder.mkdir(parents=True)
        for name in ("git", "google-chrome", "bwrap"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {doctor.directory}/started\n")
            (folder / name).chmod(0o755)
    (directory / "bwrap").unlink()
    monkeypatch.chdir(work)
    doctor.setenv("PATH", f"{work / 'bin'}:{directory}")
    report = doctor.report()
    assert report["programs"] == {
        "rg": None,
        "git": str(directory / "git"),
        "chromium": str(directory / "google-chrome"),
    }
    assert report["sandbox"]["bubblewrap"] == "not found"
    assert not (doctor.directory / "started").exists()


def test_tools_that_are_not_offered(doctor: Doctor, monkeypatch: Patch) -> None:
    monkeypatch.setattr("toolglot.builtin.web.browser._INSTALL_PATHS", ())
    search = "no search service is configured"
    parser = "code cannot be parsed: run `pip install 'toolglot[ast]'`"
    tools = doctor.report()["tools"]
    assert tools.pop("web_search").startswith(f"not offered: {search}: set BRAVE_API_KEY")
    assert tools == {
        "web_open": "opens pages without running their scripts: no Chrome or Chromium is installed outside "
        "the workspace"
    }
    for name in ("ast_grep_py", "playwright"):
        monkeypatch.setitem(sys.modules, name, None)
    doctor.setenv("BRAVE_API_KEY", KEY)
    assert doctor.report()["tools"] == {
        "ast_search": f"not offered: {parser}",
        "ast_rewrite": f"not offered: {parser}",
        "web_open": "opens pages without running their scripts: playwright is not installed outside the "
        "workspace "
        "(pip install 'toolglot[web]')",
    }
    assert "Built-in tools\n  ast_search   not offered: code cannot be parsed:" in doctor.text()


@pytest.mark.parametrize(
    ("level", "run", "reasons"),
    [
        (2, "in bwrap+seccomp", {}),
        (1, "in landlock+seccomp", {"no bwrap+seccomp": "no permissions"}),
        (
            0,
            "unconfined: each one needs approval",
            {"no bwrap+seccomp": "not found", "no landlock+seccomp": "off"},
        ),
    ],
)
def test_sandbox(doctor: Doctor, level: int, run: str, reasons: dict[str, str], monkeypatch: Patch) -> None:
    labels = ("none", "landlock+seccomp", "bwrap+seccomp")
    report = {
        "level": level,
        "sandbox": labels[level],
        "reasons": {name.removeprefix("no "): reason for name, reason in reasons.items()},
        "bwrap": "/usr/bin/bwrap" if level == 2 else None,
        "landlock": 7 if level else 0,
        "limits": {"processes": "cgroup", "memory": "cgroup"},
        "gaps": [] if level == 2 else ["others can be seen"],
    }

    def describe(_roots: object) -> dict[str, Any]:
        return report

    monkeypatch.setattr("toolglot.cli.probes.describe_sandbox", describe)
    sandbox = doctor.report()["sandbox"]
    assert sandbox["commands run"] == run
    assert {name: reason for name, reason in sandbox.items() if name.startswith("no ")} == reasons
    assert sandbox.get("gaps") == (None if level == 2 else "others can be seen")


def test_changed_settings_have_an_origin(doctor: Doctor) -> None:
    report = doctor.configure("[limits]\nmax_iterations = 7\n").report()
    origin = f"user file {doctor.directory}/config.toml"
    assert report["settings"] == [{"key": "limits.max_iterations", "value": "7", "origin": origin}]
    assert report["files"] == {"user file": f"{doctor.directory}/config.toml"}


def test_default_settings(doctor: Doctor) -> None:
    doctor.columns = 300
    out = doctor.text()
    assert f"user file  {doctor.directory}/config.toml (does not exist)" in out
    assert "settings   all defaults" in out
    assert "no problems found" in out


def test_ignored_settings_of_an_untrusted_project(doctor: Doctor) -> None:
    (doctor.directory / "toolglot.toml").write_text(
        '[providers.anthropic]\nbase_url = "http://127.0.0.1:1"\n'
    )
    report = doctor.report()
    assert [entry["key"] for entry in report["held_back"]] == ["providers.anthropic.base_url"]
    assert "not trusted: run toolglot trust" in report["files"]["project file"]
    assert "Ignored until the directory is trusted" in doctor.text()


def test_unreadable_configuration_is_a_problem(doctor: Doctor) -> None:
    report = doctor.configure("modle = 1").report(broken=True)
    assert "there is no setting 'modle'" in report["problems"][0]
    assert report["settings"] == []


def test_keys_are_never_shown(doctor: Doctor) -> None:
    doctor.setenv("ANTHROPIC_API_KEY", KEY)
    doctor.setenv("OPENAI_API_KEY", KEY)
    doctor.setenv("MY_GROQ", KEY)
    doctor.configure(
        f'[providers.groq]\nkey_env = "MY_GROQ"\n[providers.google]\nkey_env = "ABSENT"\n'
        f'[providers.anthropic.headers]\nx-team = "plain-looking"\nauthorization = "Bearer {KEY}"\n'
    )
    keys = doctor.report()["keys"]
    assert {id: origin for id, origin in keys.items() if origin} == {
        "openai-chat": "variable OPENAI_API_KEY",
        "openai-responses": "variable OPENAI_API_KEY",
        "anthropic": "variable ANTHROPIC_API_KEY",
        "groq": "variable MY_GROQ",
    }
    assert {*keys} == {*PROFILES}
    for dump in (json.dumps(doctor.report()), doctor.text()):
        assert KEY not in dump
        assert "plain-looking" not in dump
    assert "openai-chat, openai-responses" in doctor.text()


@pytest.mark.parametrize(
    ("model", "key", "problem"),
    [
        (
            "anthropic:claude-opus-5",
            "",
            "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or store a key with toolglot login anthropic",
        ),
        ("anthropic:claude-opus-5", KEY, None),
        ("antropic:claude-opus-5", KEY, "cannot be used: unknown provider 'antropic'"),
        ("ollama:qwen3", "", None),
        ("simulator", "", None),
    ],
)
def test_unusable_model_is_a_problem(doctor: Doctor, model: str, key: str, problem: str | None) -> None:
    doctor.setenv("ANTHROPIC_API_KEY", key)
    report = doctor.configure(f'model = "{model}"\n').report(broken=problem is not None)
    assert problem is None or problem in report["problems"][0]


def call(tool: str, outcome: str = "ok", seconds: float = 1.0, **options: Any) -> str:
    return json.dumps({"tool": tool, "outcome": outcome, "seconds": seconds, "ran": True, **options})


def test_statistics_by_tool(doctor: Doctor) -> None:
    lines = [call("read", seconds=n / 100) for n in range(1, 101)]
    lines += [
        call("write", "timeout", 9.0),
        call("write", "timeout", 9.0),
        call("write", "rejected", 0.0, ran=False),
    ]
    lines += ["{damaged", "[]", '{"tool": 3}', ""]
    doctor.write_audit(*lines)
    audit = doctor.report()["audit"]
    assert audit["tools"] == [
        {"tool": "read", "calls": 100, "errors": {}, "p50": 0.5, "p95": 0.95},
        {"tool": "write", "calls": 3, "errors": {"timeout": 2, "rejected": 1}, "p50": 9.0, "p95": 9.0},
    ]
    assert (audit["damaged"], audit["whole"]) == (3, True)
    out = doctor.text()
    assert "3 damaged lines were skipped" in out
    assert re.search(r"write +3 +3 +9.000 +9.000 +timeout 2, rejected 1", out)


def test_only_the_end_of_a_long_log_is_read(doctor: Doctor, monkeypatch: Patch) -> None:
    lines = [call("old"), *[call("new", "rejected", ran=False)] * 3]
    doctor.write_audit(*lines)
    monkeypatch.setattr("toolglot.cli.audit_summary.MAX_LOG_BYTES", 3 * (len(lines[1]) + 1) + 5)
    audit = doctor.report()["audit"]
    # A tool that never ran has no percentiles.
    assert audit["tools"] == [
        {"tool": "new", "calls": 3, "errors": {"rejected": 3}, "p50": None, "p95": None}
    ]
    assert (audit["damaged"], audit["whole"]) == (0, False)


@pytest.mark.parametrize(
    ("setting", "file", "expected"),
    [
        ("audit = false", None, "audit log  off"),
        ("", "audit.jsonl", "no calls have been recorded yet"),
        ('audit = "other.jsonl"', "other.jsonl", "other.jsonl"),
    ],
)
def test_location_of_the_audit_log(doctor: Doctor, setting: str, file: str | None, expected: str) -> None:
    doctor.columns = 300
    assert doctor.configure(setting).report()["audit"]["file"] == (file and str(doctor.directory / file))
    assert expected in doctor.configure(setting).text()


def test_a_directory_that_cannot_be_written_is_a_problem(doctor: Doctor) -> None:
    (doctor.directory / "file").write_text("")
    doctor.setenv("TOOLGLOT_STATE", str(doctor.directory / "file" / "state"))
    problem = (
        f"cannot write to the directory '{doctor.directory}/file/state': set TOOLGLOT_STATE to use "
        "another one"
    )
    assert problem in doctor.report(broken=True)["problems"]


def test_unreadable_audit_log_is_a_problem(doctor: Doctor) -> None:
    (doctor.directory / "audit.jsonl").mkdir()
    assert "cannot read" in doctor.report(broken=True)["problems"][0]


def test_hostile_tool_names_are_escaped(doctor: Doctor) -> None:
    doctor.columns = 60
    lines = [call(f"\x1b[31m{'x' * 100}{n}") for n in range(30)]
    doctor.write_audit(*lines)
    out = doctor.text()
    assert "\x1b" not in out
    assert "and 10 more tools" in out
    assert max(map(len, out.splitlines())) <= 60


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_text_fits_the_terminal(doctor: Doctor, columns: int) -> None:
    doctor.columns = columns
    doctor.setenv("ANTHROPIC_API_KEY", KEY)
    doctor.write_audit(call("a_tool_of_some_length", "timeout"))
    out = doctor.configure("[limits]\nmax_iterations = 7\n[providers.anthropic]\nparallel = false\n").text()
    assert max(map(len, out.splitlines())) <= columns
    assert "\x1b" not in out
    for title in ("Versions", "Extras", "Configuration", "Keys", "Sandbox", "Programs", "Tool calls"):
        assert f"{title}\n" in out
