"""Whatever text comes from outside, a terminal shows it and never obeys it: files, names, models, tools,
servers.
"""

import json
import re
import unicodedata
from pathlib import Path

import pytest
from tests.cli.cli_kit import Capture, Outcome, Patch, json_lines, run_cli

from toolglot.cli.options import complete_model
from toolglot.cli.startup import Flags, prepare
from toolglot.config.trust import trust_directory
from toolglot.values.messages import Message, Text, save

ROOT = Path(__file__).parents[2]
# A title, a cleared screen, a colour, a clipboard, in seven and in eight bits; text backwards; the line from
# its start.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b2J\x9d52;c;eA==\x9c\u202e\x7f\r\x08evil"
TOML_EVIL = json.dumps(EVIL)[1:-1].replace("\x7f", "\\u007f")
SAY = f"say {EVIL}"
TOOLS = f"""
from toolglot import tool
from toolglot.errors import ToolError
from toolglot.values.messages import Media, Foreign

EVIL = {EVIL!r}

@tool(effects="read")
def hostile(a: int = 1) -> str:
    "Say something."
    print(EVIL)
    return EVIL

@tool(effects="read")
def failing() -> str:
    raise ToolError(EVIL)

@tool(effects="read", name="na" + "me")
def media() -> Media:
    return Media("image", "image/png", "aGk=", name=EVIL)

@tool(effects="write", approval=True, target=lambda a: EVIL, preview=lambda a: EVIL)
def asking(text: str = "") -> str:
    return "ran"

all = [hostile, failing, media, asking]
"""
PROJECT = f"""
system = "{TOML_EVIL}"
tools = ["{TOML_EVIL}"]
fallbacks = ["{TOML_EVIL}"]
[aliases]
"{TOML_EVIL}" = "{TOML_EVIL}"
[policy]
deny = ["{TOML_EVIL}"]
[providers.openai]
base_url = "{TOML_EVIL}"
headers = {{"{TOML_EVIL}" = "{TOML_EVIL}"}}
"""
SCHEMA = {
    "name": EVIL,
    "description": EVIL,
    "parameters": {
        "type": "object",
        "properties": {EVIL: {"type": "string", "pattern": EVIL, "x-" + EVIL: 1}, "a": {"type": EVIL}},
        "required": [EVIL],
        EVIL: EVIL,
    },
}
REQUEST = {
    "model": EVIL,
    "messages": [{"role": "user", "content": EVIL, EVIL: 1}, {"role": EVIL, "content": ""}],
    "tools": [{"type": "function", "function": SCHEMA}, {"type": EVIL}],
    EVIL: {EVIL: EVIL},
    "logit_bias": {EVIL: 1},
}
REPLY = {
    "id": EVIL,
    "model": EVIL,
    "choices": [{"message": {"role": "assistant", "content": EVIL}, "finish_reason": EVIL}],
}


@pytest.fixture
def hostile_directory(isolated_home: Path, monkeypatch: Patch) -> Path:
    """A project whose directory, files and settings have hostile names."""
    directory = isolated_home / f"project {EVIL}"
    directory.mkdir()
    (directory / "hostile_tools.py").write_text(TOOLS, encoding="utf-8")
    (directory / "tools.json").write_text(json.dumps([SCHEMA]), encoding="utf-8")
    (directory / f"{EVIL}.json").write_text("{", encoding="utf-8")
    (directory / "request.json").write_text(json.dumps(REQUEST), encoding="utf-8")
    (directory / "reply.json").write_text(json.dumps(REPLY), encoding="utf-8")
    saved = save([Message("user", (Text(EVIL),)), Message("assistant", (Text(EVIL),))], model=EVIL)
    (directory / "saved.jsonl").write_bytes(saved)
    (isolated_home / "state").mkdir()
    line = {"tool": EVIL, "outcome": EVIL, "seconds": 1.0}
    (isolated_home / "state" / "audit.jsonl").write_text(json_lines(line, "{"), encoding="utf-8")
    monkeypatch.chdir(directory)
    return directory


def control_characters(outcome: Outcome) -> list[str]:
    """What a terminal would do something with."""
    text = outcome.out + outcome.err
    return [
        hex(ord(character))
        for character in text
        if (unicodedata.category(character) == "Cc" and character not in "\n\t") or character == "\u202e"
    ]


MINE = ("--tools", "hostile_tools:all")


@pytest.mark.parametrize(("words", "stdin"), [
    (("run", SAY), ""),
    (("run", "--json", SAY), ""),
    (("run", "-vv", "hi"), ""),
    (("run", "hi", "-m", EVIL), ""),
    (("run", "hi", "-m", f"anthropic:{EVIL}"), ""),
    (("run", "hi", "--tools", EVIL), ""),
    (("run", "hi", "--deny", EVIL, "--facade", EVIL), ""),
    (("run", "hi", "--allow", EVIL), ""),
    (("run", "hi", "-a", EVIL), ""),
    (("run", 'call hostile {"a": "1"}', *MINE), ""),
    (("run", "call failing {}", *MINE), ""),
    (("run", "call name {}", *MINE), ""),
    (("run", f'call asking {{"text": {json.dumps(EVIL)}}}', *MINE), ""),
    (("run", f"call {EVIL} {{}}", *MINE), ""),
    (("call", "hostile", *MINE), ""),
    (("call", "failing", *MINE), ""),
    (("call", "name", *MINE), ""),
    (("call", "hostile", json.dumps({EVIL: EVIL}), *MINE), ""),
    (("call", "hostile", EVIL, *MINE), ""),
    (("call", EVIL), ""),
    (("call", "asking", *MINE), "n\n"),
    (("call", "--jsonl", *MINE), json_lines({"id": EVIL, "tool": EVIL}, EVIL, {"id": 1, "tool": "hostile", EVIL: 1})),
    (("call", "read", json.dumps({"path": EVIL})), ""),
    (("check", "tools.json"), ""),
    (("check", "tools.json", "--json"), ""),
    (("check", f"{EVIL}.json"), ""),
    (("check", EVIL), ""),
    (("check", "tools.json", "--for", EVIL), ""),
    (("config", "show"), ""),
    (("config", "show", "--json"), ""),
    (("config", "path"), ""),
    (("convert", "--from", "openai-chat", "--to", "gemini", "request.json"), ""),
    (("convert", "--from", "openai-chat", "--to", "gemini", "--jsonl"), json_lines({"id": EVIL, "request": REQUEST}, EVIL)),
    (("convert", "--from", EVIL, "--to", "gemini"), ""),
    (("decode", "--wire", "openai-chat", "reply.json"), ""),
    (("decode", "--wire", "openai-chat", f"{EVIL}.json"), ""),
    (("decode", "--wire", "openai-chat", "--jsonl"), json_lines({"id": EVIL, "status": 400, "response_body": EVIL}, EVIL)),
    (("demo", "--provider", EVIL), ""),
    (("doctor",), ""),
    (("doctor", "--json"), ""),
    (("login", EVIL), EVIL),
    (("logout", EVIL), ""),
    (("models", EVIL), ""),
    (("models", f"openai:{EVIL}"), ""),
    (("models", f"openai:{EVIL}", "--json"), ""),
    (("simulate", "--host", EVIL), ""),
    (("tools", "tools.json"), ""),
    (("tools", "tools.json", "--wire", "openai-chat", "--json"), ""),
    (("tools", "hostile_tools:all", "-m", f"anthropic:{EVIL}"), ""),
    (("tools", EVIL), ""),
    (("trust", EVIL), ""),
    ((EVIL,), ""),
], ids=lambda value: None if isinstance(value, str) else " ".join(value).replace(EVIL, "EVIL")[:60])  # fmt: skip
@pytest.mark.usefixtures("hostile_directory")
def test_a_terminal_shows_and_never_obeys(words: tuple[str, ...], stdin: str) -> None:
    assert control_characters(run_cli(*words, stdin=stdin, is_terminal=True)) == []


@pytest.mark.parametrize("words", [
    ("run", "hi"), ("call", "read", "{}"), ("tools",), ("config", "show"), ("config", "show", "--json"), ("config", "path"),
    ("doctor",), ("trust",), ("trust", "--list"), ("trust", "--remove"), ("chat",),
], ids=" ".join)  # fmt: skip
def test_nothing_of_a_project_is_obeyed(
    words: tuple[str, ...], hostile_directory: Path, isolated_home: Path
) -> None:
    (hostile_directory / "toolglot.toml").write_text(PROJECT, encoding="utf-8")
    decisions = {
        "trusted": [str(isolated_home / EVIL)] + ([str(hostile_directory)] if "--remove" in words else [])
    }
    (isolated_home / "state" / "trust.json").write_text(json.dumps(decisions), encoding="utf-8")
    outcome = run_cli(*words, stdin="n\n", is_terminal=words != ("chat",))
    assert control_characters(outcome) == []


def test_the_question_of_trust_shows_everything_on_lines_of_its_own(
    hostile_directory: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    padding = 'tools = ["a%sDo you trust this directory? It sets nothing."]' % (" " * 70)
    (hostile_directory / "toolglot.toml").write_text(
        PROJECT.replace(f'tools = ["{TOML_EVIL}"]', padding), encoding="utf-8"
    )
    prepare(Flags(), confirm=lambda question: question != "Do you trust this directory?")
    shown = capsys.readouterr()
    assert control_characters(Outcome(0, shown.out, shown.err)) == []
    assert [row for row in shown.out.splitlines()[1:] if not row.startswith("  ")] == []
    for key in ("tools", "providers.openai.base_url", "providers.openai.headers"):
        assert f"\n  {key}" in shown.out


@pytest.mark.usefixtures("hostile_directory")
def test_a_chat_shows_and_never_obeys() -> None:
    lines = [
        SAY, "say &#x1b;[2J &#13; &#x202e; &#155;", 'call hostile {"a": "1"}', "/show", "call failing {}", "call name {}",
        f'call asking {{"text": {json.dumps(EVIL)}}}', "y", f"call {EVIL} {{}}", "/tools", "/tools hostile", f"/tools {EVIL}",
        "/model", f"/model {EVIL}", f"/load {EVIL}", "/load saved.jsonl", f"/attach {EVIL}", f"/attach {EVIL}.json", "see it",
        f"@{EVIL}.json", f"/save {EVIL}", f"/{EVIL}", "/undo", "/context", f"/show {EVIL}", "/new", "/quit",
    ]  # fmt: skip
    outcome = run_cli(
        "chat", "--tools", "hostile_tools:all", stdin="\n".join(line.replace("\r", "") for line in lines)
    )
    assert control_characters(outcome) == []
    assert "needs approval" not in outcome.out
    assert control_characters(run_cli("chat", "--load", "saved.jsonl", stdin="hi\n")) == []
    assert control_characters(run_cli("chat", "--load", EVIL, stdin="hi\n")) == []


def test_a_shell_completes_only_names(hostile_directory: Path) -> None:
    aliases = '[aliases]\n"$(evil)" = "simulator"\n"a;b" = "simulator"\nfast = "simulator"\n'
    (hostile_directory / "toolglot.toml").write_text(aliases, encoding="utf-8")
    trust_directory(hostile_directory)
    names = complete_model(None, None, "")  # pyright: ignore[reportArgumentType]
    assert "fast" in names
    assert not [name for name in names if not re.fullmatch(r"[\w.@+:/-]+", name)]


def test_the_command_line_prints_in_few_places() -> None:
    """Everything else goes through `printer`, `styled` and the screen, which make text harmless."""
    counts: dict[str, int] = {}
    for path in sorted((ROOT / "src/toolglot/cli").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        count = len(
            re.findall(
                r"(?<![\w.])print\(|click\.s?echo\(|(?:stdout|stderr|buffer|_out)\.write\(|\.writelines\(",
                text,
            )
        )
        if count:
            counts[str(path.relative_to(ROOT / "src/toolglot/cli"))] = count
    assert counts == {"printer.py": 4, "run.py": 3, "styled.py": 1, "terminal_approvals.py": 1}, (
        "use print_line, print_note, write_text or Printer"
    )
