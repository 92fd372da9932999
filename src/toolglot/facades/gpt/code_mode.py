"""DATA: code mode, the harness of GPT-5.6 and newer: the model writes JavaScript that calls the other tools,
and waits for it.

Codex declares `exec` as free text that a first line `// @exec: {…}` may precede (observed with 0.166).
"""

from collections.abc import Callable

from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.errors import ToolError
from toolglot.facades.parameters import boolean, number, string
from toolglot.facades.rows import to_milliseconds
from toolglot.facades.table import field, make_view
from toolglot.facades.view import Arguments, Case, View

__all__ = ["EXEC", "WAIT"]

_CHARS_PER_TOKEN = 4
_GRAMMAR = r"""start: first_line? SOURCE
first_line: OPTIONS LF
OPTIONS: /[ \t]*\/\/ @exec:[^\r\n]*/
LF: /\r?\n/
SOURCE: /[\s\S]+/
"""
_MARK = "// @exec:"
_OPTIONS: dict[str, tuple[str, Callable[[int], float]]] = {
    "yield_time_ms": ("seconds", lambda value: value / 1000),
    "max_output_tokens": ("max_output", lambda value: value * _CHARS_PER_TOKEN),
}
_FORM = (
    'the first line may be `// @exec: {"yield_time_ms": 10000, "max_output_tokens": 10000}`; JavaScript '
    "follows it"
)


def _invalid(problem: str) -> ToolError:
    return ToolError(f"exec did not run: {problem}; {_FORM}.", kind="validation", code="invalid_arguments")


def exec_to_base(native: Arguments) -> Arguments:
    """Return the script and the options of its first line."""
    code, base = str(native.get("input", "")), Arguments(language="javascript")
    first, _, rest = code.partition("\n")
    if first.lstrip().startswith(_MARK):
        code = rest
        try:
            options = loads_object(first.lstrip().removeprefix(_MARK))
        except ValueError:
            raise _invalid("its options are not a JSON object") from None
        if options.keys() - _OPTIONS.keys():
            raise _invalid("it has other options than yield_time_ms and max_output_tokens")
        for name, (target, convert) in _OPTIONS.items():
            if (value := options.get(name)) is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise _invalid(f"{name} is not a number of at least 0")
            base[target] = convert(value)
    if not code.strip():
        raise _invalid("there is no JavaScript in it")
    return {**base, "code": code}


def exec_from_base(base: Arguments) -> Arguments | None:
    """Return the script as free text; None for one in Python, and for a call that only waits."""
    if not base.get("code") or base.get("language", "javascript") != "javascript":
        return None
    options: Arguments = {}
    if "seconds" in base:
        options["yield_time_ms"] = to_milliseconds(base["seconds"])
    if "max_output" in base:
        options["max_output_tokens"] = int(base["max_output"]) // _CHARS_PER_TOKEN
    first = f"{_MARK} {dumps_text(options)}\n" if options else ""
    return {"input": f"{first}{base['code']}"}


def wait_from_base(base: Arguments) -> Arguments | None:
    """Return None for a call that starts a script."""
    if not base.get("script"):
        return None
    native: Arguments = {"cell_id": str(base["script"])}
    if "seconds" in base:
        native["yield_time_ms"] = to_milliseconds(base["seconds"])
    if "max_output" in base:
        native["max_tokens"] = int(base["max_output"]) // _CHARS_PER_TOKEN
    return {**native, "terminate": True} if base.get("stop") else native


EXEC = View(
    name="exec",
    description="Run JavaScript that calls the other tools: use it for all work. A script that is still "
    "running after "
    "yield_time_ms (10000, or as its first line says) returns a cell ID for wait.",
    parameters=None,
    kind="freeform",
    grammar={"syntax": "lark", "definition": _GRAMMAR},
    cases={"": Case(base="run_code", to_base=exec_to_base, from_base=exec_from_base)},
    direct=True,
)
WAIT = make_view(
    "wait",
    "Wait for a script that exec left running, and return what it has shown since, or its end. Use it only "
    "after exec returned "
    "a cell ID.",
    "run_code",
    {
        "cell_id!": field("script", string("The cell ID that exec returned.")),
        "max_tokens": field(
            "max_output",
            number("Tokens of output to show (default 10000)."),
            lambda tokens: int(tokens * _CHARS_PER_TOKEN),
        ),
        "terminate": field("stop", boolean("Stop the script instead of waiting for it (default false).")),
        "yield_time_ms": field(
            "seconds",
            number("Milliseconds to wait for more (default 10000)."),
            lambda value: max(0.0, value / 1000),
        ),
    },
    closed=True,
    from_base=wait_from_base,
    direct=True,
)
