"""Existing instructions for coding agents: AGENTS.md files and Agent Skills.

A project's are used only if the user trusts their directory, because anybody may have written them. They are
searched for from the workspace up to the root of its Git repository, or only in the workspace if there is
none. The user's own are always used.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from toolglot.common.regular_files import read_regular_file
from toolglot.common.skills import Skill, find_skills, render_skill_list
from toolglot.common.user_dirs import config_file
from toolglot.config.settings import InstructionSettings
from toolglot.config.trust import is_trusted
from toolglot.providers.tokens import estimate_text

__all__ = ["Instructions", "load_instructions", "read_instructions"]

USER_FILE = "AGENTS.md"
NAMES, MAX_CHARS = InstructionSettings().files, InstructionSettings().max_chars
SKILL_DIRECTORIES = (".toolglot/skills", ".agents/skills", ".claude/skills")
"""In a project's directory or the user's home directory; if two skills have the same name, the first is
used."""
_HEADING = (
    "The user has these instructions for coding agents. Follow them. If they conflict, later ones take "
    "precedence, and what "
    "the user says in this conversation overrides all of them."
)
_NESTED = "A subdirectory may have its own {name}: read it before you work there."
_SKILLS_HEADING = (
    "These skills are instructions for specific tasks. When a task matches one, load it by name with the "
    "skill tool before you "
    "begin, and follow it."
)


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's and the project's instructions for coding agents."""

    files: dict[Path, str] = {}
    """Path -> text, in prompt order: the user's own, then the project's, outermost first."""
    skills: tuple[Skill, ...] = ()
    """The skills of the user and of the project."""
    withheld: dict[Path, Path] = {}
    """Ignored files and skill directories -> the untrusted directory they belong to."""
    problems: tuple[str, ...] = ()
    """What cannot be used, and why."""
    project_names: tuple[str, ...] = ()
    """The names of a project's instruction files."""

    def compose(self, system: str | None) -> str | None:
        """Return a system prompt with the instructions."""
        parts = (system, self.render_files(), self.render_skills())
        return "\n\n".join(part for part in parts if part) or system

    def render_files(self) -> str:
        """Return the part of the prompt that contains the files; "" if there are none."""
        if not self.files:
            return ""
        parts = [_HEADING]
        parts += [
            f'<instructions path="{path}">\n{text}\n</instructions>' for path, text in self.files.items()
        ]
        if self.project_names:
            parts.append(_NESTED.format(name=self.project_names[0]))
        return "\n\n".join(parts)

    def render_skills(self) -> str:
        """Return the part of the prompt that lists the skills; "" if there are none."""
        skills = render_skill_list(self.skills)
        return f"{_SKILLS_HEADING}\n\n{skills}" if skills else ""

    def unlist_skills(self) -> "Instructions":
        """Return a copy for a model that has no tool to load skills, which does not list them."""
        return replace(self, skills=tuple(replace(skill, is_listed=False) for skill in self.skills))

    def estimate_tokens(self, scale: Callable[[int], int]) -> dict[str, int]:
        """Return how many tokens each part of the prompt has, by its source.

        `scale`: turns an estimate into the tokens of a model (`AgentView.scale_tokens`).
        """
        texts = {str(path): text for path, text in self.files.items()} | {
            "the list of skills": self.render_skills()
        }
        return {source: scale(estimate_text(text)) for source, text in texts.items() if text}


def load_instructions(root: Path, settings: InstructionSettings) -> Instructions:
    """Return a workspace's instructions, as the settings allow. Raises MalformedData, UsageError."""
    if not settings.enabled:
        return Instructions()
    return read_instructions(root, names=settings.files, max_chars=settings.max_chars, skills=settings.skills)


def read_instructions(
    root: str | Path = ".", *, names: Sequence[str] = NAMES, max_chars: int = MAX_CHARS, skills: bool = True
) -> Instructions:
    """Read the instructions and find the skills for a workspace. Raises MalformedData, UsageError.

    Args:
        root: The workspace.
        names: Names of instruction files; in each directory, the first that exists is used.
        max_chars: Maximum characters per file.
        skills: Whether to find skills.
    """
    try:
        root = Path(os.path.realpath(Path(root).expanduser()))
    except OSError:  # the current directory is gone
        return Instructions()
    directories = _project_directories(root)
    top = directories[0]
    # File or skill directory -> the directory it belongs to.
    found_files = _find_files(directories, names)
    found_skills: dict[Path, Path] = {}
    user_directories: list[Path] = []
    if skills:
        home = Path(os.path.realpath(os.path.expanduser("~")))
        user_directories = [home / name for name in SKILL_DIRECTORIES]
        found_skills = _find_skill_directories(directories, user_directories)
    owners = {*found_files.values(), *found_skills.values()}
    trusted = {directory for directory in owners if is_trusted(directory)}

    problems: list[str] = []
    files: dict[Path, str] = {}
    own_file = config_file().parent / USER_FILE
    for path in (own_file, *(path for path, owner in found_files.items() if owner in trusted)):
        text = _read_file(path, top, max_chars, problems)
        if text:
            files[path] = text
    used_directories = [path for path, owner in found_skills.items() if owner in trusted]
    project_skills, project_problems = find_skills(used_directories, "project", top)
    user_skills, user_problems = find_skills(user_directories, "user")
    project_skill_names = {skill.name for skill in project_skills}
    other_skills = [skill for skill in user_skills if skill.name not in project_skill_names]
    return Instructions(
        files=files,
        skills=(*project_skills, *other_skills),
        withheld={
            path: owner for path, owner in (found_files | found_skills).items() if owner not in trusted
        },
        problems=(*problems, *project_problems, *user_problems),
        project_names=tuple(names) if trusted else (),
    )


def _find_files(directories: Sequence[Path], names: Sequence[str]) -> dict[Path, Path]:
    """Return the instruction file of each directory that has one, and that directory."""
    found: dict[Path, Path] = {}
    for directory in directories:
        files = filter(os.path.isfile, (directory / name for name in names))
        file = next(files, None)
        if file is not None:
            found[file] = directory
    return found


def _find_skill_directories(
    directories: Sequence[Path], user_directories: Sequence[Path]
) -> dict[Path, Path]:
    """Return the directories with skills of a project, innermost first, and the directories they belong to."""
    found: dict[Path, Path] = {}
    for directory in reversed(directories):
        for name in SKILL_DIRECTORIES:
            path = directory / name
            if os.path.isdir(path) and path not in user_directories:
                found[path] = directory
    return found


def _project_directories(root: Path) -> list[Path]:
    """Return the directories whose files are used, from the root of the repository down to the workspace."""
    chain = [root, *root.parents]
    top = next((index for index, directory in enumerate(chain) if os.path.lexists(directory / ".git")), 0)
    return chain[top::-1]


def _read_file(path: Path, top: Path, max_chars: int, problems: list[str]) -> str:
    """Return a file's text, "" if there is none.

    A symbolic link out of the project is ignored: it could expose any file.
    """
    is_own = path == config_file().parent / USER_FILE
    if not os.path.isfile(path):
        return ""
    if not is_own and not Path(os.path.realpath(path)).is_relative_to(top):
        problems.append(f"{str(path)!r} is ignored: it is a symbolic link to a file outside {str(top)!r}")
        return ""
    try:
        data = read_regular_file(path, 4 * max_chars + 4)
    except OSError as e:
        problems.append(f"{str(path)!r} cannot be read: {e.strerror}")
        return ""
    text = data.decode("utf-8-sig", "replace").strip()
    if len(text) > max_chars:
        problems.append(f"{str(path)!r} is truncated to {max_chars:,} characters (instructions.max_chars)")
        text = f"{text[:max_chars]}\n[truncated: read {path} for the rest]"
    return text
