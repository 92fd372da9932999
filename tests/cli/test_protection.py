"""How well commands are confined is said at the start and in results; without any sandbox, `--yes` is not
enough.
"""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tests.cli.cli_kit import Patch, run_cli

from toolglot.confine import sandbox_probe
from toolglot.confine.programs import find_program
from toolglot.confine.sandbox import SandboxLevel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are sandboxed on Linux only")

PROBE = sandbox_probe.probe_level
COMMAND = json.dumps({"command": "id > ran; echo done"})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: Patch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path / "project"


def _break_sandboxes(monkeypatch: Patch, *levels: SandboxLevel) -> None:
    def probe(level: SandboxLevel, bubblewrap: str | None = None) -> str:
        return "it is broken" if level in levels else PROBE(level, bubblewrap)

    monkeypatch.setattr(sandbox_probe, "probe_level", probe)


class TestWithoutSandbox:
    @pytest.fixture(autouse=True)
    def without_sandbox(self, project: Path, monkeypatch: Patch) -> None:
        _break_sandboxes(monkeypatch, SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK)

    def test_yes_is_not_enough_for_a_call(self, project: Path) -> None:
        outcome = run_cli("call", "shell", COMMAND, "--yes")
        assert outcome.code == 1
        assert "no sandbox works here, so you are asked about each command: it is broken" in outcome.err
        assert "--yes does not cover this" in outcome.err
        assert "--no-sandbox" in outcome.err
        assert not (project / "ran").exists()

    def test_yes_is_not_enough_for_a_run(self, project: Path) -> None:
        run_cli(
            "run", f"call shell {COMMAND}", "-m", "simulator", "--builtin", "--facade", "neutral", "--yes"
        )
        assert not (project / "ran").exists()

    def test_a_rule_is_not_enough(self, project: Path, monkeypatch: Patch) -> None:
        words = ("call", "shell", '{"command": "touch ran"}', "--approve", "shell(touch *)")
        assert (run_cli(*words).code, (project / "ran").exists()) == (1, False)
        if not PROBE(SandboxLevel.BUBBLEWRAP):  # with a sandbox it is
            _break_sandboxes(monkeypatch)
            assert (run_cli(*words).code, (project / "ran").exists()) == (0, True)

    def test_the_user_can_answer(self, project: Path) -> None:
        outcome = run_cli("call", "shell", COMMAND, stdin="y\n", is_terminal=True)
        assert (outcome.code, (project / "ran").exists()) == (0, True)
        assert "sandbox: none" in outcome.out

    @pytest.mark.parametrize("words", [("--no-sandbox", "--yes"), ("--yes",)])
    def test_the_user_can_allow_it(self, project: Path, words: tuple[str, ...], monkeypatch: Patch) -> None:
        if "--no-sandbox" not in words:
            monkeypatch.setenv("TOOLGLOT_BUILTIN_SANDBOX", "false")
        outcome = run_cli("call", "shell", COMMAND, *words)
        assert (outcome.code, (project / "ran").exists()) == (0, True)
        assert "commands run without a sandbox, with all your rights" in outcome.err
        assert outcome.out == "done\n[sandbox: none]\n"

    def test_a_project_cannot_allow_it(self, project: Path) -> None:
        (project / "toolglot.toml").write_text("[builtin]\nsandbox = false\n")
        outcome = run_cli("call", "shell", COMMAND, "--yes")
        assert (outcome.code, (project / "ran").exists()) == (1, False)
        assert "ignoring builtin.sandbox" in outcome.err


@pytest.mark.parametrize("begin", ["/new", "/load saved.jsonl"])
def test_background_commands_end_with_their_conversation(project: Path, begin: str) -> None:
    lines = [
        "say hello",
        "/save saved.jsonl",
        'call shell {"command": "sleep 31413", "background": true} call todo {"items": [{"text": "go", '
        '"status": "pending"}]}',
        "y",
        'call shell_list {"": 0}',
        begin,
        'call shell_list {"": 1}',
        'call todo {"": 1}',
    ]
    outcome = run_cli("chat", "-m", "simulator", "--builtin", "--facade", "neutral", stdin="\n".join(lines))
    before, _, after = outcome.out.partition(
        "started a new conversation" if begin == "/new" else "loaded 2 messages"
    )
    assert "running for" in before
    assert "There are no background commands" in after
    assert "[ ]" not in after


def test_a_weaker_sandbox_is_reported(project: Path, monkeypatch: Patch) -> None:
    if reason := PROBE(SandboxLevel.LANDLOCK):
        pytest.skip(reason)
    _break_sandboxes(monkeypatch, SandboxLevel.BUBBLEWRAP)
    outcome = run_cli("call", "shell", COMMAND, "--yes")
    assert outcome.code == 0
    assert (
        "commands run in a weaker sandbox (Landlock), as bubblewrap cannot be used: it is broken"
        in outcome.err
    )
    assert outcome.out == "done\n[sandbox: Landlock, weaker than bubblewrap]\n"
    (project / "a.txt").write_text("one")
    assert run_cli("call", "read", '{"path": "a.txt"}').err == ""
    assert run_cli("tools").err == ""
    assert (
        "weaker sandbox"
        in run_cli("call", "Bash", COMMAND, "--explain", "-m", "anthropic:claude-sonnet-5").err
    )
    assert "weaker sandbox" in run_cli("run", "hi", "-m", "simulator", "--builtin").err
    assert "weaker sandbox" in run_cli("chat", "-m", "simulator", "--builtin", stdin="/quit\n").err


def test_nothing_is_said_about_the_best_sandbox(project: Path) -> None:
    if reason := PROBE(SandboxLevel.BUBBLEWRAP):
        pytest.skip(reason)
    outcome = run_cli("call", "shell", COMMAND, "--yes")
    assert (outcome.code, outcome.out, outcome.err) == (0, "done\n", "")


def test_doctor_reports_that_the_user_wants_no_sandbox(project: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("TOOLGLOT_BUILTIN_SANDBOX", "false")
    assert "unconfined: builtin.sandbox is false" in run_cli("doctor").out


def test_a_broken_bubblewrap_does_not_hide_the_next(project: Path, tmp_path: Path) -> None:
    if reason := PROBE(SandboxLevel.BUBBLEWRAP):
        pytest.skip(reason)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    outcome = run_cli("call", "shell", COMMAND, "--yes", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (outcome.code, outcome.out, outcome.err) == (0, "done\n", "")


@pytest.mark.parametrize("level", [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK])
def test_a_poor_path_is_not_taken_for_a_broken_sandbox(
    level: SandboxLevel, tmp_path: Path, monkeypatch: Patch
) -> None:
    if reason := PROBE(level):
        pytest.skip(reason)
    bubblewrap = find_program("bwrap") or ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert PROBE.__wrapped__(level, bubblewrap) == ""  # not from the cache


class TestApprovalMode:
    @pytest.mark.parametrize("level", [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK])
    def test_what_the_sandbox_confines_runs_unasked(
        self, project: Path, level: SandboxLevel, monkeypatch: Patch
    ) -> None:
        if reason := PROBE(level):
            pytest.skip(reason)
        if level is SandboxLevel.LANDLOCK:
            _break_sandboxes(monkeypatch, SandboxLevel.BUBBLEWRAP)
        words = ("call", "shell", COMMAND)
        assert run_cli(*words).code == 1
        outcome = run_cli(*words, "--approval-mode", "sandboxed")
        assert (outcome.code, outcome.out.splitlines()[0], (project / "ran").exists()) == (0, "done", True)
        escaping = ("call", "shell", '{"command": "touch left", "escalate": true}')
        ways = "shell needs approval (use --approve RULE, or --yes)"  # not the mode: it would not help
        assert ways in run_cli(*escaping, "--approval-mode", "sandboxed").err
        assert ways in run_cli(*escaping).err
        assert ways in run_cli(*words, "--no-sandbox").err
        assert ways in run_cli(*words, TOOLGLOT_POLICY_ASK="execute").err
        assert not (project / "left").exists()

    @pytest.mark.parametrize(("words", "problem"), [
        ((), "needs a sandbox, and none works here: it is broken; it is broken"),
        (("--no-sandbox",), "needs the sandbox: remove --no-sandbox, or use --approval-mode ask"),
    ])  # fmt: skip
    def test_it_needs_a_sandbox(
        self, project: Path, words: tuple[str, ...], problem: str, monkeypatch: Patch
    ) -> None:
        _break_sandboxes(monkeypatch, SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK)
        for command in (
            ("call", "shell", COMMAND),
            ("run", "hi", "-m", "simulator"),
            ("chat", "-m", "simulator"),
        ):
            outcome = run_cli(*command, "--approval-mode", "sandboxed", *words)
            assert (outcome.code, outcome.err) == (2, f"toolglot: the approval mode 'sandboxed' {problem}\n")
        assert not (project / "ran").exists()

    def test_an_untrusted_project_cannot_choose_it(self, project: Path) -> None:
        (project / "toolglot.toml").write_text('[policy]\nmode = "sandboxed"\n')
        outcome = run_cli("call", "shell", COMMAND)
        assert (outcome.code, (project / "ran").exists()) == (1, False)
        assert "ignoring policy.mode" in outcome.err
