"""The instructions that people already have for coding agents: AGENTS.md, and Agent Skills.

Those of a project count only if the user trusts their directory: anybody may have written them. They are found from the
workspace up to the top of its Git repository, or in the workspace alone if there is none. The user's own always count.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from toolglot.config.settings import InstructionSettings
from toolglot.config.trust import is_trusted
from toolglot.skills import Skill, find_skills, render_skill_list
from toolglot.user_dirs import config_file

__all__ = ["Instructions", "configured_instructions", "read_instructions"]

USER_FILE = "AGENTS.md"
NAMES, MAX_CHARS = InstructionSettings().files, InstructionSettings().max_chars
SKILL_DIRECTORIES = (".toolglot/skills", ".agents/skills", ".claude/skills")
"""Below a directory of the project, or the user's home directory; the first skill of a name counts."""
_HEADING = (
    "The user has these instructions for coding agents. Follow them; where they disagree, the later ones apply, and what the "
    "user says in this conversation applies before all of them."
)
_NESTED = "A directory below may have an {name} of its own: read it before you work there."
_SKILLS_HEADING = (
    "These skills are instructions for special tasks. When a task matches one, load it by its name with the tool for skills "
    "before you begin, and follow it."
)


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user and the project tell coding agents."""

    files: dict[Path, str] = {}
    """Path -> text, in the order of the prompt: the user's own, then those of the project, the outermost first."""
    skills: tuple[Skill, ...] = ()
    withheld: dict[Path, Path] = {}
    """What is ignored because a directory is not trusted: a file, or a directory with skills -> that directory."""
    problems: tuple[str, ...] = ()
    """What cannot be used, and why."""
    project_names: tuple[str, ...] = ()
    """The names that files of a project have."""

    def compose(self, system: str | None, *, with_skills: bool = True) -> str | None:
        """Return a system prompt with the instructions. `with_skills`: the model has a tool to load them with."""
        parts = (system, self.render_files(), self.render_skills() if with_skills else "")
        return "\n\n".join(part for part in parts if part) or system

    def render_files(self) -> str:
        """Return the part of the prompt that has the files; "" without any."""
        if not self.files:
            return ""
        texts = [f'<instructions path="{path}">\n{text}\n</instructions>' for path, text in self.files.items()]
        nested = [_NESTED.format(name=self.project_names[0])] if self.project_names else []
        return "\n\n".join((_HEADING, *texts, *nested))

    def render_skills(self) -> str:
        """Return the part of the prompt that lists the skills; "" without any."""
        return f"{_SKILLS_HEADING}\n\n{listed}" if (listed := render_skill_list(self.skills)) else ""

    def list_parts(self) -> dict[str, str]:
        """Return the parts of the prompt by what they are from."""
        parts = {str(path): text for path, text in self.files.items()}
        return parts | ({"the list of skills": listed} if (listed := self.render_skills()) else {})


def configured_instructions(root: Path, settings: InstructionSettings) -> Instructions:
    """Return what the settings let count for a workspace. Raises MalformedData, UsageError."""
    if not settings.enabled:
        return Instructions()
    return read_instructions(root, names=settings.files, max_chars=settings.max_chars, skills=settings.skills)


def read_instructions(
    root: str | Path = ".", *, names: Sequence[str] = NAMES, max_chars: int = MAX_CHARS, skills: bool = True
) -> Instructions:
    """Read the instructions and find the skills for a workspace. Raises MalformedData, UsageError.

    Args:
        root: The workspace.
        names: Names of files with instructions; the first that a directory has counts.
        max_chars: Maximum characters of one file.
        skills: Whether to find skills.
    """
    try:
        root = Path(os.path.realpath(Path(root).expanduser()))
    except OSError:  # the current directory is gone
        return Instructions()
    directories = _project_directories(root)
    top, problems = directories[0], list[str]()
    files = dict(_read_files([config_file().parent / USER_FILE], None, max_chars, problems))
    trusted = [directory for directory in directories if is_trusted(directory)]
    wanted = {each: next((file for name in names if _is_file(file := each / name)), None) for each in directories}
    withheld = {file: directory for directory, file in wanted.items() if file is not None and directory not in trusted}
    files |= _read_files([file for each in trusted if (file := wanted[each])], top, max_chars, problems)
    found_skills: list[Skill] = []
    if skills:
        own = [Path(os.path.realpath(os.path.expanduser("~")), name) for name in SKILL_DIRECTORIES]
        found = {path: each for each in reversed(directories) for name in SKILL_DIRECTORIES if (path := each / name).is_dir()}
        project = {path: each for path, each in found.items() if path not in own}
        found_skills, problems[len(problems) :] = find_skills(
            [path for path in project if project[path] in trusted], "project", top
        )
        user_skills, user_problems = find_skills(own, "user")
        names_in_project = {skill.name for skill in found_skills}
        found_skills += [skill for skill in user_skills if skill.name not in names_in_project]
        problems += user_problems
        withheld |= {path: directory for path, directory in project.items() if directory not in trusted}
    return Instructions(
        files=files,
        skills=tuple(found_skills),
        withheld=withheld,
        problems=tuple(problems),
        project_names=tuple(names) if trusted else (),
    )


def _project_directories(root: Path) -> list[Path]:
    """Return the directories whose files count, from the top of the repository down to the workspace."""
    chain = [root, *root.parents]
    top = next((index for index, directory in enumerate(chain) if os.path.lexists(directory / ".git")), 0)
    return chain[top::-1]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _read_files(paths: list[Path], within: Path | None, max_chars: int, problems: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files that have text. `within`: a link that leads out of it is not followed, as it could name any file."""
    for path in filter(_is_file, paths):
        if within is not None and not Path(os.path.realpath(path)).is_relative_to(within):
            problems.append(f"{str(path)!r} is ignored: it is a link that leads out of {str(within)!r}")
            continue
        try:
            with path.open("rb") as stream:
                data = stream.read(4 * max_chars + 4)
        except OSError as e:
            problems.append(f"{str(path)!r} cannot be read: {e.strerror}")
            continue
        text = data.decode("utf-8-sig", "replace").strip()
        if len(text) > max_chars:
            problems.append(f"{str(path)!r} is truncated to {max_chars:,} characters (instructions.max_chars)")
            text = f"{text[:max_chars]}\n[truncated: read {path} for the rest]"
        if text:
            yield path, text
