"""`toolglot chat` as a user has it: a real terminal, keys, and what the screen shows.

The model is the simulator.

The simulator refuses what a provider would refuse, so a turn that is answered proves that the conversation
was valid."""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from terminal import Terminal, surroundings

pytestmark = pytest.mark.untraced

TOOLS = '''
import asyncio
from pathlib import Path
from toolglot import Agent, tool

@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"{city}: 21 degrees"

@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    Path("deleted").touch()
    return f"deleted {path}"

@tool
async def wait_for_it(name: str) -> str:
    """Waits for a file that a test writes."""
    Path(f"{name}-started").touch()
    try:
        while not Path(name).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        Path(f"{name}-stopped").touch()
        raise
    return "it came"

@tool
def read_a_key() -> str:
    """Asks whoever sits there."""
    return "got " + input()

helper = Agent("simulator:openai-chat", tools=[wait_for_it, delete])
research = helper.as_tool("research", "Researches.")
all = [get_weather, delete, wait_for_it, read_a_key, research]
'''
COLOURS = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:[349]\d|10\d)[\d;]*m")


class Chat(Terminal):
    """A chat in a folder of its own."""

    def __init__(self, folder: Path, *words: str, columns: int = 100, lines: int = 32, **env: str) -> None:
        self.folder = folder
        (folder / "my_tools.py").write_text(TOOLS)
        home = {
            name: str(folder / "home")
            for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
        }
        around = {
            name: value
            for name, value in surroundings(**home, **env).items()
            if not name.startswith("TOOLGLOT_")
        }
        command = [sys.executable, "-m", "toolglot.cli.main", "chat", "--tools", "my_tools:all", *words]
        super().__init__(command, env=around, columns=columns, lines=lines, cwd=folder)

    @property
    def waits(self) -> bool:
        """The last line says what is talked to: above it is the prompt."""
        return ["", *filter(None, self.screen)][-1].startswith(" simulator:")

    @property
    def ready(self) -> bool:
        """The prompt is empty."""
        return self.waits and [line for line in self.screen if line][-2] == ">"

    def wait_ready(self) -> None:
        self.wait_until(lambda: self.ready, "an empty prompt")

    def ask(self, text: str) -> None:
        """Says something at an empty prompt and does not wait for the answer."""
        self.wait_ready()
        self.type(text)
        self.wait_until(lambda: not self.ready, "what was typed")
        self.press("enter")

    def hear(self, text: str) -> None:
        """Says something and waits until it was dealt with."""
        self.ask(text)
        self.wait_ready()

    def wait_file(self, name: str) -> None:
        self.wait_until((self.folder / name).exists, f"the file {name!r}")

    def begin_waiting(self, name: str) -> None:
        """A turn with a tool that goes on until the file of this name is there, or it is stopped."""
        self.ask(f'call wait_for_it {{"name": "{name}"}}')
        self.wait_file(f"{name}-started")

    def leave(self) -> None:
        self.wait_ready()
        self.press("ctrl-d")
        assert self.wait_exit() == 0
        assert "Traceback" not in self.everything

    def says(self, line: str) -> int:
        """How often a line was exactly this."""
        return self.everything.split("\n").count(line)


class TestConversation:
    @pytest.mark.parametrize(
        ("wire", "other"),
        [("openai-chat", "gemini"), ("anthropic", "ollama"), ("openai-responses", "openai-chat")],
    )
    def test_tools_approvals_another_model_and_ctrl_c(self, wire: str, other: str, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", f"simulator:{wire}") as chat:
            chat.hear("What is the weather in Paris?")
            assert "get_weather: Paris: 21 degrees." in chat.everything
            chat.ask('call delete {"path": "a.txt"}')
            chat.wait_for("y yes")
            assert not (tmp_path / "deleted").exists()
            chat.type("y")
            chat.wait_ready()
            assert "delete: deleted a.txt." in chat.everything
            chat.hear(f"/model simulator:{other}")
            assert f"switched to simulator:{other}/" in chat.everything
            chat.hear("What is the weather in Oslo?")
            assert "get_weather: Oslo: 21 degrees." in chat.everything
            chat.begin_waiting("never")
            chat.press("ctrl-c")
            chat.wait_ready()
            assert (tmp_path / "never-stopped").exists()
            assert re.search(r"wait_for_it .*stopped", chat.everything)
            chat.hear("say still here")
            assert chat.says("still here") == 1
            chat.leave()

    def test_a_stream_that_stalls_can_be_stopped(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            chat.paste("say hello my friend\nfault stall")
            chat.press("enter")
            chat.wait_for(re.compile("^hello", re.MULTILINE))
            chat.press("ctrl-c")
            chat.hear("say go on")
            assert chat.says("go on") == 1
            chat.leave()


def test_approval_shows_what_hides_and_only_an_answer_approves(tmp_path: Path) -> None:
    with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
        chat.ask('call delete {"path": "a\\u202egnp.exe \\u001b[2J\\u200bb"}')
        chat.wait_for("y yes")
        assert "a⟨U+202E⟩gnp.exe ␛[2J⟨U+200B⟩b" in chat.everything
        assert "\u202e".encode() not in chat.raw
        chat.type("wait, what? okay a")
        chat.press("enter")
        chat.wait_for("please answer")
        assert not (tmp_path / "deleted").exists()
        chat.wait_for("y yes", times=2)
        chat.type("n")
        chat.wait_ready()
        assert "It did not run" in chat.one_line
        chat.ask('call delete {"path": "a.txt"}')
        chat.wait_for("y yes", times=3)
        chat.press("escape")  # stops the turn, as Ctrl-C does
        chat.wait_for("stopped; the conversation is valid")
        chat.wait_ready()
        chat.ask('call delete {"path": "a.txt"}')
        chat.wait_for("y yes", times=4)
        chat.press("ctrl-c")
        chat.hear("say go on")
        assert chat.says("go on") == 1
        chat.ask('call wait_for_it {"name": "it"} then call delete {"path": "precious"}')
        chat.wait_file("it-started")
        chat.type("yes, and say more")  # before the question is asked
        (tmp_path / "it").touch()
        chat.wait_for("y yes", times=5)
        chat.wait_quiet()
        assert not (tmp_path / "deleted").exists()
        chat.type("n")
        chat.wait_for("It did not run", times=2)
        assert not (tmp_path / "deleted").exists()
        chat.wait_until(lambda: chat.waits, "a prompt")
        chat.press("ctrl-a", "ctrl-k")
        chat.leave()


class TestKeys:
    def test_many_lines_history_and_what_is_typed_during_a_turn(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            chat.type("call get_weather")
            chat.press("alt-enter")
            chat.type("and say nothing else\\\nsay last\n")
            chat.wait_for(re.compile("^last$", re.MULTILINE))
            chat.wait_ready()
            assert "> call get_weather\n  and say nothing else\n  say last\n" in chat.everything
            chat.begin_waiting("it")
            chat.type("say typed ahead\nsay unfin")
            (tmp_path / "it").touch()
            chat.wait_for(re.compile("^typed ahead$", re.MULTILINE))
            chat.wait_for("> say unfin")
            chat.type("ished\n")
            chat.wait_ready()
            assert chat.says("unfinished") == 1
            chat.press("up", "enter")
            chat.wait_for(re.compile("^unfinished$", re.MULTILINE), times=2)
            chat.leave()

    def test_no_tool_takes_keys_colors_are_no_mouse_and_ctrl_c_twice_leaves(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.ask("call read_a_key {}")
            chat.wait_for("read_a_key: Error", timeout=5)
            chat.hear("say still mine")
            assert chat.says("still mine") == 1
            chat.type("\x1b[31msay still here\r")
            chat.wait_for("still here", times=2)
            assert "Exception" not in chat.everything
            chat.wait_ready()
            chat.type("never mind")
            chat.wait_for("> never mind")
            chat.press("ctrl-c")
            chat.wait_ready()
            chat.press("ctrl-c")
            chat.wait_for("again to exit")
            chat.wait_ready()
            chat.press("ctrl-c")
            assert chat.wait_exit() == 0
            assert "Traceback" not in chat.everything

    def test_ctrl_c_drops_what_was_pasted_after_the_prompt_and_twice_leaves(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            # a paste without brackets
            chat.type('call wait_for_it {"name": "never"}\nsay one\nsay two\nsay thr')
            chat.wait_file("never-started")
            chat.press("ctrl-c")
            chat.wait_for("stopped; the conversation")
            chat.wait_ready()
            assert "what you typed ahead was not sent; Up brings it back" in chat.everything
            chat.press("up")
            chat.wait_for("> say thr")
            chat.press("up", "up")
            chat.wait_for(re.compile("^> say one$", re.MULTILINE))
            chat.press("ctrl-c")
            chat.wait_ready()
            chat.press("ctrl-c")  # stopping the turn was not the first one
            chat.wait_for("press Ctrl-C again to exit")
            chat.hear("say still here")
            chat.press("ctrl-c")
            chat.wait_for("press Ctrl-C again to exit", times=2)
            chat.wait_ready()
            chat.press("ctrl-c")
            assert chat.wait_exit() == 0
            assert chat.says("still here") == 1
            assert not re.search("^(one|two|three)$", chat.everything, re.MULTILINE)

    def test_escape_at_the_prompt_does_not_take_the_next_key_with_it(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            chat.press("escape")
            chat.wait_quiet()
            chat.type("/cost\n")
            chat.wait_for("nothing has been sent yet")
            chat.wait_ready()
            chat.type("say one")
            chat.press("alt-enter")
            chat.type("then\n")
            chat.wait_for("> say one\n  then\n")
            chat.leave()

    def test_enter_between_two_prompts_sends(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "slow.jsonl")
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            chat.type("/load slow.jsonl\n")
            with (tmp_path / "slow.jsonl").open("wb"):  # once the chat reads it
                chat.type("say in between\n")
            chat.wait_for(re.compile("^in between$", re.MULTILINE))
            assert "> say in between\nin between\n" in chat.everything
            chat.leave()

    def test_a_line_reaches_the_run_and_can_be_edited_until_then(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.begin_waiting("it")
            chat.type("say hurry\n\n")
            chat.wait_for("> say hurry")
            chat.press("up")
            chat.type(" up\n/cost\nsay later\n")
            chat.wait_for("> say later")
            (tmp_path / "it").touch()
            chat.wait_for("2 requests")
            chat.wait_for(re.compile("^later$", re.MULTILINE))
            chat.wait_ready()
            text = chat.everything
            assert chat.says("hurry") == 0
            assert text.count("> say hurry up") >= 1
            answer = text.index("\nhurry up", text.index("wait_for_it"))
            assert answer < text.index("2 requests") < text.rindex("> /cost") < text.rindex("> say later")
            chat.press("up", "up", "up")
            chat.wait_until(
                lambda: text.count("> say hurry up") < chat.everything.count("> say hurry up"), "it again"
            )
            chat.press("ctrl-c")
            chat.leave()

    @pytest.mark.parametrize("columns", [80, 120])
    def test_a_sub_agent_has_one_line(self, columns: int, tmp_path: Path) -> None:
        """What it does now while it works, then what it has used; its questions say who asks."""
        steps = 'call wait_for_it {"name": "it"}\nthen call delete {"path": "a.txt"}'
        with Chat(tmp_path, "-m", "simulator:openai-chat", columns=columns) as chat:
            chat.ask(f"call research {json.dumps({'prompt': steps})}")
            chat.wait_for(re.compile('^. research \\d+ s  wait_for_it name: "it"$', re.MULTILINE))
            (tmp_path / "it").touch()
            chat.wait_for("? delete wants to run for research")
            chat.wait_for("y yes")
            chat.wait_quiet()
            chat.type("y")
            chat.wait_for("deleted a.txt.")
            chat.wait_ready()
            [line] = [line for line in chat.everything.splitlines() if line.startswith("● research")]
            assert re.fullmatch(r"● research prompt: .*…  \d+\.\d s · 3 requests, \d+ tokens · /show 1", line)
            assert not [
                line for line in chat.everything.splitlines() if re.match(r"● (wait_for_it|delete)", line)
            ]
            chat.hear("/show 1")
            chat.wait_for(re.compile('^● delete path: "a.txt" ', re.MULTILINE))
            chat.leave()

    @pytest.mark.parametrize("columns", [80, 120])
    def test_escape_stops_a_turn_and_what_is_typed_is_visible(self, columns: int, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat", columns=columns) as chat:
            chat.begin_waiting("it")
            chat.type("say typed ahead\nsay unfix\x7fnished")
            chat.wait_for(re.compile("^> say typed ahead\n> say unfinished$", re.MULTILINE))
            chat.press("up")  # begins with the same byte as Esc
            chat.type("!")
            chat.wait_for("> say unfinished!")
            assert not (tmp_path / "it-stopped").exists()
            (tmp_path / "it").touch()
            chat.wait_for(re.compile("^typed ahead$", re.MULTILINE))
            chat.wait_until(lambda: chat.waits, "a prompt")
            chat.press("ctrl-a", "ctrl-k")
            chat.begin_waiting("never")
            chat.press("escape")
            chat.wait_for("stopped; the conversation is valid")
            assert (tmp_path / "never-stopped").exists()
            chat.ask('call delete {"path": "a.txt"}')
            chat.wait_for("y yes")
            chat.wait_quiet()
            chat.type("y")
            chat.wait_for("delete: deleted a.txt.")
            chat.begin_waiting("never2")
            chat.press("escape")
            chat.wait_for("stopped; the conversation is valid", times=2)
            chat.hear("say still here")
            assert chat.says("still here") == 1
            chat.leave()

    @pytest.mark.parametrize("columns", [80, 120])
    def test_tab_completes_a_file_which_is_attached_and_exit_leaves(
        self, columns: int, tmp_path: Path
    ) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes/shopping-list.txt").write_text("milk")
        with Chat(tmp_path, "-m", "simulator:openai-chat", columns=columns) as chat:
            chat.wait_ready()
            chat.type("say done @no")
            chat.press("ctrl-i")
            chat.wait_for("> say done @notes/")
            chat.press("ctrl-i")
            chat.wait_for("@notes/shopping-list.txt")
            chat.press("enter")
            chat.wait_for("attached: shopping-list.txt")
            chat.wait_ready()
            chat.hear("/clear")
            assert "shopping-list" not in "\n".join(chat.screen)
            chat.type("exit\n")
            assert chat.wait_exit() == 0


class TestWindow:
    def test_a_narrow_window_shows_everything(self, tmp_path: Path) -> None:
        path = "/home/somebody/documents/letters/to-a-friend.txt"
        with Chat(tmp_path, "-m", "simulator:anthropic", columns=20, lines=24) as chat:
            chat.hear("What is the weather in Paris?")
            assert "get_weather: Paris: 21 degrees." in chat.one_line
            chat.ask(f'call delete {{"path": "{path}"}}')
            chat.wait_until(lambda: "yyes" in _squeeze(chat), "the question")
            assert path in _squeeze(chat).rpartition("wantstorun")[2]
            chat.type("y")
            chat.wait_ready()
            assert (tmp_path / "deleted").exists()
            chat.leave()

    def test_a_new_size_in_the_middle_of_anything(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-responses") as chat:
            chat.wait_ready()
            chat.type("say a line that is longer than the window will be")
            chat.wait_for("will be")
            chat.resize(30, 12)
            chat.wait_until(lambda: "longerthanthewindowwillbe" in _squeeze(chat), "the line, wrapped")
            chat.resize(80, 24)
            chat.wait_for("> say a line that is longer than the window will be")
            chat.press("enter")
            chat.wait_ready()
            assert chat.says("a line that is longer than the window will be") == 1
            chat.begin_waiting("it")
            chat.resize(40, 10)
            drawn = len(chat.raw)
            chat.wait_until(lambda: len(chat.raw) > drawn, "anything new")
            chat.resize(100, 32)
            (tmp_path / "it").touch()
            chat.wait_ready()
            assert "wait_for_it: it came." in chat.everything
            assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", chat.everything)
            chat.leave()

    def test_the_greeting_names_tools_that_cannot_be_used(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:openai-chat", "--builtin") as chat:
            chat.wait_ready()
            assert "web_search not offered: run toolglot doctor to see why" in chat.everything
            chat.leave()

    def test_without_colours(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:anthropic", NO_COLOR="1") as chat:
            chat.hear("What is the weather in Paris?")
            chat.leave()
        assert not COLOURS.search(chat.raw)

    def test_a_dumb_terminal_gets_plain_lines(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:anthropic", TERM="dumb") as chat:
            chat.wait_for("/help")
            chat.type("What is the weather in Paris?\n")
            chat.wait_for("get_weather: Paris: 21 degrees.")
            chat.type('call delete {"path": "a.txt"}\n')
            chat.wait_for("y yes", timeout=5)
            chat.type("y\n")
            chat.wait_for("delete: deleted a.txt.", timeout=5)
            chat.type('call wait_for_it {"name": "never"}\n')
            chat.wait_file("never-started")
            chat.press("ctrl-c")
            chat.wait_for("stopped")
            chat.type("say still here\n")
            chat.wait_for(re.compile("^(> )?still here$", re.MULTILINE), timeout=5)
            chat.press("ctrl-d")
            assert chat.wait_exit() == 0
        assert b"\x1b" not in chat.raw

    @pytest.mark.parametrize("columns", [80, 120])
    def test_a_dumb_terminal_breaks_lines_between_words(self, columns: int, tmp_path: Path) -> None:
        words = [f"word{number}" for number in range(60)]
        prompt = f"say {' '.join(words)}"
        with Chat(tmp_path, "-m", "simulator:anthropic", prompt, TERM="dumb", columns=columns) as chat:
            chat.wait_for(re.compile(r"tokens in.* out$", re.MULTILINE))
            chat.type("/help\n")
            chat.wait_for("/quit")
            lines = chat.everything.split("\n")
            assert max(map(len, lines)) < columns
            assert len([line for line in lines if line.startswith("word")]) >= 4
            assert chat.one_line.count(" ".join(words)) == 2
            chat.press("ctrl-d")
            assert chat.wait_exit() == 0

    def test_ctrl_c_twice_leaves_a_dumb_terminal(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:anthropic", TERM="dumb") as chat:
            chat.wait_for(re.compile("^>", re.MULTILINE))
            chat.press("ctrl-c")
            chat.wait_for("again to exit")
            chat.press("ctrl-c")
            assert chat.wait_exit() == 0

    def test_a_paste_attaches_no_file(self, tmp_path: Path) -> None:
        with Chat(tmp_path, "-m", "simulator:anthropic") as chat:
            (tmp_path / "home/.ssh").mkdir(parents=True)
            (tmp_path / "home/.ssh/id_rsa").write_text("SECRET")
            chat.wait_ready()
            report = "\n".join(f"line {number} of a report" for number in range(60))
            chat.paste(f"{report}\ncc @~/.ssh/id_rsa\n")
            chat.wait_for("pasted text 1")
            chat.press("enter")
            chat.wait_for("@~/.ssh/id_rsa was not typed and is not attached")
            chat.wait_ready()
            chat.press("up", "enter")  # nor is it attached when it is sent again
            chat.wait_for("@~/.ssh/id_rsa was not typed and is not attached", times=2)
            chat.hear("/save saved.jsonl")
            chat.leave()
        assert "SECRET" not in (tmp_path / "saved.jsonl").read_text()

    def test_a_very_long_answer_is_shown_whole_and_once(self, tmp_path: Path) -> None:
        words = [f"w{number}" for number in range(34_000)]
        with Chat(tmp_path, "-m", "simulator:openai-chat") as chat:
            chat.wait_ready()
            chat.paste(f"say {' '.join(words)}")
            chat.wait_for("pasted text 1")
            chat.press("enter")
            chat.wait_until(lambda: words[-1].encode() in chat.raw, "the last word")
            chat.wait_ready()
            shown = re.findall(r"\bw\d+", chat.everything)
            assert [word for word, times in Counter(shown).items() if times > 1] == []
            assert {*words} - {*shown} == set()
            assert (shown == words) is True
            chat.leave()


def _squeeze(chat: Chat) -> str:
    return "".join(chat.everything.split())


def test_mcp_servers_start_meanwhile_and_ask(tmp_path: Path) -> None:
    server = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
    os.mkfifo(tmp_path / "go")
    servers = {
        "local": {"command": sys.executable, "args": [str(server), str(tmp_path)]},
        "late": {"command": "sh", "args": ["-c", f"read x < {tmp_path}/go; echo too bad >&2; exit 3"]},
    }
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    with Chat(
        tmp_path, "-m", "simulator:anthropic", "--mcp-config", "servers.json", "--approve", "mcp__local__ask"
    ) as chat:
        chat.wait_ready()
        chat.type("call mcp__local__ask {}")
        chat.wait_for("> call mcp__local__ask {}")
        (tmp_path / "go").write_text("now\n")
        chat.wait_for("MCP server late cannot be used: it exited with code 3; last output: too bad")
        chat.wait_for("> call mcp__local__ask {}")  # what was typed is still there, below
        chat.press("enter")
        chat.wait_for("y answer · n decline")
        assert "local asks: " in chat.everything
        chat.type("y")
        for question, answer in (("name: ", "Ada"), ("age [30]: ", ""), ("color [-]: ", "green")):
            chat.wait_for(question)
            chat.wait_quiet()
            chat.type(answer)
            chat.press("enter")
        chat.wait_ready()
        assert "Ada" in chat.everything.rpartition("color [-]")[2]
        chat.type("/loc")
        chat.press("ctrl-i")  # Tab
        chat.wait_for("> /local:explain")
        chat.type(" tea")
        chat.press("enter")
        chat.wait_for("local:explain: Explain tea.")
        chat.leave()
