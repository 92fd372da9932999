"""Agent Skills: what is valid is what the specification's own validator says, and what is merely odd can
still be used.
"""

import os
from pathlib import Path

import pytest

from toolglot.common.skills import find_skills, list_skill_files, read_skill, read_skill_text
from toolglot.errors import UsageError

HEAD = "---\nname: pdf\ndescription: x\n"
NAMES = (
    *(
        "pdf",
        "PDF",
        "pdf-tools",
        "-pdf",
        "pdf-",
        "pdf--x",
        "pdf_x",
        "a" * 64,
        "a" * 65,
        "日本語",
        "café",
        "123",
        "''",
        "' pdf '",
    ),
    *("pdf tools", "~", "true", "pdf.x", "ﬁle", "[pdf]", "null", "1.5", '"pdf"', "|\n  pdf", "ñandú", "i̇x"),
)
DESCRIPTIONS = (
    *(
        "Works with PDF files.",
        "''",
        "x" * 1024,
        "x" * 1025,
        ">\n  folded\n  text",
        "Use when: the user asks",
        "'Use when: x'",
    ),
    *("5", "|\n  a\n  b", "- a", "  "),
)
MORE = (
    *(
        "license: MIT",
        "allowed-tools: Bash(git:*) Read",
        "allowed-tools: [Read, Grep]",
        "allowed-tools:\n  - Read",
    ),
    *(
        "metadata:\n  a: 1\n  b: x",
        "metadata: {a: 1}",
        "metadata:\n  a:\n    b: c",
        "metadata:",
        "metadata: a",
    ),
    *(
        "compatibility: x",
        f"compatibility: {'x' * 501}",
        "compatibility:\n  - a",
        "model: opus",
        "name: pdf",
        "# comment",
    ),
    *("license: &a MIT\nmetadata:\n  l: *a", "license:\n  a: b"),
)
TEXTS = (
    *(
        "",
        "body",
        "---\n",
        "---\nname: pdf\n",
        "---\n---\n",
        "---\nname: pdf\n---\n",
        "---\ndescription: x\n---\n",
    ),
    *(
        "---\n- a\n---\n",
        f"{HEAD}---",
        "---\n\nname: pdf\n\ndescription: x\n---\n",
        "---\nname: pdf\n description: x\n---\n",
    ),
    *(
        "---\r\nname: pdf\r\ndescription: x\r\n---\r\nx",
        f"\n{HEAD}---\n",
        "--- \nname: pdf\ndescription: x\n--- \n",
    ),
    *(
        "---\nname: pdf\ndescription:\n---\n",
        "---\nname:\ndescription: x\n---\n",
        '---\nname: pdf\ndescription: "x\n---\n',
    ),
    *(
        "---\nName: pdf\ndescription: x\n---\n",
        "---\n{name: pdf, description: x}\n---\n",
        f"{HEAD}\tlicense: y\n---\n",
    ),
    *(
        f"{HEAD}---\n---\nmore\n---\n",
        "---\n? name\n: pdf\n---\n",
        f"\ufeff{HEAD}---\n",
        f"{HEAD}  more: y\n---\n",
    ),
)


def write(tmp_path: Path, text: str, name: str = "pdf") -> Path:
    directory = tmp_path / name
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(text, encoding="utf-8", newline="")
    return directory


def is_valid(directory: Path) -> bool:
    try:
        return not read_skill(directory).problems
    except UsageError:
        return False


def test_our_verdicts_are_those_of_skills_ref(tmp_path: Path) -> None:
    skills_ref = pytest.importorskip(
        "skills_ref", reason="the validator of the specification is not installed"
    )
    cases = [(f"---\nname: {name}\ndescription: x\n---\n", name.strip("'\"|\n ") or "x") for name in NAMES]
    cases += [(f"---\nname: pdf\ndescription: {text}\n---\nbody", "pdf") for text in DESCRIPTIONS]
    cases += [(f"{HEAD}{field}\n---\nbody\n", "pdf") for field in MORE]
    cases += [(text, "pdf") for text in TEXTS] + [(f"{HEAD}---\n", "other")]
    directories = [write(tmp_path / str(number), *case) for number, case in enumerate(cases)]
    verdicts = {str(directory): not skills_ref.validate(directory) for directory in directories}
    assert {str(directory): is_valid(directory) for directory in directories} == verdicts
    assert {True, False} == {*verdicts.values()}
    for directory in directories:  # what we load has the same name and description there
        if verdicts[str(directory)]:
            skill, reference = read_skill(directory), skills_ref.read_properties(directory)
            assert skill.description == " ".join(reference.description.split())


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("model: opus", "unknown field 'model'"),
        ("allowed-tools: [Read]", "its front matter has lists or mappings in brackets"),
        (f"compatibility: {'x' * 501}", "its compatibility is not text of at most 500 characters"),
        ("license: a: b", "its front matter is not valid YAML"),
        ("license: a\nlicense: b", "its front matter has a field twice"),
    ],
)
def test_what_is_odd_is_used_and_reported(tmp_path: Path, field: str, problem: str) -> None:
    skill = read_skill(write(tmp_path, f"{HEAD}{field}\n---\nbody\n"))
    assert (skill.name, skill.description, skill.problems) == ("pdf", "x", (problem,))
    assert read_skill_text(skill) == "body"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no front matter", "its SKILL.md has no front matter"),
        ("---\nname: pdf\n---\n", "its front matter has no description"),
        ("---\ndescription: x\n---\n", "its front matter has no name"),
        (
            "---\nname: a b\ndescription: x\n---\n",
            "its name 'a b' is not valid: use 1 to 64 lower-case letters",
        ),
        ("---\n- a\n---\n", "its front matter is not a YAML mapping"),
        (f"{HEAD}---\n{'x' * 300_000}", "its SKILL.md has more than 256 KB"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    write(tmp_path, text)
    (tmp_path / "no-skill").mkdir()
    write(tmp_path, "---\nname: good\ndescription: y\n---\n", "good")
    skills, problems = find_skills([tmp_path, tmp_path / "missing"], "user")
    assert [skill.name for skill in skills] == ["good"]
    assert len(problems) == 1
    assert f"is left out: {reason}" in problems[0]


def test_yaml_cannot_run_code_or_grow(tmp_path: Path) -> None:
    bomb = "\n".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12))
    problems = read_skill(write(tmp_path / "1", f"{HEAD}a0: &a0 x\n{bomb}\n---\n")).problems
    assert "its front matter is not valid YAML" in problems
    read_skill(write(tmp_path / "2", f"{HEAD}license: !!python/object/apply:os.abort []\n---\n"))


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_linked_file_is_loaded_where_its_skill_was_found(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (tmp_path / "pdf.md").write_text(f"{HEAD}---\nmine", encoding="utf-8")
    (project / "pdf.md").write_text(f"{HEAD}---\nshared", encoding="utf-8")
    (directory := project / "skills" / "pdf").mkdir(parents=True)
    (directory / "SKILL.md").symlink_to(project / "pdf.md")
    [skill], _ = find_skills([project / "skills"], "project", project)
    assert read_skill_text(skill) == "shared"
    (directory / "SKILL.md").unlink()
    (directory / "SKILL.md").symlink_to(tmp_path / "pdf.md")
    with pytest.raises(UsageError, match="symbolic link out of the project"):
        read_skill_text(skill)
    [skill], _ = find_skills([project / "skills"], "user")  # some programs install the user's files as links
    assert read_skill_text(skill) == "mine"


def test_files_are_listed_without_hidden_ones(tmp_path: Path) -> None:
    directory = write(tmp_path, f"{HEAD}---\n")
    for name in ("scripts/run.py", "references/a.md", ".git/config", "b.txt"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).touch()
    assert list_skill_files(read_skill(directory)) == ["b.txt", "references/a.md", "scripts/run.py"]


@pytest.mark.parametrize("value", ["true", "True"])
def test_a_skill_that_is_only_for_the_user_is_no_problem(tmp_path: Path, value: str) -> None:
    """The specification's validator refuses the field; what we act on is not reported as unknown."""
    skill = read_skill(write(tmp_path, f"{HEAD}disable-model-invocation: {value}\n---\n"))
    assert (skill.is_listed, skill.problems) == (False, ())
