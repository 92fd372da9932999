"""Tools by the names that a model has for them: `toolglot tools` and `toolglot call` with a model, a wire, an own facade."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Capture, Patch

from toolglot.cli.main import app
from toolglot.errors import UnknownName, UsageError

MINE = """
from toolglot.facades.parameters import object_schema, string
from toolglot.facades.view import Case, Facade, Field, View

show = View(
    name="show",
    description="Shows a file.",
    parameters=object_schema("file", file=string()),
    cases={"": Case(base="read", fields=(Field(native="file", base="path"),))},
)
mine = Facade(id="mine", title="Mine", views=(show,))
other = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "own_harness.py").write_text(MINE)
    return tmp_path


def run(capfd: Capture, *words: str) -> tuple[int, str, str]:
    code = app(list(words), standalone_mode=False)
    out, err = capfd.readouterr()
    return int(code or 0), out, err


def tools(capfd: Capture, *words: str) -> Any:
    return json.loads(run(capfd, "tools", *words, "--json")[1])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--wire", "openai-responses", "-m", "gpt-5.5"), "exec_command"),
        (("--wire", "anthropic-messages", "-m", "claude-opus-5"), "Read"),
        (("--wire", "openai-responses", "-m", "openai:gpt-5.2"), "shell_command"),
        (("-m", "openai:gpt-5.2"), "shell_command"),
    ],
)
def test_a_model_may_stand_alone_beside_its_wire(folder: Path, capfd: Capture, words: tuple[str, ...], name: str) -> None:
    assert name in [one.get("name") for one in tools(capfd, *words)]


def test_a_provider_with_two_wires_is_asked_on_the_one_that_is_named(folder: Path, capfd: Capture) -> None:
    found = tools(capfd, "--wire", "openai-chat", "-m", "openai:gpt-5.5")
    assert {one["type"] for one in found} <= {"function", "custom"}
    assert "exec_command" in [one["function"]["name"] for one in found if one["type"] == "function"]


def test_tools_that_a_model_knows_are_declared_by_their_types(folder: Path, capfd: Capture) -> None:
    hosted = tools(capfd, "--facade", "openai-hosted", "-m", "openai:gpt-5.2")
    assert hosted[:2] == [{"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]
    typed = tools(capfd, "--facade", "anthropic-api", "-m", "anthropic:claude-opus-5")
    assert {"type": "bash_20250124", "name": "bash"} in typed


class TestAFacadeOfOnesOwn:
    def test_is_named_as_an_object_of_a_module(self, folder: Path, capfd: Capture) -> None:
        found = tools(capfd, "--facade", "own_harness:mine", "--wire", "ollama-chat")
        names = [one["function"]["name"] for one in found]
        assert names[0] == "show"
        assert "read" not in names
        code, out, _ = run(capfd, "call", "show", '{"file": "a.txt"}', "--facade", "own_harness:mine")
        assert (code, out) == (0, "1\tone\n")

    @pytest.mark.parametrize(
        ("name", "error", "why"),
        [
            ("own_harness:other", UsageError, "'own_harness:other' is not a Facade"),
            ("own_harness:none", UsageError, "cannot load"),
            ("nowhere.toml", UsageError, "cannot read the facade 'nowhere.toml'"),
            ("clode-code", UnknownName, "claude-code"),
        ],
    )
    def test_is_named_in_the_error(self, folder: Path, name: str, error: type[Exception], why: str) -> None:
        with pytest.raises(error, match=why):
            app(["tools", "--facade", name], standalone_mode=False)


class TestCall:
    @pytest.mark.parametrize(
        ("model", "name", "arguments", "said"),
        [
            ("anthropic:claude-opus-5", "Read", '{"file_path": "a.txt"}', "1\tone"),
            ("gemini-3-pro", "read_file", '{"file_path": "a.txt"}', "one"),
            ("ollama:gpt-oss:20b", "shell", '{"command": ["cat", "a.txt"]}', '"exit_code":0'),
        ],
    )
    def test_goes_by_the_names_of_a_model(
        self, folder: Path, capfd: Capture, model: str, name: str, arguments: str, said: str
    ) -> None:
        code, out, _ = run(capfd, "call", name, arguments, "-m", model, "-y")
        assert code == 0
        assert said in out

    @pytest.mark.parametrize("model", ["xai:grok-4", "grok-4", "simulator:xai/grok-4"])
    def test_a_tool_for_some_models_is_theirs(self, folder: Path, capfd: Capture, model: str) -> None:
        (folder / "own.toml").write_text(
            'id = "own"\n[[views]]\nname = "look"\nbase = "read"\nmodels = "^grok"\nfields = { file = "path" }\n'
            '[views.parameters]\ntype = "object"\nrequired = ["file"]\nproperties.file = { type = "string" }\n'
        )
        assert run(capfd, "call", "look", '{"file": "a.txt"}', "--facade", "own.toml", "-m", model)[:2] == (0, "1\tone\n")
        assert run(capfd, "call", "look", '{"file": "a.txt"}', "--facade", "own.toml", "-m", "gpt-5")[0] == 1

    @pytest.mark.parametrize("plain", [True, False], ids=["text", "object"])
    def test_a_patch_may_be_plain_text(self, folder: Path, capfd: Capture, plain: bool) -> None:
        patch = "*** Begin Patch\n*** Add File: b.txt\n+two\n*** End Patch"
        patch = patch if plain else json.dumps({"input": patch})
        code, out, _ = run(capfd, "call", "apply_patch", patch, "-m", "gpt-5.5", "-y")
        assert (code, out.endswith("A b.txt\n")) == (0, True)
        assert (folder / "b.txt").read_text() == "two\n"

    def test_what_is_left_out_of_a_call_is_said(self, folder: Path, capfd: Capture) -> None:
        for more in ([], ["--json"]):
            code, out, err = run(capfd, "call", "Read", '{"file_path": "a.txt", "zoom": 2}', "-m", "claude-opus-5", *more)
            assert (code, "one" in out) == (0, True)
            assert err == "toolglot: parameter 'zoom' at Read: there is no such parameter; it was ignored\n"

    def test_other_tools_take_an_object(self, folder: Path) -> None:
        with pytest.raises(UsageError, match="the arguments are not a JSON object"):
            app(["call", "Read", "a.txt", "-m", "claude-opus-5"], standalone_mode=False)
