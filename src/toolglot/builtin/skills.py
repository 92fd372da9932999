"""The tool `load_skill`: reads the instructions of a skill when a task needs them.

It only reads. Scripts of a skill run as all commands do: in the sandbox, by the user's rules.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from toolglot.builtin.tool_state import ToolState
from toolglot.common.skills import Skill, list_skill_files, read_skill_text
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.confine.roots import Root
from toolglot.errors import ToolError, UsageError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["create_tools", "find_skill_roots"]

_ARGUMENTS = "$ARGUMENTS"


def create_tools(state: ToolState) -> list[Tool]:
    """Return the tool `load_skill`, which is of no use without skills."""
    skills = {skill.name: skill for skill in state.skills if skill.is_listed}

    @tool(
        name="load_skill",
        effects="read",
        action="read",
        verb="Load skill",
        examples=[{"name": "release-notes"}],
        target=lambda arguments: arguments["name"],
    )
    def load_skill(name: str, arguments: str = "") -> ToolOutput:
        """Load the instructions of a skill. Do this before you begin a task that matches its description, and follow them.

        Args:
            name: The skill's name, as listed in the instructions.
            arguments: What the skill should work on, if it asks for that.
        """
        if (skill := skills.get(name.strip().removeprefix("/"))) is None:
            hint = did_you_mean(suggest(name, skills)) or f"available: {', '.join(list(skills)[:20])}"
            raise invalid_argument("name", f"is {name!r}, which is no skill; {hint}")
        try:
            text = read_skill_text(skill)
        except UsageError as e:
            raise ToolError(
                f"the skill {name!r} cannot be loaded: {e}; continue without it", code="io_error"
            ) from None
        if _ARGUMENTS in text:
            text = text.replace(_ARGUMENTS, arguments)
        elif arguments:
            text = f"{text}\n\nArguments: {arguments}"
        directory, files = state.display_path(skill.directory), list_skill_files(skill)
        data = {"name": skill.name, "directory": directory, "text": text, "files": files}
        head = f"Skill {skill.name} in {directory} (its paths are relative to this directory)"
        listing = "".join(f"\n- {file}" for file in files)
        content = f"{head}\n\n{text}"
        if files:
            content += f"\n\nFiles of the skill:{listing}"
        return ToolOutput(content, data)

    return [load_skill]


def find_skill_roots(
    skills: Iterable[Skill], root: str | Path, other_roots: Iterable[Root]
) -> Iterator[Root]:
    """Yield the directories of skills that are outside the workspace, so that their files can be read and
    scripts run.
    """
    skills = list(skills)
    if not skills:
        return
    paths = [Path(root), *(other.path for other in other_roots)]
    roots = [path.resolve() for path in paths]
    for skill in skills:
        if not any(skill.directory.is_relative_to(path) for path in roots):
            yield Root(skill.directory, writable=False)
