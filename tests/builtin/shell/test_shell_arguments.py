"""Bad arguments: each is refused with a short error of a known kind, and nothing is run."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell_kit import Kit, text_of

from toolglot.confine.sandbox import SandboxLevel

LONG = "x" * 200_000
NUMBERS: list[Any] = [-1, -0.001, 7201, 1e300, "soon", [], {}, [1], {"s": 1}, "1e999", "-5", "NaN", "9" * 400]
PATHS: list[Any] = [
    *(
        "..",
        "/",
        "/etc",
        "../..",
        "nothing",
        "sub/../../..",
        "/proc/self/cwd",
        "~",
        "file",
        "file/",
        "a\0b",
        "x" * 300,
    ),
    *(
        "x/" * 3000,
        "link-out",
        "link-out/etc",
        "loop",
        "\ud800",
        "//etc",
        "/..",
        "./../x",
        "..%2f",
        "C:\\",
        "con",
        [],
        {},
        1.5,
    ),
]
COUNTS: list[Any] = [0, -1, 10**9, "many", [], 1.5, "1e9"]
TEXTS: list[Any] = [[], {}, [1], {"a": 1}, ["\0"], "\ud800", LONG * 6]
SHELL: list[dict[str, Any]] = [
    {},
    {"command": ""},
    {"command": "  \n\t "},
    {"command": None},
    {"argv": []},
    {"argv": [""]},
    {"argv": "  "},
    {"argv": [["touch", "ran"]]},
    {"argv": {"0": "touch"}},
    {"argv": ["touch", "ran\0"]},
    {"argv": ["touch"] * 2000},
    {"argv": ["touch", LONG]},
    {"argv": [None, "ran"]},
    {"command": "touch ran", "argv": ["touch", "ran"]},
    {"command": "touch ran\0"},
    {"command": f"touch ran; {LONG}"},
    {"command": "touch ran \ud800"},
    {"command": {"run": "touch ran"}},
    {"command": ["touch", ["ran"]]},
    *({"command": "touch ran", "cwd": path} for path in PATHS),
    *({"command": "touch ran", "timeout": number} for number in NUMBERS),
    *({"command": "touch ran", "inactivity_timeout": number} for number in NUMBERS[:6]),
    *({"command": "touch ran", "yield_after": number} for number in NUMBERS[:6]),
    *({"command": "touch ran", "max_output": number} for number in COUNTS),
    *({"command": "touch ran", "stdin": text} for text in TEXTS if text != ["\0"]),
    *(
        {"command": "touch ran", "env": env}
        for env in ({"A=B": "x"}, {"": "x"}, {"A": "\0"}, "A", ["A"], {"A": ["x"]}, 7)
    ),
    *(
        {"command": "touch ran", name: "perhaps"}
        for name in ("background", "tty", "login", "escalate", "restart")
    ),
    *(
        {"command": "touch ran", name: [True, False]}
        for name in ("background", "tty", "login", "escalate", "restart")
    ),
    {"command": "touch ran", "description": {"a": 1}},
    {"command": "touch ran", "escalate": True},
]
HANDLES: list[Any] = [
    *(
        "",
        " ",
        "0",
        "-1",
        "1",
        "99999999",
        "../1",
        "1\0",
        "one",
        "1;2",
        "\ud800",
        "x" * 100_000,
        "1.5",
        "\uff11",
        "\u0661",
    ),
    *("\n", "'", "%s", "{}", [], {}, ["1"], {"handle": "1"}, None, True, 1.5, 0, -1, 10**30),
]
OUTPUT: list[dict[str, Any]] = [
    {},
    *({"handle": handle} for handle in HANDLES),
    *({"handle": "1", "timeout": number} for number in NUMBERS),
    *({"handle": "1", "wait_first": number} for number in NUMBERS),
    *({"handle": "1", "tail_lines": number} for number in COUNTS),
    *({"handle": "1", "max_output": number} for number in COUNTS),
    *({"handle": "1", "input": text} for text in TEXTS if text != ["\0"]),
    {"handle": "1", "filter": "("},
    {"handle": "1", "filter": [1]},
    {"handle": "1", "wait": "perhaps"},
]
KILL: list[dict[str, Any]] = [{}, *({"handle": handle} for handle in HANDLES)]
KINDS = {"validation", "not_found", "not_allowed", "rejected", "limit", "execution"}


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Generator[Kit]:
    kit = Kit(tmp_path_factory.mktemp("wrong"), SandboxLevel.NONE)
    (kit.work / "file").write_text("")
    (kit.work / "link-out").symlink_to("/")
    (kit.work / "loop").symlink_to("loop")
    yield kit
    kit.close()


def short(value: dict[str, Any]) -> str:
    return ascii(value)[:60]


async def assert_refused(kit: Kit, name: str, arguments: dict[str, Any]) -> None:
    before = sorted(path.name for path in kit.work.iterdir())
    outcome = await kit.call(name, arguments)
    text = text_of(outcome)
    assert outcome.result.is_error, text
    assert outcome.result.error_kind in KINDS
    assert text
    assert "Traceback" not in text
    assert "Errno" not in text
    assert len(text) < 2000
    assert sorted(path.name for path in kit.work.iterdir()) == before


# Without a sandbox there is nothing to escalate: the command runs, as it was approved.
@pytest.mark.parametrize(
    "arguments", [arguments for arguments in SHELL if arguments.get("escalate") is not True], ids=short
)
async def test_shell(kit: Kit, arguments: dict[str, Any]) -> None:
    await assert_refused(kit, "shell", arguments)


@pytest.mark.parametrize("arguments", OUTPUT, ids=short)
async def test_shell_output(kit: Kit, arguments: dict[str, Any]) -> None:
    await assert_refused(kit, "shell_output", arguments)


@pytest.mark.parametrize("arguments", KILL, ids=short)
async def test_shell_kill(kit: Kit, arguments: dict[str, Any]) -> None:
    await assert_refused(kit, "shell_kill", arguments)


@pytest.mark.parametrize("arguments", [{}, {"handle": "1"}, {"all": True}, {"x": LONG}], ids=short)
async def test_shell_list(kit: Kit, arguments: dict[str, Any]) -> None:
    outcome = await kit.call("shell_list", arguments)
    assert (outcome.result.is_error, text_of(outcome)) == (False, "There are no background commands.")
