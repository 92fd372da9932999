"""Agent Skills (agentskills.io): directories with a SKILL.md, which a model reads when a task needs it.

A skill is only text and files. It is loaded leniently, as the specification asks of clients: one that breaks
the rules but is usable is used, and reported in `problems`. Its `allowed-tools` is ignored: the user decides
what calls may do.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.common.regular_files import read_regular_file
from toolglot.common.textutil import truncate
from toolglot.errors import UsageError

__all__ = [
    "SKILL_FILE",
    "Skill",
    "find_skills",
    "list_skill_files",
    "read_skill",
    "read_skill_text",
    "render_skill_list",
]

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 256 * 1024
MAX_SKILLS = 500
MAX_LISTED_FILES = 100
MAX_LIST_CHARS = 16_000
"""Characters of the list of skills in the system prompt: descriptions are shortened until it fits."""
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_COMPATIBILITY_CHARS = 64, 1024, 500  # from the specification
_FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
# Not in the specification, but honoured here as in other programs: with it, a skill is only for the user to
# send.
_UNLISTED_FIELD = "disable-model-invocation"
_DESCRIPTION_LENGTHS = (MAX_DESCRIPTION_CHARS, 250, 100, 0)  # tried in this order
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?P<fields>.*?)^---[ \t]*(?:\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE
)
_SIMPLE_FIELD = re.compile(r"^(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>\S.*)$", re.MULTILINE)


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill."""

    name: str
    """Its name, which is that of its directory."""
    description: str
    """What it is for, on one line."""
    directory: Path
    """Its real path."""
    origin: str = "project"
    """Whose it is: project or user."""
    is_listed: bool = True
    """Whether models see it; some skills are only for the user to send."""
    within: Path | None = None
    """The directory that its SKILL.md must be in if that is a symbolic link; None: any."""
    problems: tuple[str, ...] = ()
    """Violations of the specification."""


def find_skills(
    directories: Iterable[Path], origin: str, within: Path | None = None
) -> tuple[list[Skill], list[str]]:
    """Return the skills in these directories, and a sentence for each that cannot be used.

    If two have the same name, the first is used. `within`: symbolic links out of this directory are not
    followed.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for directory in directories:
        try:
            children = sorted(child for child in directory.iterdir() if not child.name.startswith("."))
        except OSError:
            continue
        for child in children:
            try:
                if not (child / SKILL_FILE).is_file():
                    continue
                skill = read_skill(child, origin, within)
            except (UsageError, OSError) as e:
                problems.append(f"the skill {str(child)!r} is left out: {e}")
                continue
            if skill.name in skills:
                first = str(skills[skill.name].directory)
                problems.append(f"the skill {str(child)!r} is left out: {first!r} has the same name")
            elif len(skills) < MAX_SKILLS:
                skills[skill.name] = skill
            else:
                problems.append(f"the skill {str(child)!r} is left out: there are more than {MAX_SKILLS}")
    return list(skills.values()), problems


def read_skill(directory: Path, origin: str = "project", within: Path | None = None) -> Skill:
    """Read a skill's front matter. Raises UsageError if it cannot be used."""
    fields, problems, _ = _parse_front_matter(_read_file(directory, within))
    problems += [f"unknown field {name!r}" for name in sorted(fields.keys() - _FIELDS - {_UNLISTED_FIELD})]
    name = fields.get("name")
    description = fields.get("description")
    if not isinstance(name, str) or not name.strip():
        raise UsageError("its front matter has no name")
    if not isinstance(description, str) or not description.strip():
        raise UsageError("its front matter has no description")
    name = unicodedata.normalize("NFKC", name.strip())
    if not _is_legal_name(name):
        rule = f"1 to {MAX_NAME_CHARS} lower-case letters, digits and single hyphens"
        raise UsageError(f"its name {truncate(name, MAX_NAME_CHARS)!r} is not valid: use {rule}")
    if name != unicodedata.normalize("NFKC", directory.name):
        problems.append(f"its directory is named {directory.name!r}, not {name!r}")
    if len(description) > MAX_DESCRIPTION_CHARS:
        problems.append(
            f"its description has {len(description)} characters, more than {MAX_DESCRIPTION_CHARS}"
        )
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str) or len(compatibility) > MAX_COMPATIBILITY_CHARS:
        problems.append(f"its compatibility is not text of at most {MAX_COMPATIBILITY_CHARS} characters")
    return Skill(
        name=name,
        description=" ".join(description.split()),
        directory=directory.resolve(),
        origin=origin,
        is_listed=str(fields.get(_UNLISTED_FIELD)).lower() != "true",
        within=within,
        problems=tuple(problems),
    )


def _is_legal_name(name: str) -> bool:
    """Return whether a name has the form that the specification asks for."""
    if len(name) > MAX_NAME_CHARS or name != name.lower():
        return False
    return all(part.isalnum() for part in name.split("-"))


def read_skill_text(skill: Skill) -> str:
    """Return a skill's instructions, without its front matter. Raises UsageError."""
    return _parse_front_matter(_read_file(skill.directory, skill.within))[2].strip()


def list_skill_files(skill: Skill) -> list[str]:
    """Return a skill's other files, relative to its directory; at most as many as can be shown."""
    files: list[str] = []
    for parent, directories, names in os.walk(skill.directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name).relative_to(skill.directory).as_posix()
            if path != SKILL_FILE and not name.startswith("."):
                files.append(path)
        if len(files) >= MAX_LISTED_FILES:
            break
    return files[:MAX_LISTED_FILES]


def render_skill_list(skills: Iterable[Skill]) -> str:
    """Return the names and descriptions for a system prompt; long descriptions are shortened if there are too
    many.
    """
    listed = [skill for skill in skills if skill.is_listed]
    text = ""
    for length in _DESCRIPTION_LENGTHS:
        if length:
            lines = [f"- {skill.name}: {truncate(skill.description, length)}" for skill in listed]
        else:
            lines = [f"- {skill.name}" for skill in listed]
        text = "\n".join(lines)
        if len(text) <= MAX_LIST_CHARS:
            return text
    lines = text[:MAX_LIST_CHARS].split("\n")[:-1]  # the last one may be incomplete
    return "\n".join([*lines, f"(and {len(listed) - len(lines)} more)"])


def _read_file(directory: Path, within: Path | None) -> str:
    file = directory / SKILL_FILE
    for path in (directory, file):
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            raise UsageError("it is a symbolic link out of the project")
    try:
        data = read_regular_file(file, MAX_SKILL_BYTES + 1)
        text = data.decode()
    except OSError as e:
        raise UsageError(f"its {SKILL_FILE} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"its {SKILL_FILE} is not UTF-8") from None
    if len(data) > MAX_SKILL_BYTES:
        raise UsageError(f"its {SKILL_FILE} has more than {MAX_SKILL_BYTES // 1024} KB")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse_front_matter(text: str) -> tuple[dict[str, Any], list[str], str]:
    """Return the fields, any problems with them, and the text below. Raises UsageError."""
    problems: list[str] = []
    if text.startswith("\ufeff"):
        problems.append(f"its {SKILL_FILE} starts with a byte order mark")
    match = _FRONT_MATTER.match(text.removeprefix("\ufeff"))
    if match is None:
        raise UsageError(f"its {SKILL_FILE} has no front matter between two lines of ---")
    import yaml  # not at the top: few programs have skills

    try:
        # Nodes instead of values, so that every scalar stays text, and that aliases, which can expand to
        # gigabytes, are seen.
        loader = yaml.SafeLoader(match["fields"])
        fields = _read_node(loader.get_single_node(), problems, set())
    except (yaml.YAMLError, ValueError, RecursionError):
        # The usual mistake is a colon in an unquoted description.
        problems.append("its front matter is not valid YAML")
        fields = {
            field["key"]: field["value"].strip(" \"'") for field in _SIMPLE_FIELD.finditer(match["fields"])
        }
    if not isinstance(fields, dict):
        raise UsageError("its front matter is not a YAML mapping")
    return cast(dict[str, Any], fields), problems, match["body"]


def _read_node(node: Any, problems: list[str], visited: set[int]) -> Any:
    """Return a YAML node as text, lists and dicts.

    The specification's own validator allows block style only.
    """
    import yaml

    if id(node) in visited:  # YAML's loader repeats the node that an alias stands for
        raise ValueError("an alias")
    visited.add(id(node))
    if getattr(node, "flow_style", False):
        problems.append("its front matter has lists or mappings in brackets")
    if isinstance(node, yaml.MappingNode):
        keys = [_read_node(key, problems, visited) for key, _ in node.value]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("a key that is not text")
        if len({*keys}) < len(keys):
            problems.append("its front matter has a field twice")
        values = [_read_node(value, problems, visited) for _, value in node.value]
        return dict(zip(keys, values, strict=True))
    if isinstance(node, yaml.SequenceNode):
        return [_read_node(item, problems, visited) for item in node.value]
    return node.value if isinstance(node, yaml.ScalarNode) else None
