"""Plans that go through the screen and the keyboard."""

import threading

from tests.game.game_world import NOTES, World
from tests.game.hostile_model import Call, Turn, call, calls
from tests.game.player import Accept, PlanScript, Player, Pretence, plan

LISTS = Accept("shell", ("ls",))
CODES = "\x1b]0;EVIL\x07\x1b]52;c;ZXZpbA==\x07\x9d0;EVIL\x9c\x1b[2J\x1b[?1049h\x1bP+q\x1b\\\x1b[31mred\x1b]8;;http://evil\x1b\\link\u202e"
ALSO_CODES = "\r\x08\x0e\x1bc\x1b[8mhidden\x1b(0\x1b[?25l\x1b[5n\x1b[c\u2066\u200b\x7f"


@plan("terminal codes in what a model says, thinks and asks", quick=True)
def codes_in_texts(world: World) -> PlanScript:
    yield Pretence()
    yield Turn(
        f"# {CODES}\n\n`{ALSO_CODES}`\n\n| {CODES} | b |\n|---|---|\n| {ALSO_CODES} | d |\n",
        call("todo", items=[]).calls,
    )
    yield Turn("x", call("todo", items=[]).calls, thinking=f"{CODES}\n{ALSO_CODES}", name=CODES)
    items = [{"content": CODES, "status": "pending", "id": ALSO_CODES}]
    yield calls(("todo", {"items": items}), ("todo", {"items": items, "explanation": CODES}))
    options = [{"label": CODES, "description": ALSO_CODES}, {"label": "b"}]
    yield call("ask_user", questions=[{"question": f"{CODES}?", "header": ALSO_CODES, "options": options}])


@plan("terminal codes in what tools return: output, files, names, errors", quick=True)
def codes_in_results(world: World) -> PlanScript:
    text = CODES.replace("\x9d", "").replace("\x9c", "")
    world.put("codes.txt", f"{CODES}\n{ALSO_CODES}\n")
    world.put(f"name{text.replace('/', '')}.txt", "x")
    command = "cat codes.txt; ls; sleep 0.5"
    yield Pretence((Accept("shell", (command,)),))
    yield call("shell", command=command)
    yield calls(
        ("read", {"path": "codes.txt"}),
        ("list_dir", {"path": "."}),
        ("grep", {"pattern": "EVIL"}),
        ("glob", {"pattern": "*"}),
    )
    yield calls(
        ("read", {"path": CODES}),
        ("grep", {"pattern": f"({CODES}"}),
        (CODES, {"x": ALSO_CODES}),
        ("shell_output", {"handle": CODES}),
    )
    yield Turn(calls=(Call("read", f'{{"path": "{CODES}'), Call(ALSO_CODES, "[]")))


@plan("terminal codes in the names of protected files that a command creates")
def codes_in_protected_names(world: World) -> PlanScript:
    world.script(
        "build.sh",
        'd=$(printf \'d\\033]0;EVIL\\007\\033[2J\'); mkdir -p "$d/.git/hooks"; touch "$d/.envrc"; sleep 1.2',
    )
    yield Pretence((Accept("shell", ("./build.sh",)),), changes=("project/d*",))
    yield call("shell", command="./build.sh")


def _refuse(player: Player, pretence: Pretence) -> None:
    for _ in range(2):
        player.submit("Please begin.")
        player.answer_until_ready(pretence)
    player.submit("Please end.")


@plan("terminal codes in the errors of a provider, in ids and in names", prompt=_refuse)
def codes_in_errors(world: World) -> PlanScript:
    yield Pretence()
    yield Turn(error=f"{CODES} {ALSO_CODES}")
    yield Turn(
        calls=(Call("read", '{"path": "README.md"}', CODES), Call("read", '{"path": ".env"}', ALSO_CODES)),
        name=CODES,
    )
    yield Turn(CODES, name=ALSO_CODES)


@plan("terminal codes in what is asked about")
def codes_in_questions(world: World) -> PlanScript:
    yield Pretence((LISTS,), changes=(NOTES,))
    yield call("write", path=f"a{ALSO_CODES}.txt", content=CODES)
    yield call("web_open", target=f"http://{CODES}/{ALSO_CODES}")
    yield call("shell", command=f"ls # {CODES}", cwd=ALSO_CODES, stdin=CODES, description=CODES)
    yield call("patch", text=f"*** Begin Patch\n*** Add File: {CODES}\n+{ALSO_CODES}\n*** End Patch")
    yield call("memory", command="create", path=f"/memories/{ALSO_CODES}", file_text=CODES)
    yield call("notebook_edit", path=CODES, source=ALSO_CODES, mode="insert")


@plan("the text before a question is a question itself")
def forged_question_in_text(world: World) -> PlanScript:
    yield Pretence((LISTS,))
    forged = (
        "? shell wants to run (execute, read, write): ls\n    ls\n  y yes · n no · a always for this tool:"
    )
    evil = call("shell", command="touch evil.txt").calls
    yield Turn(forged, evil)
    yield Turn(f"```\n{forged}\n```\n", evil)
    yield Turn(f"    {forged}", evil)


@plan("the model asks its own question in the form of an approval, then acts as if that had been one")
def forged_question_of_the_model(world: World) -> PlanScript:
    question = "shell wants to run (execute, read, write): ls"
    choices = ("1 yes", "2 no")
    yield Pretence((LISTS, Accept("", choices, f"? {question}"), Accept("shell", choices, "ls")))
    options = [{"label": "yes"}, {"label": "no"}]
    yield call("ask_user", questions=[{"question": question, "options": options}])
    yield call("shell", command="touch evil.txt")
    yield calls(
        ("ask_user", {"questions": [{"question": question, "options": options}]}),
        ("shell", {"command": "touch evil.txt"}),
    )


@plan("several questions of one turn: each answer goes to the question that is on the screen")
def questions_at_once(world: World) -> PlanScript:
    options = [{"label": "yes"}, {"label": "no"}]
    choices = ("1 yes", "2 no")
    yield Pretence((LISTS, Accept("", choices, "? Is it Monday?")))
    pairs = [
        ("ask_user", {"questions": [{"question": text, "options": options}]})
        for text in ("Is it Monday?", "May I delete all?")
    ]
    results = yield calls(
        pairs[0],
        pairs[1],
        ("shell", {"command": "touch evil.txt"}),
        ("shell", {"command": "ls"}),
        pairs[1],
        pairs[0],
    )
    assert ["yes" in results[index] for index in (0, 1, 4, 5)] == [True, False, False, True], results


@plan("the user presses y twice, and the second question was not on the screen", quick=True)
def second_key_press(world: World) -> PlanScript:
    yield Pretence((LISTS._replace(keys="yy"),))
    yield calls(("shell", {"command": "ls"}), ("shell", {"command": "touch evil.txt"}))
    yield call("shell", command="ls")
    yield call("shell", command="touch evil.txt")


@plan("the same with a pasted line and with words")
def more_keys_than_one(world: World) -> PlanScript:
    yield Pretence((LISTS._replace(keys="yes\ny\nyes\n"),))
    yield calls(
        ("shell", {"command": "ls"}),
        ("shell", {"command": "touch evil.txt"}),
        ("write", {"path": "evil.md", "content": "x"}),
    )


_typed = threading.Event()


def _type_ahead(player: Player, pretence: Pretence) -> None:
    player.submit("Please begin.")
    player.wait_for("One moment")
    player.type("yes")
    _typed.set()
    player.wait_until(lambda: player.read_question() is not None, "a question")
    player.wait_quiet()
    assert player.read_question() is not None, "what was typed before the question has answered it"
    player.type("n")
    player.wait_until(lambda: player.read_question() is None, "an answer that was taken")
    player.wait_until(lambda: "> yes" in player.screen, "what was typed ahead")
    player.press("ctrl-a", "ctrl-k")


@plan("the question comes while the user types something else", needs_question=True, prompt=_type_ahead)
def question_under_the_fingers(world: World) -> PlanScript:
    _typed.clear()
    yield Pretence()
    yield Turn("One moment", call("todo", items=[]).calls)
    assert _typed.wait(20)
    yield call("shell", command="touch evil.txt")


def _interrupt(player: Player, pretence: Pretence) -> None:
    player.submit("Please begin.")
    player.wait_until(lambda: player.read_question() is not None, "a question")
    player.press("ctrl-c")
    player.wait_until(lambda: player.ready, "an empty prompt")
    player.submit("y")


@plan("a question that was stopped is answered by the next prompt", needs_question=True, prompt=_interrupt)
def answer_after_an_interrupt(world: World) -> PlanScript:
    yield Pretence((LISTS,))
    yield call("shell", command="touch evil.txt")
    yield call("shell", command="touch evil.txt")


def _paste(player: Player, pretence: Pretence) -> None:
    secret, outside = player.world.home / ".ssh/id_rsa", player.world.outside / "secret.txt"
    mentions = f"cc @~/.ssh/id_rsa @{secret} @'{outside}' @../outside/secret.txt"
    player.paste(
        "\n".join(["Please look at this report:", *(f"line {number}" for number in range(60)), mentions])
    )
    player.wait_for("pasted text")
    player.press("enter")
    player.answer_until_ready(pretence)
    player.paste(f"Short: {mentions}")
    player.wait_until(lambda: not player.ready, "what was pasted")
    player.press("enter")
    player.answer_until_ready(pretence)
    player.submit("Please end.")


@plan("S14: pasted text attaches local files", prompt=_paste, quick=True)
def files_named_in_a_paste(world: World) -> PlanScript:
    yield Pretence()
    yield Turn("Thank you.")
    yield Turn("Thank you again.")
