"""Render what SECURITY.md promises, and the page with the tests of each promise, from tests/promises.toml."""

import tomllib
from pathlib import Path
from typing import NotRequired, TypedDict, cast

PROMISES = Path(__file__).resolve().parent.parent / "tests" / "promises.toml"


class SecurityPromise(TypedDict):
    """One line of SECURITY.md."""

    id: str
    promise: str
    details: NotRequired[str]
    more: NotRequired[str]
    """What else shows it: a command."""
    tests: list[str]


class PromiseGroup(TypedDict):
    """The promises about one thing that is protected."""

    title: str
    promises: list[SecurityPromise]


def read_groups() -> list[PromiseGroup]:
    """Read the promises."""
    return cast(list[PromiseGroup], tomllib.loads(PROMISES.read_text(encoding="utf-8"))["groups"])


def render_promises() -> str:
    """SECURITY.md: one line a promise."""
    parts = [
        f"### {group['title']}\n\n"
        + "\n".join(f"- {promise['promise']}" for promise in group["promises"])
        for group in read_groups()
    ]
    return "\n" + "\n\n".join(parts) + "\n"


def render_security_tests() -> str:
    """docs/security-tests.md: every promise with its details and its tests."""
    parts = [
        "# What is promised, and its tests",
        "Generated from `tests/promises.toml` by `make docs`. `SECURITY.md` in the repository has the threat model, and "
        "what is not promised. Every test can be run as it is written here, in a checkout in which `make check` has run "
        "once; without a name, the second command runs all of them:",
        "```sh\n.venv/bin/python -m pytest tests/mcp/test_server_http.py::test_always_is_for_sessions_only\n"
        ".venv/bin/python -m tests.promises client-sessions terminal   # or no name\n```",
    ]
    for group in read_groups():
        parts.append(f"## {group['title']}")
        for promise in group["promises"]:
            # Links there are relative to the root of the repository.
            texts = (promise["promise"], promise.get("details", ""))
            text = (
                " ".join(filter(None, texts))
                .replace("](docs/", "](")
                .replace(
                    "[the table](#commands-by-level-and-platform)", "the table in `SECURITY.md`"
                )
            )
            parts.append(f"### {promise['id']}\n\n{text}")
            lines = [f"- `{test}`" for test in promise["tests"]]
            if "more" in promise:
                lines.append(f"- {promise['more']}")
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
