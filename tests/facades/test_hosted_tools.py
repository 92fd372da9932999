"""Tools that models know by themselves, run here: OpenAI's shell and apply_patch, Anthropic's editor, bash
and memory.
"""

from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import response_input_param
from pydantic import TypeAdapter

from toolglot.common.jsontext import loads_object
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, find_facade
from toolglot.facades.view import View
from toolglot.values.messages import ToolCall

from .conftest import Rig

Doc = dict[str, Any]
HOSTED = {view.name: view for view in find_facade("openai-hosted").views}
ONE = {"type": "update_file", "path": "a.txt", "diff": "@@\n one\n-two\n+three"}


RESPONSES = "openai-responses/gpt-5.2"


@pytest.fixture(autouse=True)
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path / "a.txt"


def shell(*commands: str, **options: Any) -> ToolCall:
    return ToolCall("", "shell", {"commands": list(commands), **options})


class TestOpenAI:
    @pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
    def test_calls_are_answered_with_the_outcome_of_each_command(self, rig: Rig, live: bool) -> None:
        calls = (shell("cat a.txt", "exit 3", max_output_length=900), shell("sleep 9", timeout_ms=50))
        rig.run_calls(RESPONSES, *calls, facade="openai-hosted", live=live)
        assert rig.last_body["tools"][:2] == [
            {"type": "shell", "environment": {"type": "local"}},
            {"type": "apply_patch"},
        ]
        items = [item for item in rig.last_body["input"] if item.get("type") == "shell_call_output"]
        assert items[0]["max_output_length"] == 900
        assert items[0]["output"] == [
            {"stdout": "one\ntwo\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}},
        ]
        assert [part["outcome"] for part in items[1]["output"]] == [{"type": "timeout"}]
        TypeAdapter[Any](response_input_param.ResponseInputParam).validate_python(rig.last_body["input"])
        rig.check()

    def test_patches_are_answered_with_their_status(self, rig: Rig, tmp_path: Path) -> None:
        absent = ToolCall("", "apply_patch", {"type": "delete_file", "path": "b.txt"})
        wrong = ToolCall("", "apply_patch", {"type": "update_file", "path": "../a.txt", "diff": "@@\n-a\n+b"})
        tool_call = ToolCall("", "apply_patch", {"type": "create_file", "path": "c.txt", "diff": "+new"})
        rig.run_calls(
            RESPONSES, ToolCall("", "apply_patch", ONE), absent, wrong, tool_call, facade="openai-hosted"
        )
        outputs = [item for item in rig.last_body["input"] if item.get("type") == "apply_patch_call_output"]
        assert [item["status"] for item in outputs] == ["completed", "failed", "failed", "completed"]
        assert outputs[0]["output"] == "Success. Updated the following files:\nM a.txt"
        assert "b.txt" in outputs[1]["output"]
        assert "../a.txt" in outputs[2]["output"]
        assert ((tmp_path / "a.txt").read_text(), (tmp_path / "c.txt").read_text()) == (
            "one\nthree\n",
            "new\n",
        )
        rig.check()

    def test_a_refused_call_is_answered_in_the_same_form(self, rig: Rig) -> None:
        rig.run_calls(RESPONSES, shell(), shell("true", "false\0"), facade="openai-hosted")
        outputs = [
            item["output"] for item in rig.last_body["input"] if item.get("type") == "shell_call_output"
        ]
        assert [command["outcome"] for part in outputs for command in part] == [
            {"type": "exit", "exit_code": 1}
        ] * 2
        assert "commands" in outputs[0][0]["stdout"]
        assert "NUL" in outputs[1][0]["stdout"]
        rig.check()

    def test_where_they_are_not_known_they_are_functions_that_do_the_same(
        self, rig: Rig, tmp_path: Path
    ) -> None:
        rig.run_calls(
            "openai-chat/gpt-4.1",
            shell("cat a.txt", "exit 3"),
            ToolCall("", "apply_patch", ONE),
            facade="openai-hosted",
        )
        assert [tool["type"] for tool in rig.last_body["tools"][:2]] == ["function", "function"]
        results = [message["content"] for message in rig.last_body["messages"] if message["role"] == "tool"]
        assert results[0] == "Exit code: 0\nOutput:\none\ntwo\n\n\nExit code: 3\nOutput:\n"
        assert (tmp_path / "a.txt").read_text() == "one\nthree\n"
        rig.check()

    def test_a_conversation_is_handed_over_and_back(self, rig: Rig, tmp_path: Path) -> None:
        read = ToolCall("", "Read", {"file_path": str(tmp_path / "a.txt")})
        bash = ToolCall("", "Bash", {"command": "exit 4"})
        write = ToolCall("", "Write", {"file_path": "n.txt", "content": "new\n"})
        rig.run_calls("anthropic/claude-opus-5", read, bash, write)
        rig.run_calls(
            RESPONSES, shell("true", "false"), ToolCall("", "apply_patch", ONE), facade="openai-hosted"
        )
        calls = {
            item["type"]: item for item in rig.last_body["input"] if item.get("type", "").endswith("_call")
        }
        assert set(calls) == {"shell_call", "apply_patch_call"}
        kinds = [item["type"] for item in rig.last_body["input"] if "_call" in item.get("type", "")]
        shells, patches = ["shell_call", "shell_call_output"], ["apply_patch_call", "apply_patch_call_output"]
        assert kinds == [*shells, *shells, *patches, *shells, *patches]
        commands = [
            item["action"]["commands"] for item in rig.last_body["input"] if item.get("type") == "shell_call"
        ]
        assert commands == [[f"cat {tmp_path}/a.txt"], ["exit 4"], ["true", "false"]]
        added = next(
            item["operation"] for item in rig.last_body["input"] if item.get("type") == "apply_patch_call"
        )
        assert added == {"type": "create_file", "path": "n.txt", "diff": "+new"}
        rig.run_calls("anthropic/claude-opus-5")
        shown = [
            (part["name"], part["input"])
            for message in rig.last_body["messages"]
            if message["role"] == "assistant" and isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "tool_use"
        ]
        assert shown[:3] == [(call.name, call.arguments) for call in (read, bash, write)]
        assert shown[3] == ("Bash", {"command": "true\nfalse"})
        assert shown[4] == (
            "Edit",
            {"file_path": "a.txt", "old_string": "one\ntwo", "new_string": "one\nthree"},
        )
        rig.check()

    @pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
    def test_codex_mini_has_its_own_local_shell(self, rig: Rig, live: bool) -> None:
        rig.run_calls("anthropic/claude-opus-5", ToolCall("", "Bash", {"command": "exit 4"}))
        call = ToolCall(
            "",
            "local_shell",
            {"type": "exec", "command": ["cat", "a.txt"], "env": {}, "working_directory": "."},
        )
        rig.run_calls("openai-responses/codex-mini-latest", call, live=live)
        assert rig.last_body["tools"][0] == {"type": "local_shell"}
        calls = [item for item in rig.last_body["input"] if item.get("type") == "local_shell_call"]
        assert [item["action"]["command"] for item in calls] == [["cat", "a.txt"]]
        outputs = [item for item in rig.last_body["input"] if item.get("type") == "function_call_output"]
        assert outputs[-1]["call_id"] == calls[0]["call_id"]
        assert outputs[-1]["output"].startswith('{"output":"one\\ntwo\\n","metadata":{"exit_code":0,')
        older = next(item for item in rig.last_body["input"] if item.get("type") == "function_call")
        assert (older["name"], loads_object(older["arguments"])) == (
            "local_shell",
            {"command": ["bash", "-lc", "exit 4"]},
        )
        rig.check()


class TestAnthropic:
    def test_the_three_are_declared_by_their_types(self, rig: Rig, tmp_path: Path) -> None:
        replace = {"command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "three"}
        calls = [
            ToolCall("", "str_replace_based_edit_tool", {"command": "view", "path": "a.txt"}),
            ToolCall("", "str_replace_based_edit_tool", replace),
            ToolCall("", "bash", {"command": "cat a.txt"}),
            ToolCall("", "memory", {"command": "view", "path": "/memories"}),
        ]
        results = [
            outcome.result
            for outcome in rig.run_calls("anthropic/claude-opus-5", *calls, facade="anthropic-api")
        ]
        typed = [tool for tool in rig.last_body["tools"] if "type" in tool]
        assert typed == [
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "memory_20250818", "name": "memory"},
        ]
        assert [result.is_error for result in results] == [False] * 4
        assert results[2].text == "one\nthree"
        rig.check()

    def test_other_models_see_functions(self) -> None:
        facade = BoundFacade(find_facade("anthropic-api"), "gemini-3-pro", BASE_TOOLS)
        assert all(view.parameters is not None and view.kind == "function" for view in facade.views)


@pytest.mark.parametrize("view", [view for view in HOSTED.values() if view.typed], ids=lambda view: view.name)
def test_what_is_typed_has_parameters_too(view: View) -> None:
    assert view.parameters is not None
    assert view.definition.typed == view.typed
