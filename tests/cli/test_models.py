"""`toolglot models`: every provider, one in full, as text that fits and as JSON that is complete."""

import io
import json
import re
from typing import Any

import pytest
from tests.cli.cli_kit import run_cli

from toolglot.cli.models import find_profile
from toolglot.cli.printer import Printer
from toolglot.providers.catalog import PROFILES
from toolglot.providers.model_data import find_price, find_window, known_models
from toolglot.providers.profile import Profile


def run_models(*words: str, columns: int = 80) -> str:
    code, out, err = run_cli("models", *words, COLUMNS=str(columns))
    assert (code, err) == (0, "")
    return out


# ---- all providers


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 120, 200])
def test_all_providers_fit_the_terminal(columns: int) -> None:
    out = run_models(columns=columns)
    assert max(map(len, out.splitlines())) <= columns
    assert all(id in out for id in PROFILES)
    assert "\x1b" not in out


def test_a_wide_terminal_has_all_columns() -> None:
    head, *rows = run_models(columns=200).splitlines()
    assert head.split() == [
        "provider",
        "wire",
        "tools",
        "strict",
        "tool",
        "choice",
        "key",
        "facade",
        "as",
        "of",
    ]
    columns = {row.split()[0]: row.split()[1:] for row in rows if row}
    assert (
        " ".join(columns["anthropic"])
        == "anthropic-messages - yes except subset ANTHROPIC_API_KEY +1 claude-code 2026-11-15"
    )
    assert columns["mistral"][3:7] == ["except", "none,", "subset", "MISTRAL_API_KEY"]
    assert columns["ollama"][3] == "auto"


def test_what_has_no_room_is_said() -> None:
    assert "Columns hidden (use a wider terminal or --json): key, facade, as of" in run_models()


def test_colors_are_for_terminals_only() -> None:
    assert "\x1b[1mprovider" in run_cli("models", is_terminal=True, NO_COLOR="", TERM="xterm").out
    assert "\x1b" not in run_cli("models", is_terminal=True, NO_COLOR="1", TERM="xterm").out


def test_json_has_one_complete_object_a_line() -> None:
    lines = [json.loads(line) for line in run_models("--json").splitlines()]
    assert [line["id"] for line in lines] == list(PROFILES)
    for line in lines:
        assert {*line} == {*Profile.__struct_fields__, "facade", "window", "facts", "models"}
        assert line["limits"]["as_of"]
        assert {"strict", "parallel", "choices"} <= {*line["features"]}


# ---- one of them


def test_one_model_in_full() -> None:
    out = run_models("anthropic:claude-opus-5")
    for part in (
        "Anthropic Messages · anthropic:claude-opus-5",
        "https://api.anthropic.com/v1/messages",
        "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
        "claude-code",
        "1,000,000 tokens, at most 128,000 per answer (models.dev, 2026-06)",
        "$5 input, $0.5 cached input, $25 output",
        "as of 2026-11-15 (anthropic SDK 2.8.0",
        "low, medium, high, xhigh, max",
        "All results of one turn come first",
        "history.ends_with_user = true",
        "deferred tools            native",
        "cache marks            5m, 1h",
    ):
        assert part in out


def test_what_is_not_known_is_said_so() -> None:
    out = run_models("groq:some-model")
    assert out.count("unknown") == 2
    assert "this model is not in the catalog" in out
    assert "For this model" not in out


@pytest.mark.parametrize(
    "pattern", ["openai", "compatible", "vertex:gemini-3-pro-preview", "openrouter:google/gemini-2.5-pro"]
)
@pytest.mark.parametrize("columns", [40, 80])
def test_one_of_them_fits_the_terminal(pattern: str, columns: int) -> None:
    assert max(map(len, run_models(pattern, columns=columns).splitlines())) <= columns


def test_json_of_a_model_has_its_facts_with_sources() -> None:
    (line,) = run_models("anthropic:claude-opus-5", "--json").splitlines()
    report: dict[str, Any] = json.loads(line)
    assert report["model"] == "claude-opus-5"
    assert report["window"]["context"] == report["limits"]["context"] == 1_000_000
    assert report["price"]["output"] == 25.0
    assert report["facade"] == "claude-code"
    assert {"efforts", "default_max_tokens"} <= {name for fact in report["facts"] for name in fact["changes"]}
    assert all(fact["source"] for fact in report["facts"])


@pytest.mark.parametrize(
    ("name", "id", "model"),
    [
        ("openai:gpt-4o", "openai-chat", "gpt-4o"),
        ("openai:gpt-5", "openai-responses", "gpt-5"),
        ("grok", "xai", ""),
        ("simulator", "anthropic", "claude-sonnet-4-5"),
        ("simulator:gemini", "gemini", "gemini-3-pro-preview"),
    ],
)
def test_a_name_leads_to_its_row(name: str, id: str, model: str) -> None:
    profile = find_profile(name)
    assert (profile.id, profile.model) == (id, model)
    assert "simulator" not in profile.base_url


@pytest.mark.parametrize(
    ("provider", "row"),
    [
        ("anthropic", "claude-sonnet-4-5 200,000 64,000 $3 $15"),
        ("anthropic", "claude-3-opus* 200,000 4,096 $15 $75"),
        ("openai", "gpt-5-mini 400,000 128,000 $0.25 $2"),
        ("azure", "gpt-4.1 1,047,576 32,768 $2 $8"),
        ("gemini", "gemini-2.5-flash-lite 1,048,576 65,536 $0.1 $0.4"),
        ("groq", "openai/gpt-oss-20b 131,072 65,536 $0.075 $0.3"),
        ("mistral", "codestral-2508* - - $0.3 $0.9"),
    ],
)
def test_a_provider_lists_the_models_that_are_known(provider: str, row: str) -> None:
    table = [
        " ".join(line.split()) for line in run_models(provider).partition("Known models")[2].splitlines()
    ]
    assert row in table
    (line,) = run_models(provider, "--json").splitlines()
    assert row.split()[0] in json.loads(line)["models"]


def test_a_local_server_lists_no_models() -> None:
    assert "Known models" not in run_models("ollama")


def test_listed_models_are_known_under_their_names() -> None:
    for id in PROFILES:
        for name in known_models(id):
            assert re.fullmatch(r"[\w./-]+\*?", name)
            plain = name.rstrip("*")
            assert find_window(id, plain) or find_price(id, plain), (id, name)


@pytest.mark.parametrize("pattern", ["antropic", "antropic:claude-opus-5"])
def test_an_unknown_provider_names_the_nearest(pattern: str) -> None:
    assert run_cli("models", pattern)[::2] == (
        2,
        "toolglot: unknown provider 'antropic'; did you mean 'anthropic'?\n",
    )


# ---- the sheet


def test_a_sheet_shows_nothing_that_a_terminal_obeys() -> None:
    sheet = Printer(out := io.StringIO())
    sheet.print_text("a\x1b[31mb\x07")
    sheet.print_pairs([("label\x1b", "value\u202e")])
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()


def test_a_sheet_writes_what_the_encoding_can_say() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    Printer(out).print_text("über → ✓")
    out.seek(0)
    assert out.read() == "über ? ?\n"


def test_a_long_label_stands_over_its_value() -> None:
    sheet = Printer(out := io.StringIO())
    sheet.print_pairs([("short", "1"), ("x" * 30, "2")])
    assert out.getvalue() == f"  short  1\n  {'x' * 30}\n    2\n"


def test_a_table_without_rows_is_nothing() -> None:
    Printer(out := io.StringIO()).print_table([])
    assert out.getvalue() == ""
