"""The same task as four models see it, each through its own facade over its own wire: find, read, edit, run,
look at a page.

Then one conversation goes from Claude to Gemini to GPT and back, in the middle of the task: the files end up
the same."""

from pathlib import Path
from typing import Any

import pytest

from toolglot.values.messages import ToolCall

from .conftest import Rig

BEFORE = 'def greet(name):\n    return "Helo " + name\n\n\nprint(greet("world"))\n'
AFTER = BEFORE.replace("Helo", "Hello")
PATCH = (
    '*** Begin Patch\n*** Update File: greet.py\n@@\n-    return "Helo " + name\n+    return "Hello " + '
    "name\n*** End Patch"
)
MODELS = {
    "claude": "anthropic/claude-opus-5",
    "older claude": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-3-pro-preview",
    "codex": "openai-responses/gpt-5.5",
    "unknown": "xai/grok-4",
    "openai-hosted": "openai-responses/gpt-5.2",
    "anthropic-api": "anthropic/claude-opus-5",
}


def steps(model: str, rig: Rig) -> list[ToolCall]:
    """The task as the model's own calls."""
    root, page, file = rig.root, f"{rig.site}/word", str(rig.root / "greet.py")
    calls: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "claude": [
            ("Glob", {"pattern": "**/*.py"}),
            ("Read", {"file_path": file}),
            ("Edit", {"file_path": file, "old_string": "Helo", "new_string": "Hello"}),
            ("Bash", {"command": "python3 greet.py", "description": "runs it"}),
            ("WebFetch", {"url": page, "prompt": "What is the word?"}),
        ],
        "gemini": [
            ("glob", {"pattern": "**/*.py"}),
            ("read_file", {"file_path": "greet.py"}),
            (
                "replace",
                {
                    "file_path": "greet.py",
                    "instruction": "Fix it.",
                    "old_string": "Helo",
                    "new_string": "Hello",
                },
            ),
            ("run_shell_command", {"command": "python3 greet.py"}),
            ("web_fetch", {"prompt": f"What is the word on {page}?"}),
        ],
        "codex": [
            ("exec_command", {"cmd": "ls"}),
            ("exec_command", {"cmd": "cat greet.py"}),
            ("apply_patch", {"input": PATCH}),
            ("exec_command", {"cmd": "python3 greet.py"}),
            ("run", {"open": [{"ref_id": page}]}),
        ],
        "unknown": [
            ("glob", {"pattern": "**/*.py"}),
            ("read", {"path": "greet.py"}),
            ("edit", {"path": "greet.py", "old": "Helo", "new": "Hello"}),
            ("shell", {"command": "python3 greet.py"}),
            ("web_open", {"target": page}),
        ],
        "openai-hosted": [
            ("shell", {"commands": ["ls", "pwd"]}),
            ("shell", {"commands": ["cat greet.py"]}),
            (
                "apply_patch",
                {"type": "update_file", "path": "greet.py", "diff": PATCH.partition("greet.py\n")[2][:-14]},
            ),
            ("shell", {"commands": ["python3 greet.py"]}),
            ("web_open", {"target": page}),
        ],
        "anthropic-api": [
            ("str_replace_based_edit_tool", {"command": "view", "path": str(root)}),
            ("str_replace_based_edit_tool", {"command": "view", "path": file}),
            (
                "str_replace_based_edit_tool",
                {"command": "str_replace", "path": file, "old_str": "Helo", "new_str": "Hello"},
            ),
            ("bash", {"command": "python3 greet.py"}),
            ("web_fetch", {"url": page}),
        ],
    }
    return [
        ToolCall("", name, None, arguments["input"], freeform=True)
        if "input" in arguments
        else ToolCall("", name, arguments, namespace="web" if name == "run" else "")
        for name, arguments in calls["claude" if model == "older claude" else model]
    ]


@pytest.fixture(autouse=True)
def file(tmp_path: Path) -> Path:
    (tmp_path / "greet.py").write_text(BEFORE)
    return tmp_path / "greet.py"


@pytest.mark.parametrize("model", MODELS)
def test_each_model_does_it_with_its_own_tools(model: str, rig: Rig, file: Path) -> None:
    facade = model if "-" in model else "auto"
    outcomes = rig.run_calls(MODELS[model], *steps(model, rig), facade=facade)
    assert [outcome.result.text for outcome in outcomes if outcome.result.is_error] == []
    texts = [outcome.result.text for outcome in outcomes]
    for text, expected in zip(
        (*texts[:2], *texts[3:]), ("greet.py", "Helo", "Hello world", "plum"), strict=True
    ):
        assert expected in text
    assert outcomes[2].call.name == ("patch" if model in ("codex", "openai-hosted") else "edit")
    assert file.read_text() == AFTER
    rig.check()


def test_the_task_is_handed_over_in_the_middle(rig: Rig, file: Path) -> None:
    outcomes = [
        outcome
        for model, part in (
            ("claude", slice(0, 2)),
            ("gemini", slice(1, 3)),
            ("codex", slice(3, 4)),
            ("claude", slice(3, 5)),
        )
        for outcome in rig.run_calls(MODELS[model], *steps(model, rig)[part])
    ]
    assert [outcome.result.text for outcome in outcomes if outcome.result.is_error] == []
    assert [outcome.call.name for outcome in outcomes] == [
        "glob",
        "read",
        "read",
        "edit",
        "shell",
        "shell",
        "web_open",
    ]
    assert file.read_text() == AFTER
    rig.check()
