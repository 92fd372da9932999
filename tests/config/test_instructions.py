"""AGENTS.md and skills: which ones are found, in which order, and that an untrusted directory has no say."""

import os
from pathlib import Path
from typing import Any

import pytest

from toolglot.common.skills import MAX_LIST_CHARS, Skill, render_skill_list
from toolglot.config.instructions import Instructions, load_instructions
from toolglot.config.settings import InstructionSettings
from toolglot.config.trust import refuse_trust, trust_directory

SETTINGS = InstructionSettings()
SKILL = "---\nname: {name}\ndescription: Works with {name}.\n---\n\nDo it.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A trusted repository with a directory `src/app` to work in."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src" / "app").mkdir(parents=True)
    trust_directory(project)
    return project


def add_skill(directory: Path, name: str, text: str = SKILL) -> None:
    path = directory / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(text.format(name=name))


def read(root: Path, **settings: Any) -> Instructions:
    return load_instructions(root, InstructionSettings(**settings))


def names(instructions: Instructions) -> list[str]:
    return [path.name for path in instructions.files]


class TestFiles:
    def test_the_outermost_comes_first_and_the_users_own_before_it(
        self, project: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "user").mkdir()
        for path, text in ((tmp_path / "user", "mine"), (project, "top"), (project / "src" / "app", "near")):
            (path / "AGENTS.md").write_text(text)
        (tmp_path / "AGENTS.md").write_text("above the repository")
        instructions = read(project / "src" / "app")
        assert list(instructions.files.values()) == ["mine", "top", "near"]
        prompt = instructions.compose("Be brief.") or ""
        assert prompt.startswith("Be brief.\n\nThe user has these instructions")
        assert f'<instructions path="{project}/AGENTS.md">\ntop\n</instructions>' in prompt
        assert "A subdirectory may have its own AGENTS.md" in prompt

    def test_others_are_used_where_there_is_no_agents_md(self, project: Path) -> None:
        (project / "GEMINI.md").write_text("gemini")
        (project / "CLAUDE.md").write_text("claude")
        (project / "src" / "GEMINI.md").write_text("below")
        assert names(read(project / "src")) == ["CLAUDE.md", "GEMINI.md"]
        (project / "AGENTS.md").write_text("agents")
        assert names(read(project / "src")) == ["AGENTS.md", "GEMINI.md"]
        assert names(read(project / "src", files=("GEMINI.md",))) == ["GEMINI.md", "GEMINI.md"]

    def test_only_the_workspace_counts_without_a_repository(self, tmp_path: Path) -> None:
        (root := tmp_path / "a" / "b").mkdir(parents=True)
        trust_directory(tmp_path)
        (tmp_path / "a" / "AGENTS.md").write_text("above")
        assert read(root) == Instructions()
        (root / "AGENTS.md").write_text("here")
        assert names(read(root)) == ["AGENTS.md"]

    def test_a_long_file_is_truncated_and_an_empty_one_left_out(self, project: Path) -> None:
        (project / "AGENTS.md").write_text("é" * 500)
        instructions = read(project, max_chars=100)
        assert (
            instructions.files[project / "AGENTS.md"]
            == f"{'é' * 100}\n[truncated: read {project}/AGENTS.md for the rest]"
        )
        assert instructions.problems == (
            f"'{project}/AGENTS.md' is truncated to 100 characters (instructions.max_chars)",
        )
        (project / "AGENTS.md").write_text(" \n")
        assert read(project).compose(None) is None

    @pytest.mark.skipif(os.name != "posix", reason="links and pipes")
    def test_a_link_out_of_the_project_and_a_pipe_are_not_read(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("the key")
        (project / "AGENTS.md").symlink_to(tmp_path / "secret")
        os.mkfifo(project / "src" / "AGENTS.md")
        instructions = read(project / "src")
        assert not instructions.files
        assert "it is a symbolic link to a file outside" in instructions.problems[0]
        (project / "AGENTS.md").unlink()
        (project / "CLAUDE.md").write_text("claude")
        (project / "AGENTS.md").symlink_to("CLAUDE.md")
        assert list(read(project).files.values()) == ["claude"]


class TestTrust:
    def test_nothing_of_an_untrusted_directory_is_used(self, project: Path) -> None:
        app = project / "src" / "app"
        (project / "AGENTS.md").write_text("top")
        (app / "AGENTS.md").write_text("near")
        add_skill(app / ".agents" / "skills", "evil")
        refuse_trust(project / "src")
        instructions = read(app)
        assert list(instructions.files.values()) == ["top"]
        assert instructions.skills == ()
        assert instructions.withheld == {app / "AGENTS.md": app, app / ".agents" / "skills": app}
        assert "evil" not in (instructions.compose("x") or "")

    def test_it_can_be_switched_off(self, project: Path) -> None:
        (project / "AGENTS.md").write_text("top")
        add_skill(project / ".agents" / "skills", "pdf")
        assert read(project, enabled=False) == Instructions()
        assert read(project, skills=False).skills == ()


class TestSkills:
    def test_the_projects_own_come_before_the_users(self, project: Path, tmp_path: Path) -> None:
        add_skill(project / "src" / ".claude" / "skills", "pdf")
        add_skill(project / ".agents" / "skills", "pdf")
        add_skill(project / ".toolglot" / "skills", "notes")
        add_skill(tmp_path / ".agents" / "skills", "pdf")
        add_skill(tmp_path / ".claude" / "skills", "mine")
        instructions = read(project / "src")
        assert [(skill.name, skill.origin) for skill in instructions.skills] == [
            ("pdf", "project"),
            ("notes", "project"),
            ("mine", "user"),
        ]
        assert instructions.skills[0].directory == project / "src" / ".claude" / "skills" / "pdf"
        assert len(instructions.problems) == 1
        assert "has the same name" in instructions.problems[0]
        assert instructions.render_skills().endswith(
            "- pdf: Works with pdf.\n- notes: Works with notes.\n- mine: Works with mine."
        )
        assert instructions.unlist_skills().compose(None) is None
        assert list(instructions.estimate_tokens(lambda tokens: tokens)) == ["the list of skills"]
        assert instructions.unlist_skills().estimate_tokens(lambda tokens: tokens) == {}

    @pytest.mark.skipif(os.name != "posix", reason="links")
    def test_a_link_out_of_the_project_is_left_out(self, project: Path, tmp_path: Path) -> None:
        add_skill(tmp_path / "elsewhere", "pdf")
        (project / ".agents" / "skills").mkdir(parents=True)
        (project / ".agents" / "skills" / "pdf").symlink_to(tmp_path / "elsewhere" / "pdf")
        instructions = read(project)
        assert instructions.skills == ()
        assert "it is a symbolic link out of the project" in instructions.problems[0]

    def test_many_skills_have_shorter_descriptions(self) -> None:
        skills = [
            Skill(name=f"s{number}", description="word " * 100, directory=Path()) for number in range(100)
        ]
        text = render_skill_list(skills)
        assert len(text) <= MAX_LIST_CHARS
        assert text.count("\n") == 99
        many = render_skill_list(
            Skill(name=f"s{n}-{'x' * 50}", description="d", directory=Path()) for n in range(500)
        )
        assert many.endswith(" more)")
        assert len(many) <= MAX_LIST_CHARS + 30
