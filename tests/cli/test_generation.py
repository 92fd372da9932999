"""Flags for how a model generates, and in which form it answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Outcome, run_cli

from toolglot.cli.generation import change_options
from toolglot.errors import UsageError
from toolglot.values.request import Options

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def change(*extras: str) -> Options:
    return change_options(Options(), None, None, None, extras)


@pytest.mark.parametrize(("texts", "extras"), [
    ((), {}),
    (('openai.service_tier="flex"',), {"openai": {"service_tier": "flex"}}),
    (("ollama-chat.options.num_ctx=8", "ollama-chat.options.seed=1"), {"ollama-chat": {"options": {"num_ctx": 8, "seed": 1}}}),
    (("gemini.cachedContent=null",), {"gemini": {"cachedContent": None}}),
    (('openai.metadata={"a=b": "c.d=e"}',), {"openai": {"metadata": {"a=b": "c.d=e"}}}),
])  # fmt: skip
def test_parameters_of_a_provider(texts: tuple[str, ...], extras: dict[str, Any]) -> None:
    assert change(*texts).extras == extras


def test_flags_add_to_what_is_configured() -> None:
    configured = Options(
        max_tokens=5, temperature=0.5, extras={"openai": {"service_tier": "flex", "user": "u"}}
    )
    changed = change_options(configured, 10, None, "low", ['openai.service_tier="auto"'])
    extras = {"openai": {"service_tier": "auto", "user": "u"}}
    assert changed == Options(max_tokens=10, temperature=0.5, effort="low", extras=extras)
    assert configured.extras["openai"]["service_tier"] == "flex"


@pytest.mark.parametrize(("text", "message"), [
    ("service_tier=1", "give WIRE.KEY=JSON"),
    ("openai.service_tier", "give WIRE.KEY=JSON"),
    ("openai.=1", "give WIRE.KEY=JSON"),
    (".a=1", "give WIRE.KEY=JSON"),
    ("openai.service_tier=flex", "flex is not JSON; a text needs quotes: openai.service_tier='\"flex\"'"),
    ("opena.service_tier=1", "unknown wire in extras 'opena'; did you mean 'openai'"),
])  # fmt: skip
def test_what_is_no_parameter(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        change(text)
    assert message in str(caught.value)


def test_flags_leave_the_settings_as_they_are() -> None:
    configured = Options(extras={"ollama-chat": {"options": {"num_ctx": 4096}}})
    changed = change_options(configured, None, None, None, ["ollama-chat.options.num_ctx=8192"])
    assert changed.extras == {"ollama-chat": {"options": {"num_ctx": 8192}}}
    assert configured.extras == {"ollama-chat": {"options": {"num_ctx": 4096}}}


def test_a_field_of_what_is_no_object() -> None:
    with pytest.raises(UsageError, match=r"openai\.a\.b=1: a is not an object"):
        change("openai.a=1", "openai.a.b=1")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return file


def run(*words: str) -> Outcome:
    return run_cli("run", "-m", "simulator:openai-responses", *words)


class TestRun:
    @pytest.mark.parametrize("model", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
    def test_the_output_is_printed_once_and_alone(self, schema: Path, model: str) -> None:
        outcome = run_cli("run", "-m", f"simulator:{model}", "--output-schema", str(schema), "Which city?")
        assert (outcome.code, outcome.out.count("\n")) == (0, 1)
        assert isinstance(json.loads(outcome.out)["city"], str)

    def test_the_events_have_it_as_well(self, schema: Path) -> None:
        outcome = run("--output-schema", str(schema), "--json", "Which city?")
        assert isinstance(outcome.records()[-1]["result"]["output"]["city"], str)

    @pytest.mark.parametrize(
        ("text", "message"), [("{", "is no JSON Schema: "), ("[]", "it is not a JSON object")]
    )
    def test_a_file_that_is_no_schema(self, schema: Path, text: str, message: str) -> None:
        schema.write_text(text)
        outcome = run("--output-schema", str(schema), "hi")
        assert outcome.code == 2
        assert f"{schema} is no JSON Schema: " in outcome.err
        assert message in outcome.err

    def test_a_limit_of_tokens_ends_the_answer(self) -> None:
        outcome = run("--max-tokens", "20", f"say {'word ' * 500}")
        assert outcome.code == 3
        assert "truncated by the length limit (generation.max_tokens)" in outcome.err

    def test_what_a_model_cannot_take_is_a_loss(self) -> None:
        outcome = run_cli(
            "run", "-m", "simulator:anthropic", "--option", 'openai.service_tier="flex"', "say hi"
        )
        assert (outcome.code, outcome.out) == (0, "hi\n")
        assert "lost: service_tier" in outcome.err

    @pytest.mark.parametrize(
        "words", [("--effort", "huge"), ("--temperature", "-1"), ("--max-tokens", "0"), ("--option", "x")]
    )
    def test_a_wrong_value_is_an_error_before_anything_is_sent(self, words: tuple[str, ...]) -> None:
        outcome = run(*words, "say hi")
        assert (outcome.code, outcome.out) == (2, "")
        assert words[0] in outcome.err


def test_the_flags_of_a_chat_hold_after_a_switch() -> None:
    outcome = run_cli(
        *("chat", "-m", "simulator:openai-chat", "--option", 'openai.service_tier="flex"'),
        stdin="say hi\n/model simulator:gemini\nsay ho\n/quit\n",
    )
    assert "lost: service_tier" in (outcome.out + outcome.err).rpartition("simulator:gemini")[2]
