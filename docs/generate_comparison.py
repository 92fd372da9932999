"""The generated parts of docs/comparison.md: programs in several libraries, and what each library said.

The results are those that `python -m bench.comparison --write` kept beside the programs.
"""

import html
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from generate_tools import render_table

COMPARISONS = Path(__file__).resolve().parent.parent / "bench" / "comparison"
LIBRARIES = {"toolglot": "toolglot", "pydantic_ai": "pydantic-ai", "agents": "OpenAI Agents SDK"}

Libraries = dict[str, Any]
Answers = dict[str, dict[str, Any]]
"""Library -> what became of its program."""


def read_results(comparison: str) -> dict[str, Any]:
    """Read what the comparison kept, with "" and () for what was not kept because it was empty."""
    results = json.loads((COMPARISONS / comparison / "results.json").read_text(encoding="utf-8"))
    for library in results["libraries"].values():
        for answer in (library["right"], *library["mistakes"].values()):
            for name in ("pyright", "mypy", "raised", "told", "logged"):
                answer.setdefault(name, "")
            for name in ("printed", "sent", "settings"):
                answer.setdefault(name, [])
    return results


def render_programs(comparison: str, title: str = "With") -> str:
    """Render the program of each library. `title`: how the heading of each begins."""
    parts: list[str] = []
    for library in read_results(comparison)["libraries"]:
        source = (COMPARISONS / comparison / f"{library}_program.py").read_text(encoding="utf-8")
        parts.append(f"### {title} {LIBRARIES[library]}\n\n```py\n{source}```")
    return "\n\n".join(parts)


def render_results(comparison: str) -> str:
    """Render the overview, a table for each mistake, and what follows from them."""
    results = read_results(comparison)
    libraries: Libraries = results["libraries"]
    header = (
        "",
        *(f"{LIBRARIES[name]} {library['version']}" for name, library in libraries.items()),
    )
    overview = [("lines of the program", *(library["lines"] for library in libraries.values()))]
    details: list[str] = []
    for mistake, title in results["titles"].items():
        answers = {name: library["mistakes"][mistake] for name, library in libraries.items()}
        overview.append(
            (
                title.lower(),
                *(_summarize(answer, libraries[name]["right"]) for name, answer in answers.items()),
            )
        )
        rows = [(name, *cells) for name, cells in _describe(answers, libraries) if any(cells)]
        table = render_table(
            header, ((name, *(cell or "nothing" for cell in cells)) for name, *cells in rows)
        )
        details.append(f"### {title}\n\n{table}")
    tools = f"Python {results['python']}, pyright {results['pyright']} and mypy {results['mypy']}, both strict."
    return "\n\n".join((render_table(header, overview), tools, *details))


def _summarize(answer: dict[str, Any], right: dict[str, Any]) -> str:
    """Say in a few words who notices a mistake, and what becomes of the run."""
    checkers = [name for name in ("pyright", "mypy") if answer[name]]
    noticed = f"{' and '.join(checkers)}; " if checkers else ""
    if answer["raised"]:
        before = (
            "before the first request"
            if not answer["sent"]
            else f"at request {len(answer['sent'])}"
        )
        return f"{noticed}an exception {before}"
    if answer["told"] != right["told"]:
        return f"{noticed}the run goes on, the model sees an error"
    return f"{noticed}the run goes on as if nothing were wrong"


def _describe(answers: Answers, libraries: Libraries) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a mistake's table, with empty cells for what did not happen."""
    values = list(answers.values())
    yield "change", [_show_change(answer.get("change")) for answer in values]
    yield "pyright", [render_code(answer["pyright"]) for answer in values]
    yield "mypy", [render_code(answer["mypy"]) for answer in values]
    yield "exception", [render_code(answer["raised"]) for answer in values]
    if any(answer["raised"] for answer in values):
        yield (
            "requests until then",
            [str(len(answer["sent"])) if answer["raised"] else "" for answer in values],
        )
    yield (
        "the model sees",
        [
            render_code(answer["told"])
            if answer["told"] != libraries[name]["right"]["told"]
            else ""
            for name, answer in answers.items()
        ],
    )
    yield "stderr", [render_code(answer["logged"]) for answer in values]
    lost = [
        ", ".join(sorted(set(libraries[name]["right"]["settings"]) - set(answer["settings"])))
        for name, answer in answers.items()
    ]
    yield (
        "sent without",
        [
            render_code(names) if answer["sent"] else ""
            for names, answer in zip(lost, values, strict=True)
        ],
    )


def _show_change(change: list[str] | None) -> str:
    return f"{render_code(change[0])} → {render_code(change[1])}" if change else ""


def render_code(text: str) -> str:
    """Render a text as code in a cell of a table."""
    if not text:
        return ""
    if (
        "|" in text
    ):  # GitHub wants it escaped, also in backticks, where the site would show the escape
        return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


# ---- what follows

Claim = tuple[str, Callable[[Libraries], bool]]
"""A sentence, and whether the results support it."""


_OTHERS = ("pydantic_ai", "agents")


def _answer(libraries: Libraries, library: str, mistake: str) -> dict[str, Any]:
    return libraries[library]["mistakes"][mistake]


ORDERS_CLAIMS: tuple[Claim, ...] = (
    (
        "**Better in pydantic-ai:** The message for a wrong key contains the provider's whole error, with its code; "
        "in toolglot, look into `error.body`.",
        lambda libraries: (
            "invalid_api_key" in _answer(libraries, "pydantic_ai", "key")["raised"]
            and "invalid_api_key" not in _answer(libraries, "toolglot", "key")["raised"]
        ),
    ),
    (
        "**Better in pydantic-ai:** An unexpected exception in a tool ends the run, so that nobody overlooks a bug. "
        'toolglot does so only with `ToolConfig(on_error="abort")`; by default, it logs a warning.',
        lambda libraries: (
            bool(_answer(libraries, "pydantic_ai", "tool")["raised"])
            and bool(_answer(libraries, "toolglot", "tool")["logged"])
            and not _answer(libraries, "toolglot", "tool")["raised"]
        ),
    ),
    (
        "**Better in the Agents SDK:** The text of an unexpected exception, which may contain internals, reaches "
        "neither the model nor the provider. toolglot sends it, so that the model can react to the reason.",
        lambda libraries: (
            "database" not in _answer(libraries, "agents", "tool")["told"]
            and "database" in _answer(libraries, "toolglot", "tool")["told"]
        ),
    ),
    (
        "**Better in toolglot:** A misspelt setting is refused when the program runs; the others drop it in silence. "
        "The messages about misspelt names suggest the right ones.",
        lambda libraries: (
            "did you mean" in _answer(libraries, "toolglot", "option")["raised"]
            and "did you mean" in _answer(libraries, "toolglot", "setting")["raised"]
            and not any(
                _answer(libraries, name, "option")["raised"].endswith("?") for name in _OTHERS
            )
            and not any(_answer(libraries, name, "setting")["raised"] for name in _OTHERS)
            and not any(
                _answer(libraries, name, "setting")["settings"].count("temperature")
                for name in _OTHERS
            )
        ),
    ),
    (
        "**Better in toolglot:** Data of a wrong type is refused before the first request. With pydantic-ai, the tool "
        "fails; with the Agents SDK, it fails, and only the model hears of it.",
        lambda libraries: (
            not _answer(libraries, "toolglot", "data")["sent"]
            and "AttributeError" in _answer(libraries, "pydantic_ai", "data")["raised"]
            and not _answer(libraries, "agents", "data")["raised"]
            and not _answer(libraries, "agents", "data")["logged"]
        ),
    ),
    (
        "**Better in toolglot:** The message for a wrong key says which model and address it was for, and what to "
        "check. The program is the shortest.",
        lambda libraries: (
            all(
                part in _answer(libraries, "toolglot", "key")["raised"]
                for part in ("gpt-4.1", "http", "check")
            )
            and not any("http" in _answer(libraries, name, "key")["raised"] for name in _OTHERS)
            and all(libraries["toolglot"]["lines"] < libraries[name]["lines"] for name in _OTHERS)
        ),
    ),
    (
        "**The same:** pyright and mypy find the misspelt names and the data of a wrong type in all three.",
        lambda libraries: all(
            bool(_answer(libraries, name, mistake)[checker])
            for name in LIBRARIES
            for mistake in ("option", "setting", "data")
            for checker in ("pyright", "mypy")
        ),
    ),
)


# ---- programs that are started again


def render_restarts(comparison: str) -> str:
    """Render one table: a column for each library, a row for each situation."""
    results = read_results(comparison)
    libraries: Libraries = results["libraries"]
    header = (
        "",
        *(f"{LIBRARIES[name]} {library['version']}" for name, library in libraries.items()),
    )
    rows = [
        ("lines of the program", *(library["lines"] for library in libraries.values())),
        ("prints", *(_show_lines(library["right"]["printed"]) for library in libraries.values())),
    ]
    for mistake, title in results["titles"].items():
        cells = (
            _show_outcome(library["mistakes"][mistake], library["right"])
            for library in libraries.values()
        )
        rows.append((title.lower(), *cells))
    return render_table(header, rows)


def _show_outcome(answer: dict[str, Any], right: dict[str, Any]) -> str:
    """The exception that ends the program, after the lines that it would not print otherwise."""
    printed: list[str] = answer["printed"]
    usual: list[str] = right["printed"]
    same = 0
    while same < min(len(printed), len(usual)) and printed[same] == usual[same]:
        same += 1
    raised: str = answer["raised"]
    parts = [_show_lines(printed[same:]), f"exception: {render_code(raised)}" if raised else ""]
    return "<br>".join(filter(None, parts)) or "the same"


def _show_lines(lines: list[str]) -> str:
    return "<br>".join(map(render_code, lines))


def _pays(libraries: Libraries, library: str, situation: str, amount: int) -> bool:
    return f"paying {amount}" in _answer(libraries, library, situation)["printed"]


_BOTH = ("toolglot", "pydantic_ai")

SUBAGENT_CLAIMS: tuple[Claim, ...] = (
    (
        "**Better in toolglot:** `as_tool` does it: the run of the sub-agent is a part of the saved run. With "
        "pydantic-ai, the program keeps the inner conversation, forwards decisions and passes the usage on, in more "
        "than twice as many lines.",
        lambda libraries: (
            2 * libraries["toolglot"]["lines"] < libraries["pydantic_ai"]["lines"]
            and all("paying 90" in libraries[name]["right"]["printed"] for name in _BOTH)
        ),
    ),
    (
        "**Better in toolglot:** One of two payments can be decided on while the other one waits. pydantic-ai needs "
        "the decisions of a run all at once.",
        lambda libraries: (
            _pays(libraries, "toolglot", "two", 90)
            and not _pays(libraries, "toolglot", "two", 10)
            and "for all deferred" in _answer(libraries, "pydantic_ai", "two")["raised"]
        ),
    ),
    (
        "**Better in toolglot:** What is saved is signed: after somebody has edited it, an id approves nothing. With "
        "pydantic-ai, the edited amount is paid, unless the program protects what it stores.",
        lambda libraries: (
            "saved run was changed" in _answer(libraries, "toolglot", "amount")["raised"]
            and _pays(libraries, "pydantic_ai", "amount", 99)
        ),
    ),
    (
        "**The same:** The approval survives the restart; the tokens of both agents are counted, once; a decision on "
        "an unknown call, one after the end and an answer instead of a decision are refused.",
        lambda libraries: all(
            bool(_answer(libraries, name, situation)["raised"])
            for name in _BOTH
            for situation in ("unknown", "twice", "kind")
        ),
    ),
    (
        "**The same:** Whoever loads an old state again pays again. Replace what is stored, in one transaction with "
        "the payment if it matters.",
        lambda libraries: all(
            _answer(libraries, name, "old")["printed"].count("paying 90") == 2 for name in _BOTH
        ),
    ),
)

FRONTEND_CLAIMS: tuple[Claim, ...] = (
    (
        "**Better in toolglot:** The browser's answer is checked against its schema, and the model's arguments before "
        "the browser sees them: the model is told what is wrong. pydantic-ai passes both on.",
        lambda libraries: (
            "does not fit" in _answer(libraries, "toolglot", "schema")["raised"]
            and "invalid" in _answer(libraries, "toolglot", "arguments")["told"]
            and "soon" in _answer(libraries, "pydantic_ai", "schema")["told"]
            and "titel" in _answer(libraries, "pydantic_ai", "arguments")["printed"][0]
        ),
    ),
    (
        "**Better in toolglot:** A user may write something else instead of answering: the call ends as not answered. "
        "pydantic-ai refuses the prompt until the program has repaired the history (`repair_messages`).",
        lambda libraries: (
            not _answer(libraries, "toolglot", "prompt")["raised"]
            and "unprocessed tool calls" in _answer(libraries, "pydantic_ai", "prompt")["raised"]
        ),
    ),
    (
        "**The same:** Another process can take the answer; one to an unknown call, one after the end and a decision "
        "instead of an answer are refused.",
        lambda libraries: all(
            bool(_answer(libraries, name, situation)["raised"])
            for name in _BOTH
            for situation in ("unknown", "twice", "kind")
        ),
    ),
)


def render_claims(comparison: str, claims: tuple[Claim, ...]) -> str:
    """Render the claims. Raises ValueError for one that the results do not support."""
    libraries = read_results(comparison)["libraries"]
    for text, holds in claims:
        if not holds(libraries):
            raise ValueError(f"the results of {comparison!r} do not support: {text}")
    return "\n".join(
        textwrap.fill(f"- {text}", 120, subsequent_indent="  ", break_on_hyphens=False)
        for text, _ in claims
    )
