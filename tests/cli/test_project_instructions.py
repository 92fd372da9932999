"""AGENTS.md and skills on the command line: what reaches the model, what is asked, and what is shown."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.cli_kit import Capture, run_cli

from toolglot.cli.startup import CliSetup, Flags, prepare
from toolglot.config.trust import is_trusted, trust_directory

SKILL = "---\nname: notes\ndescription: Writes notes.\n---\n\nWrite them.\n"


@pytest.fixture
def project(isolated_home: Path) -> Path:
    """A project with instructions and a skill, and the user's own instructions."""
    (isolated_home / ".git").mkdir()
    (isolated_home / "AGENTS.md").write_text("Use tabs.")
    (isolated_home / "user" / "AGENTS.md").write_text("Answer in Latin.")
    (skill := isolated_home / ".agents" / "skills" / "notes").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    return isolated_home


def prompt_of(cli_setup: CliSetup) -> str:
    """What the model is told."""
    with cli_setup:
        body = asyncio.run(cli_setup.create_agent(approve=None).preview_request()).body
    return body.decode()


@pytest.mark.parametrize("answer", [True, False])
def test_the_user_is_asked_once(project: Path, answer: bool, capsys: Capture) -> None:
    questions: list[str] = []

    def confirm(question: str) -> bool:
        questions.append(question)
        return answer

    for _ in range(2):
        prompt = prompt_of(prepare(Flags(builtin=True), confirm=confirm))
        assert "Answer in Latin." in prompt
        assert (
            ("Use tabs." in prompt) is ("- notes: Writes notes." in prompt) is ('"Skill"' in prompt) is answer
        )
    assert questions == [f"Do you trust {project}?"]
    assert is_trusted(project) is answer
    out, err = capsys.readouterr()
    shown = "".join(out.replace("↪", "").split())
    assert f"{project}/AGENTS.mdhasinstructionsforthemodel" in shown
    assert f"{project}/.agents/skillshasinstructionsforthemodel" in shown
    note = (
        f"ignoring {project}/AGENTS.md, {project}/.agents/skills: the directory is not trusted (run "
        f"`toolglot trust {project}`)"
    )
    assert (note in err) is not answer


def test_two_directories_are_one_question(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (project / "toolglot.toml").write_text('tools = ["x.py"]\n')
    (root := tmp_path_factory.mktemp("root") / "AGENTS.md").write_text("Use spaces.")
    questions: list[str] = []
    prepare(Flags(root=root.parent), confirm=lambda question: bool(questions.append(question)))
    assert questions == [f"Do you trust {project} and {root.parent}?"]


def test_a_damaged_list_of_trusted_directories_is_a_problem_only_where_it_counts(project: Path) -> None:
    (project / "state").mkdir()
    (project / "state" / "trust.json").write_text("{")
    assert "is damaged" in run_cli("run", "hi").err
    outcome = run_cli("doctor", "--json")
    assert any("is damaged" in problem for problem in json.loads(outcome.out)["problems"])
    (project / "AGENTS.md").unlink()
    (project / ".agents").rename(project / "agents")
    assert run_cli("run", "hi").code == 0


def test_a_skill_is_loaded_in_a_run(project: Path) -> None:
    trust_directory(project)
    outcome = run_cli(
        "run",
        "--builtin",
        "-m",
        "simulator:anthropic/claude-opus-4-8",
        'call Skill {"skill": "notes"}',
        "--json",
    )
    assert outcome.code == 0
    assert "Base directory for this skill: .agents/skills/notes\\n\\nWrite them." in outcome.out
    assert "ignoring" not in outcome.err


def test_they_can_be_switched_off(project: Path) -> None:
    trust_directory(project)
    prompt = prompt_of(prepare(Flags(builtin=True, no_instructions=True)))
    assert "Latin" not in prompt
    assert "- notes:" not in prompt


def test_models_without_the_tool_are_told_of_no_skills(project: Path) -> None:
    trust_directory(project)
    for flags in (
        Flags(builtin=False),
        Flags(builtin=True, allow=("read",)),
        Flags(builtin=True, deny=("Skill",)),
    ):
        prompt = prompt_of(prepare(flags))
        assert "Use tabs." in prompt
        assert "- notes:" not in prompt


def test_trust_and_doctor_tell_of_them(project: Path) -> None:
    report = json.loads(run_cli("doctor", "--json").out)["instructions"]
    assert report[f"{project}/AGENTS.md"] == "ignored: the directory is not trusted"
    trusted = run_cli("trust", str(project))
    assert f"{project}/AGENTS.md has instructions for models\n" in trusted.out
    report = json.loads(run_cli("doctor", "--json").out)["instructions"]
    assert report[f"{project}/AGENTS.md"] == "9 characters"
    assert report["skill notes"] == f"project: {project}/.agents/skills/notes"
    assert "AGENTS.md is now ignored" in run_cli("trust", "--remove", str(project)).out
    assert "skill notes" not in run_cli("doctor").out


def test_a_chat_shows_them_and_sends_a_skill(project: Path) -> None:
    trust_directory(project)
    (project / ".agents" / "skills" / "broken").mkdir()
    (project / ".agents" / "skills" / "broken" / "SKILL.md").write_text("nothing")
    outcome = run_cli(
        "chat", "--builtin", stdin="/context\n/skills\n/skills notes\n/skills nots\nhello\n/quit\n"
    )
    assert f"instructions: 3 tokens from {project}/AGENTS.md" in outcome.out
    assert "tokens from the list of skills" in outcome.out
    assert "notes  Writes notes." in outcome.out
    assert outcome.out.count("is left out: its SKILL.md has no front matter") == 1
    assert "is left out: its SKILL.md has no front matter" in outcome.err
    assert "the skill notes will be sent with the next prompt" in outcome.out
    assert "attached: skill notes in" in outcome.out
    assert "did you mean 'notes'" in outcome.out
    assert (
        "no skills: add directories"
        in run_cli("chat", stdin="/skills\n/quit\n", TOOLGLOT_INSTRUCTIONS_SKILLS="false").out
    )
    for words in (["--no-builtin"], ["--builtin", "--deny", "load_skill"]):
        outcome = run_cli("chat", *words, stdin="/context\n/skills\n/skills notes\n/quit\n")
        assert "models cannot see the skills" in outcome.out
        assert "tokens from the list of skills" not in outcome.out
        assert "the skill notes will be sent" in outcome.out
