"""What tables share: rows that several harnesses have, values of other units, and words for results. It names no harness."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.view import Arguments, Case, Field, Said, View, Words, unsaid
from toolglot.request import Schema

__all__ = [
    "LINE_BY_LINE",
    "ONE_PAGE_AT_A_TIME",
    "QUERY",
    "asked",
    "asking",
    "clipped",
    "counted",
    "ended_badly",
    "failing_edit",
    "filtering",
    "found_lines",
    "given",
    "is_absent",
    "kept",
    "lines_from",
    "milliseconds",
    "missing",
    "named",
    "numbered",
    "one_page",
    "one_query",
    "page",
    "plural",
    "reworded",
    "runs",
    "seconds",
    "simple",
    "spoken",
    "taken",
    "told",
    "whole",
    "workspace_or",
]

LONGEST = 7200.0
"""Seconds that a command may take."""

# ---- values


def given(arguments: Mapping[str, Any]) -> Arguments:
    """Arguments without those that say nothing."""
    return {name: value for name, value in arguments.items() if value is not None}


def kept(arguments: Mapping[str, Any], *names: str, **renamed: str) -> Arguments:
    """Some of the arguments, where they are there: of the same names, and of new names (new="old")."""
    wanted = {**{name: name for name in names}, **renamed}
    return {new: arguments[old] for new, old in wanted.items() if old in arguments}


def seconds(name: str, value: float, most: float = LONGEST) -> float:
    """Seconds of a timeout in milliseconds, as many as there may be; `name`: what it is to the model. Raises ToolError."""
    if value <= 0:
        raise ToolError(f"{name} is {value:g}; give milliseconds above 0", kind="validation")
    return min(value / 1000, most)


def milliseconds(value: float) -> int:
    """Milliseconds of seconds."""
    return round(value * 1000)


# ---- what can be said


def runs(base: Arguments) -> object:
    """Whether a call of the shell is one command line; a program and its words are said as one elsewhere."""
    return base.get("command")


def one_page(base: Arguments) -> bool:
    """Whether one page is opened, and not several."""
    return isinstance(base.get("target"), str)


def one_query(shortest: int = 0) -> Callable[[Arguments], bool]:
    """Whether one thing is searched for, in at least so many characters."""

    def says(base: Arguments) -> bool:
        queries: list[str] = base.get("queries") or []
        return len(queries) == 1 and len(queries[0]) >= shortest

    return says


# ---- rows


def simple(name: str, description: str, parameters: Schema, case: Case, **more: Any) -> View:
    """A view that means one thing."""
    return View(name=name, description=description, parameters=parameters, cases={"": case}, **more)


def taken(native: str, base: str, into: Callable[[Any], Any] | None = None) -> Field:
    """A parameter that calls may have, and that is never shown or said."""
    return Field(native=native, base=base, into=into, back=unsaid)


def whole(native: str, base: str, into: Callable[[Arguments], Any], back: Callable[[Arguments], Any]) -> Field:
    """A parameter that is made from all of a call."""
    return Field(native=native, base=base, into=into, back=back, whole=True)


def workspace_or(native: str) -> Field:
    """The folder that a command runs in; without it, the workspace."""
    return Field(native=native, base="cwd", back=lambda folder: UNSET if folder == "." else folder)


def filtering(options: dict[str, str]) -> tuple[Field, ...]:
    """Whether ignore files count, which is said in an object of its own: names there -> base parameters."""

    def chosen(native: str) -> Callable[[Arguments], Any]:
        return lambda given: cast(Arguments, given.get("file_filtering_options", {})).get(native, UNSET)

    def back(base: Arguments) -> Any:
        return {native: base[name] for native, name in options.items() if base.get(name) is not None} or UNSET

    return tuple(whole("file_filtering_options", name, chosen(native), back) for native, name in options.items())


def counted(native: str) -> Field:
    """Whether every occurrence is replaced: true or false here, all or one there."""
    said = {"all": True, "one": False}
    return Field(
        native=native, base="count", into=lambda every: "all" if every else "one", back=lambda count: said.get(count, UNSET)
    )


QUERY = Field(native="query", base="queries", into=lambda query: [query], back=lambda queries: queries[0])
"""One thing to search for, where there may be several."""


def lines_from(tool: str, offset: str, limit: str, first: int, *, usual: bool = False) -> tuple[Field, Field]:
    """A first line and a number of lines, where a file's first line is `first`. `usual`: a limit of 0 is the usual one."""

    def start(native: Arguments) -> Any:
        return max(int(native[offset]) - first, 0) + 1 if offset in native else UNSET

    def end(native: Arguments) -> Any:
        most = native.get(limit)
        if most is None or (usual and not most):
            return UNSET
        if most < 1:
            raise ToolError(f"{tool}: {limit} is {most:g}; give 1 or more lines", kind="validation")
        begin = start(native)
        return int(most) if begin is UNSET else begin + int(most) - 1

    def back_offset(base: Arguments) -> Any:
        return base["start_line"] - 1 + first if base.get("start_line") else UNSET

    def back_limit(base: Arguments) -> Any:
        if base.get("end_line"):
            return max(base["end_line"] - (base.get("start_line") or 1) + 1, 1)
        return base.get("max_lines") or UNSET

    return whole(offset, "start_line", start, back_offset), whole(limit, "end_line", end, back_limit)


def asking(multi: str) -> Field:
    """Questions with options; `multi`: what says that several may be chosen."""

    def into(question: Arguments) -> Arguments:
        found = {"question": question["question"], **_filled(question, "header"), **kept(question, multi=multi)}
        options = cast(list[Arguments], question.get("options") or [])
        if not options:
            return {**found, "kind": "text"}
        return {**found, "options": [_filled(one, "label", "description", "preview") for one in options]}

    return Field(native="questions", base="questions", into=lambda every: [into(one) for one in every])


def _filled(arguments: Arguments, *names: str) -> Arguments:
    return {name: arguments[name] for name in names if arguments.get(name)}


def asked(
    multi: str, *, needed: tuple[str, ...] = (), free: bool = False, more: tuple[str, ...] = ()
) -> Callable[[Arguments], Arguments | None]:
    """Questions on the way back; None where one cannot be asked.

    `needed`: what must be there, empty where nobody has said it. `free`: a question may go without options. `more`: what else
    an option may have.
    """

    def back(base: Arguments) -> Arguments | None:
        said = [one(question) for question in cast(list[Arguments], base.get("questions") or [])]
        return {"questions": said} if 1 <= len(said) <= 4 and None not in said else None

    def one(question: Arguments) -> Arguments | None:
        kind = question.get("kind", "choice")
        options = cast(list[Arguments], question.get("options") or [])
        if kind == "yesno":
            options = [{"label": "yes"}, {"label": "no"}]
        if not (2 <= len(options) <= 4 or (free and kind == "text")):
            return None
        empty: Arguments = {"header": "", "description": "", multi: False}
        usual = {name: value for name, value in empty.items() if name in needed}
        described = kept(usual, "description")
        return {
            "question": question.get("question", ""),
            **kept(usual, "header", multi),
            **_filled(question, "header"),
            "options": [{**described, **kept(option, "label"), **_filled(option, "description", *more)} for option in options],
            **({multi: True} if question.get("multi") else {}),
        }

    return back


# ---- words


def told(words: Callable[[Said, Arguments], str]) -> Words:
    """Words that are made from a result's data; the tool's own where there is none."""

    def made(said: Said) -> str:
        data: Any = said.data
        return words(said, cast(Arguments, data)) if isinstance(data, dict) else said.text

    return made


# Words of failures, for `reworded`: where a pattern is looked for in single lines, and where a page is a `url`.
LINE_BY_LINE = {"set multiline to true": "look for a part of one line"}
ONE_PAGE_AT_A_TIME = {"target is empty": "url is empty", "target has over": "url has over", "queries must be": "query must be"}


def reworded(words: Mapping[str, str]) -> Callable[[str], str]:
    """Puts a model's words in the place of ours; what stands in quotes or below the first line is of files, and stays."""
    ours = "|".join(map(re.escape, words))
    pattern = re.compile(rf"(?<!\w)'[^'\n]*'|(?<![\w./-])(?:{ours})(?![\w/-]|\.\w)")

    def made(said: str) -> str:
        first, end, rest = said.partition("\n")
        return pattern.sub(lambda found: words.get(found[0], found[0]), first) + end + rest

    return made


def spoken(words: Mapping[str, str]) -> Words:
    """A failure as the base tool says it, with its parameters and tools under the names that the model knows."""
    change = reworded(words)
    return lambda said: change(said.text)


def named(said: Said, native: str, base: str = "path") -> str:
    """A path as the model gave it."""
    return str(said.native.get(native) or said.base.get(base) or ".")


def plural(count: int, one: str, many: str = "") -> str:
    """`1 match`, `2 matches`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def numbered(lines: Iterable[str], first: int, form: str) -> str:
    """Lines with their numbers, by a form such as '{}: {}'."""
    return "\n".join(form.format(number, line) for number, line in enumerate(lines, first))


def clipped(data: Arguments, most: int) -> Arguments:
    """What was read, with so many bytes of lines at most."""
    size = 0
    for count, line in enumerate(data["lines"]):
        size += len(line.encode("utf-8", "replace")) + 1
        if count and size > most:
            last = data["first"] + count - 1
            shown = {"lines": data["lines"][:count], "last": last, "next_line": last + 1}
            long = [line for line in data["long_lines"] if line <= last]
            return {**data, **shown, "long_lines": long, "partial": True, "truncated": True}
    return data


def is_absent(said: Said) -> bool:
    """Whether what a call is about is not there."""
    return said.kind == "not_found" or said.text.startswith("there is no '")


def missing(said: Said) -> list[str]:
    """The names that a file which is not there may have been meant to have."""
    found = re.search(r": did you mean (.+)\?$", said.text)
    return re.findall(r"'([^']+)'", found[1]) if found else []


def failing_edit(said: Said) -> str:
    """Why nothing was replaced: not_found, ambiguous, identical, empty, placeholder; "" for another failure."""
    return str(getattr(said.details, "reason", ""))


def ended_badly(said: Said) -> bool:
    """Whether a command has ended with an exit code: some harnesses call that an error."""
    data: Any = said.data
    return "exit_code" in (data or ()) and bool(data["exit_code"])


def found_lines(data: Arguments, *, absolute: bool = False, numbers: bool = True) -> Iterator[str]:
    """Lines as ripgrep prints them."""
    apart = bool(data["before"] or data["after"])
    last: tuple[str, int] | None = None
    for file in data["files"]:
        path = file["absolute" if absolute else "path"]
        for line in file["lines"]:
            if apart and last is not None and last != (path, line["line"] - 1):
                yield "--"
            last = (path, line["line"])
            mark = ":" if line["is_match"] else "-"
            yield f"{path}{mark}{line['line']}{mark}{line['text']}" if numbers else f"{path}{mark}{line['text']}"


def page(tool: str) -> Words:
    """A page of the web, and how to read on."""

    def words(said: Said, data: Arguments) -> str:
        lines = [f"The server answered with status {data['status']}."] if data["status"] >= 400 else []
        lines += [f"Note: {note}." for note in data["notes"]]
        if data["question_lines"]:
            lines.append(f"Words of the prompt are in lines {', '.join(map(str, data['question_lines']))}.")
        lines += [""] if lines else []
        lines.append(data["text"] or "(The page has no text.)")
        for name, shown in (("start_line", data["next_line"]), ("start_char", data["next_char"])):
            if shown is not None:
                of = f"lines {data['start_line']}-{data['end_line']} of {data['total_lines']}"
                lines += ["", f"(These are {of}. Call {tool} with {name}={shown} to read on.)"]
                break
        return "\n".join(lines)

    return told(words)
