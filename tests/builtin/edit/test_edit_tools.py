"""Replacing text, and the tools that change a part of a file."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools, create_trapped_workspace, snapshot
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from toolglot.builtin.edit.edit_tools import edit_tools
from toolglot.builtin.edit.text_replace import (
    ExpectedCount,
    Replacement,
    TextEdit,
    edit_distance,
    find_elision,
    replace_text,
)
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.files.text import Document
from toolglot.common.jsontext import loads
from toolglot.errors import ToolError
from toolglot.values.failures import EditFailed

MEASURED = Path(__file__).parents[4] / "shared" / "facades" / "gemini_replace_cases.json"
REASONS = {
    "edit_no_occurrence_found": ("not_found", "empty"),
    "edit_expected_occurrence_mismatch": ("ambiguous",),
    "edit_no_change": ("identical",),
}


def reason(error: ToolError) -> EditFailed:
    assert isinstance(error.details, EditFailed)
    return error.details


def replace(
    text: str, old: str, new: str, count: Any = "one", tolerant: bool = False, **options: Any
) -> Replacement:
    return replace_text(text, TextEdit(old, new, count, "tolerant" if tolerant else "exact"), **options)


def replace_error(text: str, old: str, new: str = "new", **options: Any) -> ToolError:
    with pytest.raises(ToolError) as raised:
        replace(text, old, new, **options)
    return raised.value


short = st.text(st.sampled_from("ab \n"), max_size=30)
some = st.text(st.sampled_from("ab \n"), min_size=1, max_size=3)


class TestExact:
    @given(short, some, short)
    def test_all_is_what_python_does(self, text: str, old: str, new: str):
        if old not in text or old == new:
            assert reason(replace_error(text, old, new, count="all")).reason in ("not_found", "identical")
        else:
            replacement = replace(text, old, new, count="all")
            assert (replacement.text, replacement.count, replacement.strategy) == (
                text.replace(old, new),
                text.count(old),
                "exact",
            )

    @given(short, some, short)
    def test_one_is_the_only_one(self, text: str, old: str, new: str):
        assume(old != new and old in text)
        if text.count(old) == 1:
            assert replace(text, old, new).text == text.replace(old, new)
        else:
            assert reason(replace_error(text, old, new)).match_count == text.count(old)

    @given(short, some, st.integers(1, 4))
    def test_a_number_is_how_often_it_must_be_there(self, text: str, old: str, count: int):
        assume(old in text)
        if text.count(old) == count:
            assert replace(text, old, "new", count=count).text == text.replace(old, "new")
        else:
            assert reason(replace_error(text, old, count=count)).reason == "ambiguous"

    @given(short, some, short)
    def test_line_endings_stay_those_of_the_file(self, text: str, old: str, new: str):
        assume(old in text and old != new and "\n" in text)
        windows = text.replace("\n", "\r\n")
        for left, other in ((old, new), (old.replace("\n", "\r\n"), new.replace("\n", "\r\n"))):
            assert replace(windows, left, other, count="all").text == text.replace(old, new).replace(
                "\n", "\r\n"
            )
            assert replace(text, left, other, count="all").text == text.replace(old, new)

    @given(st.lists(st.sampled_from(["a\n", "b\r\n", "c\n", "d\r\n"]), max_size=8), st.sampled_from("abcd"))
    def test_mixed_line_endings_stay_where_nothing_changes(self, parts: list[str], old: str):
        text = "".join(parts)
        assume(old in text)
        assert replace(text, old, "X", count="all").text == text.replace(old, "X")
        plain = text.replace("\r\n", "\n")
        assume(plain.count(f"{old}\n") == 1)
        at = text.index(old)
        assert replace(text, f"{old}\n", f"X{old}\n").text == f"{text[:at]}X{text[at:]}"

    def test_a_new_line_has_the_end_of_its_place(self):
        assert replace("a\r\nb\nc\r\n", "c", "c\nd").text == "a\r\nb\nc\r\nd\r\n"
        assert replace("a\r\nb\nc\r\n", "b", "b\nx").text == "a\r\nb\nx\nc\r\n"
        assert replace("no end", "end", "x\r\ny").text == "no x\r\ny"

    @given(short, short, st.text("xy\n", max_size=3), st.sampled_from(["\n", "\r\n"]))
    def test_the_other_way_round_is_the_way_back(self, head: str, tail: str, new: str, newline: str):
        text = f"{head}\n<old>{tail}".replace("\n", newline)
        there = replace(text, "<old>", f"<{new}>")
        assert replace(there.text, f"<{new}>", "<old>").text == text

    @pytest.mark.parametrize(
        ("text", "old", "new", "ranges"),
        [
            ("a\nb\nc\n", "b", "B", ((2, 2),)),
            ("a\nb\nc\n", "b\n", "B\nX\n", ((2, 3),)),
            ("a\nb\nc\n", "b\n", "", ((2, 2),)),
            ("x\nb\nx\n", "x", "y\nz", ((1, 2), (4, 5))),
        ],
    )
    def test_the_new_lines_are_known(
        self, text: str, old: str, new: str, ranges: tuple[tuple[int, int], ...]
    ):
        assert replace(text, old, new, count="all").ranges == ranges

    @pytest.mark.parametrize("count", [0, -1, True, False, "two", "", None, 1.0, [], 10**30])
    def test_a_count_that_is_none_is_refused(self, count: Any):
        assert replace_error("a", "a", count=count).kind in ("validation", "execution")


CASES: list[tuple[str, str, str, ExpectedCount, str, str]] = [
    # the file, old, new, count, the strategy or the reason of the refusal, the file after
    ("a\nb\nc\n", "b", "B", "one", "exact", "a\nB\nc\n"),
    ("x\ny\nx\n", "x", "z", "one", "ambiguous", ""),
    ("x\ny\nx\n", "x", "z", "all", "exact", "z\ny\nz\n"),
    ("x\ny\nx\n", "x", "z", 2, "exact", "z\ny\nz\n"),
    ("x\ny\nx\n", "x", "z", 3, "ambiguous", ""),
    ("a\nb\n", "b", r"$& \1 \g<0>", "one", "exact", "a\n$& \\1 \\g<0>\n"),
    ("a\nb\nc\n", "a\r\nb", "A\r\nB", "one", "exact", "A\nB\nc\n"),
    ("a\r\nb\r\n", "a\nb", "A\nB", "one", "exact", "A\r\nB\r\n"),
    (
        "if a:\n  if b:\n    go()\n",
        "if b:\n  go()",
        "if b:\n  end()",
        "one",
        "flexible",
        "if a:\n  if b:\n    end()\n",
    ),
    (
        "if a:\n\tgo()\n\tx\n",
        "  go()\n  x",
        "  go()\n    y\n\n z",
        "one",
        "flexible",
        "if a:\n\tgo()\n\t  y\n\n\tz\n",
    ),
    ("a  \nb\nc\n", "a\nb", "A", "one", "flexible", "A\nc\n"),
    ("  a  \nb\nc\n", "a\nb\n", "", "one", "flexible", "c\n"),
    ("  a b\nx\n  a b\n", "a b \n", "z\n", "one", "ambiguous", ""),
    ("  p\n  q\nk\n  p\n  q\n", "p \nq", "P\nQ", "all", "flexible", "  P\n  Q\nk\n  P\n  Q\n"),
    ("a\r\n  b\r\nc\r\n", "b \nc", "B\nC\nD", "one", "flexible", "a\r\n  B\r\n  C\r\n  D\r\n"),
    ("f(a,\n  b)\n", "f( a, b )", "f()", "one", "tokens", "f()\n"),
    ("  f(a,b) ; g\n", "f( a,b )", "h", "one", "tokens", "  h ; g\n"),
    ("x = f(a,b)\n", "f( a,b )", "h", "one", "not_found", ""),
    ("return ab\n", "return  a", "x", "one", "not_found", ""),
    ("returna\n", "return\na", "x", "one", "not_found", ""),
    (
        "value = compute(first, second)\nend\n",
        "value = comput(first, second)",
        "v = 1",
        "one",
        "fuzzy",
        "v = 1\nend\n",
    ),
    (
        "  first_call()\n  second_call()\n",
        "first_cal()\nsecond_call()",
        "x()\ny()",
        "one",
        "fuzzy",
        "  x()\n  y()\n",
    ),
    ("alpha = beta(gamma)\n", "omega = delta(kappa)", "x", "one", "not_found", ""),
    ("abcdefgh\n", "abcdefgX", "z", "one", "not_found", ""),
    ("item_number_1 = x\nitem_number_2 = x\n", "item_number_3 = x", "z", "one", "ambiguous", ""),
    ("a\nb\n", "b", "b", "one", "identical", ""),
    ("a\nb", "b", "B\n", "one", "exact", "a\nB"),
    ("a\nb\n", "b\n", "B", "one", "exact", "a\nB\n"),
    ("a\r\nb\r\n", "b\n", "B", "one", "exact", "a\r\nB\r\n"),
    ("a\n\nb\n", "   ", "x", "one", "not_found", ""),
    ("", "x", "y", "one", "not_found", ""),
    ("a\n", "a", "A\n# rest of code ...", "one", "elision", ""),
    ("a\n# ... rest ...\n", "a\n# ... rest ...", "b\n# ... rest ...", "one", "exact", "b\n# ... rest ...\n"),
]


class TestTolerant:
    @pytest.mark.parametrize(("text", "old", "new", "count", "how", "after"), CASES)
    def test_a_place_is_found_as_people_would(
        self, text: str, old: str, new: str, count: ExpectedCount, how: str, after: str
    ):
        if not after:
            assert reason(replace_error(text, old, new, count=count, tolerant=True)).reason == how
        else:
            replacement = replace(text, old, new, count=count, tolerant=True)
            assert (replacement.strategy, replacement.text) == (how, after)

    @pytest.mark.skipif(not MEASURED.exists(), reason="the measured cases are not here")
    def test_it_does_what_was_measured(self):
        for case in loads(MEASURED.read_bytes())["cases"]:
            count: ExpectedCount = "all" if case["allow_multiple"] else "one"
            arguments = case["content"], case["old_string"], case["new_string"]
            if "error_type" in case:
                failure = reason(replace_error(*arguments, count=count, tolerant=True))
                assert failure.reason in REASONS[case["error_type"]], case["name"]
                assert failure.reason != "ambiguous" or failure.match_count == case["occurrences"], case[
                    "name"
                ]
            else:
                replacement = replace(*arguments, count=count, tolerant=True)
                assert (replacement.text, replacement.count) == (case.get("after"), case["occurrences"]), (
                    case["name"]
                )
                assert case.get("strategy", replacement.strategy) == replacement.strategy, case["name"]

    @given(short, short, short)
    def test_what_is_exact_stays_exact(self, head: str, tail: str, new: str):
        text, old = f"{head}<old>{tail}", "<old>"
        exact, tolerant = replace(text, old, new), replace(text, old, new, tolerant=True)
        assert tolerant.strategy == "exact"
        assert tolerant.text.rstrip("\n") == exact.text.rstrip("\n")

    @pytest.mark.parametrize(
        ("line", "is_one"),
        [
            *(
                (line, True)
                for line in ("rest of code...", "# rest of methods ....", "/* unchanged method ... */")
            ),
            *(
                (line, True)
                for line in ("(rest of methods ...)", "<!-- rest of ... -->", "// Unchanged  code…")
            ),
            *(
                (line, False)
                for line in ("# existing code ...", "(rest of the file ...)", "rest of code ... and more")
            ),
            # Comments that begin with an ellipsis are in real files, too.
            *(
                (line, False)
                for line in (
                    "// ... rest of code ...",
                    "# ... existing imports",
                    "... the rest stays the same",
                )
            ),
            *(
                (line, False)
                for line in ("rest of the day", "print('...')", "x = [1, ...]", "# and so on...", "...", "")
            ),
            *(
                (line, False)
                for line in ("def f(*rest): ...", "existing = load()", "// the remaining items are sorted")
            ),
        ],
    )
    def test_a_line_that_stands_for_code_is_known(self, line: str, is_one: bool):
        assert bool(find_elision(f"a\n{line}\nb")) is is_one
        assert not find_elision(f"a\n{line}\nb", f"x\n  {line}\n")

    def test_it_can_be_cancelled(self):
        text = "".join(f"some line of text number {n}\n" for n in range(600))
        error = replace_error(
            text, "another kind of text that is longer", tolerant=True, should_stop=lambda: True
        )
        assert error.kind == "cancelled"

    @given(st.text("abc", max_size=12), st.text("abc", max_size=12))
    def test_the_distance_is_the_known_one(self, left: str, other: str):
        row = list(range(len(other) + 1))
        for i, a in enumerate(left, 1):
            above, row[0] = row[0], i
            for j, b in enumerate(other, 1):
                above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
        assert edit_distance(left, other) == row[-1]


class TestWhy:
    @pytest.mark.parametrize(
        ("text", "old", "words"),
        [
            ("if a:\n\tb\n", "if a:\n    b\n", "from lines 1-2 only in indentation (the file uses tabs)"),
            ("x\n    b\n    c\n", "  b\n  c", "from lines 2-3 only in indentation:"),
            ("a  \nb\n", "a\nb", "from lines 1-2 only in trailing whitespace"),
            ("say \u201chi\u201d\n", 'say "hi"', "from line 1 only in quotes, dashes"),
            ("cafe\u0301\n", "caf\u00e9", "from line 1 only in how accents are composed"),
            ("a\nHello World\n", "hello world", "from line 2 only in upper and lower case"),
            ("a\nb\n", r"a\nb", "it has escape sequences instead of the characters of lines 1-2"),
            ('say("x")\n', r"say(\"x\")", "it has escape sequences instead of"),
            ('x = "\\\\n"\n', 'x = "\\n"', "it has one backslash where line 1 has two"),
            ("if a < b:\n", "if a &lt; b:", "HTML entities"),
            (
                "x\ny\nz\n",
                "2\ty\n3\tz",
                "it contains line numbers, which are not part of the file; it is lines 2-3",
            ),
            (
                "x\ny = 1\n",
                "2: y = 1",
                "it contains line numbers, which are not part of the file; it is line 2",
            ),
            ("f(a,b)\n", "f( a, b )", "from line 1 only in spaces or line breaks"),
            (
                "one\nthe quick brown fox\n",
                "the quick brown cat",
                "the most similar text is line 2 (84 % alike)",
            ),
            ("one\ntwo\n", "something else", "nothing there is similar: read the file again"),
            ("", "x", "nothing there is similar"),
        ],
    )
    def test_the_failure_says_where_and_why(self, text: str, old: str, words: str):
        error = replace_error(text, old, name="a.py")
        assert str(error).startswith("the text to replace is not in 'a.py'")
        assert words in str(error)

    def test_the_nearest_lines_are_shown(self):
        assert str(replace_error("x\n\tb\ny\n", "    b", name="f")).endswith("(the file uses tabs):\n2\t\tb")

    def test_a_refusal_names_the_lines(self):
        error = replace_error("a\nb\na\n", "a", name="f")
        hint = "include more of the surrounding text to make it unique, or replace all occurrences"
        assert str(error) == f"the text to replace occurs 2 times in 'f' (lines 1, 3): {hint}"
        error = replace_error("a\n", "a", name="f", count=2)
        assert str(error).startswith("the text to replace occurs once in 'f', not 2 times (line 1)")

    def test_a_large_file_does_not_take_long(self):
        text = "".join(f"    value_{n} = compute(argument_{n}, {n * 7919})\n" for n in range(30_000))
        assert "most similar" in str(replace_error(text, "    value_17 = compute(argumant_17, 99999999)"))
        old = "    value_17 = compute(nothing at all, 99999999)\n" * 3
        assert reason(replace_error(text, old, tolerant=True)).reason == "not_found"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_trapped_workspace(tmp_path)


@pytest.fixture
def tools(root: Path) -> Tools:
    return Tools(root, file_tools, edit_tools)


CODED = [
    *(Document("", "utf-8"), Document("", "windows-1252"), Document("", "utf-8", True)),
    *(Document("", "utf-16-le", True), Document("", "utf-16-be", True), Document("", "utf-32-le", True)),
]


class TestEditing:
    def test_a_file_is_changed_and_reported(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        output = tools("edit", path="text.txt", old="two", new="2\n2.5")
        assert (root / "text.txt").read_text() == "one\n2\n2.5\nthree\n"
        assert output.content == "edited 'text.txt': 1 replacement in lines 2-3"
        data = output.data
        assert (data["replacements"], data["strategies"], [*data["ranges"]]) == (1, ["exact"], [(2, 3)])
        assert (data["lines"], data["snippet"]) == (4, "one\n2\n2.5\nthree")
        assert (
            output.data["diff"]
            == "--- text.txt\n+++ text.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
        )

    def test_edits_follow_each_other_without_reading_again(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        for old, new in (("one", "1"), ("two", "2"), ("three", "3")):
            tools("edit", path="text.txt", old=old, new=new)
        assert (root / "text.txt").read_text() == "1\n2\n3\n"

    def test_edits_at_the_same_time_are_all_made(self, tools: Tools, root: Path):
        (root / "many").write_text("".join(f"<{n}>\n" for n in range(16)))
        tools("read", path="many")

        def change(n: int) -> None:
            tools("edit", path="many", old=f"<{n}>", new=f"[{n}]")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(change, range(16)))
        assert (root / "many").read_text() == "".join(f"[{n}]\n" for n in range(16))

    def test_a_tolerant_edit_shows_what_it_did(self, tools: Tools, root: Path):
        (root / "a.py").write_text("if a:\n    go(1)\n    end()\n")
        tools("read", path="a.py")
        output = tools(
            "edit",
            path="a.py",
            old="go(1) \nend()",
            new="go(2)\nend()",
            match="tolerant",
            instruction="twice",
        )
        assert output.data["strategies"] == ["flexible"]
        assert "matched only approximately (flexible)" in output.content
        assert "2\t    go(2)" in output.content

    def test_an_empty_old_makes_a_file(self, tools: Tools, root: Path):
        output = tools("edit", path="deep/new.py", old="", new="x = 1\n")
        assert (output.data["created"], (root / "deep/new.py").read_text()) == (True, "x = 1\n")
        assert "already exists and is not empty" in str(
            tools.failure("edit", path="deep/new.py", old="", new="y")
        )
        (root / "empty").touch()
        assert tools.data("edit", path="empty", old="", new="filled\n")["diff"].endswith(
            "@@ -0,0 +1 @@\n+filled\n"
        )
        assert (root / "empty").read_text() == "filled\n"
        (root / "still").touch()
        assert "nothing to do" in str(tools.failure("edit", path="still", old="", new=""))

    def test_a_file_does_not_grow_without_end(self, tools: Tools, root: Path):
        (root / "dots").write_text("." * 2000)
        tools("read", path="dots")
        assert tools.failure("edit", path="dots", old=".", new="x" * 6000, count="all").kind == "limit"
        assert (root / "dots").read_text() == "." * 2000

    @pytest.mark.parametrize("form", CODED, ids=str)
    @pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=repr)
    def test_bytes_outside_of_the_edit_stay(self, tools: Tools, root: Path, form: Document, newline: str):
        before = newline.join(["erste \xfc", "zweite \xe9", "dritte \xdf", ""])
        (root / "coded").write_bytes(form.encode(before))
        tools("read", path="coded")
        data = tools.data("edit", path="coded", old="zweite \xe9\n", new="2 \xe0\n3\n")
        after = before.replace(f"zweite \xe9{newline}", f"2 \xe0{newline}3{newline}")
        assert (root / "coded").read_bytes() == form.encode(after)
        assert data["encoding"] == form.encoding
        tools("edit", path="coded", old="2 \xe0\n3\n", new="zweite \xe9\n")
        assert (root / "coded").read_bytes() == form.encode(before)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
    @given(st.binary(max_size=40), st.binary(max_size=40))
    def test_whatever_bytes_they_are(self, tools: Tools, root: Path, head: bytes, tail: bytes):
        data = head + b"\n<here>\n" + tail
        (root / "any").write_bytes(data)
        try:
            tools("read", path="any")
            tools("edit", path="any", old="<here>", new="<there>")
        except ToolError:
            assert (root / "any").read_bytes() == data
        else:
            assert (root / "any").read_bytes().replace(b"<there>", b"<here>") == data

    def test_a_character_that_the_encoding_lacks_changes_nothing(self, tools: Tools, root: Path):
        (root / "coded").write_bytes(b"gr\xfcn\n")
        tools("read", path="coded")
        assert "windows-1252, which has no U+2192" in str(
            tools.failure("edit", path="coded", old="n", new="→")
        )
        assert (root / "coded").read_bytes() == b"gr\xfcn\n"

    def test_what_was_not_read_or_has_changed_is_not_edited(self, tools: Tools, root: Path):
        arguments = {"path": "text.txt", "old": "one", "new": "1"}
        assert "has not been read yet" in str(tools.failure("edit", **arguments))
        tools("read", path="text.txt")
        (root / "text.txt").write_text("one more\n")
        assert "has changed since it was read" in str(tools.failure("edit", **arguments))
        assert (root / "text.txt").read_text() == "one more\n"

    def test_the_preview_is_the_diff_and_changes_nothing(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        before = snapshot(root)
        expected = "--- text.txt\n+++ text.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n"
        assert tools.preview("edit", path="text.txt", old="one", new="1") == expected
        assert tools.preview("multi_edit", path="text.txt", edits=[{"old": "one", "new": "1"}]) == expected
        assert tools.preview("insert", path="text.txt", after_line=3, text="4").endswith(" two\n three\n+4\n")
        with pytest.raises(ToolError, match="the text to replace is not in"):
            tools.preview("edit", path="text.txt", old="nothing", new="1")
        assert snapshot(root) == before

    def test_a_cancelled_call_changes_nothing(self, tools: Tools, root: Path):
        (root / "big").write_text("some line of text\n" * 400)
        tools("read", path="big")
        flag = threading.Event()
        flag.set()
        error = tools.failure(
            "edit", flag, path="big", old="quite another line that is long", new="x", match="tolerant"
        )
        assert error.kind == "cancelled"


class TestManyEdits:
    def test_each_works_on_what_the_one_before_left(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        edits = [
            {"old": "one", "new": "two"},
            {"old": "two", "new": "2", "count": "all"},
            {"old": "2\n2", "new": "x"},
        ]
        output = tools("multi_edit", path="text.txt", edits=edits)
        assert (root / "text.txt").read_text() == "x\nthree\n"
        assert output.content == "edited 'text.txt': 3 edits, 4 replacements; the last in line 1"

    def test_all_or_none(self, tools: Tools, root: Path):
        tools("read", path="text.txt")
        before = snapshot(root)
        error = tools.failure(
            "multi_edit", path="text.txt", edits=[{"old": "one", "new": "1"}, {"old": "four", "new": "4"}]
        )
        assert str(error).startswith("edit 2 of 2: the text to replace is not in 'text.txt'")
        assert str(error).endswith("None of the edits was made.")
        assert snapshot(root) == before

    def test_the_first_may_make_the_file(self, tools: Tools, root: Path):
        tools("multi_edit", path="new", edits=[{"old": "", "new": "a b\n"}, {"old": "b", "new": "c"}])
        assert (root / "new").read_text() == "a c\n"

    def test_another_than_the_first_must_have_a_place(self, tools: Tools):
        tools("read", path="text.txt")
        error = tools.failure(
            "multi_edit", path="text.txt", edits=[{"old": "one", "new": "1"}, {"old": "", "new": "4"}]
        )
        assert "the text to replace is empty" in str(error)


class TestInserting:
    @pytest.mark.parametrize(
        ("before", "after_line", "text", "after"),
        [
            (b"a\nb\n", 0, "x\n", b"x\na\nb\n"),
            (b"a\nb\n", 1, "x", b"a\nx\nb\n"),
            (b"a\nb\n", 2, "x", b"a\nb\nx\n"),
            (b"a\nb", 2, "x", b"a\nb\nx"),
            (b"a\nb", 2, "x\n", b"a\nb\nx"),
            (b"a\nb", 1, "x\ny", b"a\nx\ny\nb"),
            (b"a\r\nb\r\n", 1, "x\ny\n", b"a\r\nx\r\ny\r\nb\r\n"),
            (b"a\r\nb\n", 1, "x", b"a\r\nx\r\nb\n"),
            (b"a\r\nb\n", 2, "x", b"a\r\nb\nx\n"),
            (b"", 0, "x", b"x\n"),
            (b"a", 0, "x\r\n", b"x\r\na"),
            ("\ufeffa\n".encode(), 0, "ü\n", "\ufeffü\na\n".encode()),
            (b"a\n", 1, "\n", b"a\n\n"),
        ],
    )
    def test_lines_come_between_lines(
        self, tools: Tools, root: Path, before: bytes, after_line: int, text: str, after: bytes
    ):
        (root / "file").write_bytes(before)
        tools("read", path="file")
        data = tools.data("insert", path="file", after_line=after_line, text=text)
        assert (root / "file").read_bytes() == after
        assert data["ranges"][0][0] == after_line + 1

    def test_a_line_that_is_not_there_is_named(self, tools: Tools):
        tools("read", path="text.txt")
        error = tools.failure("insert", path="text.txt", after_line=4, text="x")
        problem = "'text.txt' has 3 lines, so nothing can be inserted after line 4"
        assert str(error) == f"{problem}: use a number from 0 (the top) to 3"


FINE: dict[str, dict[str, Any]] = {
    "edit": {"old": "one", "new": "1"},
    "multi_edit": {"edits": [{"old": "one", "new": "1"}]},
    "insert": {"after_line": 0, "text": "x"},
}


class TestBadInput:
    @pytest.mark.parametrize("name", FINE)
    def test_what_is_missing_is_named(self, tools: Tools, name: str):
        tools("read", path="text.txt")
        for left_out in ("path", *FINE[name]):
            arguments: dict[str, Any] = {"path": "text.txt", **FINE[name]}
            del arguments[left_out]
            assert left_out in str(tools.failure(name, **arguments))

    @pytest.mark.parametrize("name", FINE)
    def test_what_programs_obey_is_not_changed(self, tools: Tools, root: Path, name: str):
        (root / ".git").mkdir()
        (root / ".git" / "config").write_text("one\n")
        tools("read", path=".git/config")
        assert tools.failure(name, path=".git/config", **FINE[name]).kind == "not_allowed"

    @pytest.mark.parametrize("name", FINE)
    def test_a_file_that_is_too_large_is_named(self, tools: Tools, root: Path, name: str):
        (root / "large").write_bytes(b"one\n" + b"x" * (10 << 20))
        tools("read", path="large")
        assert tools.failure(name, path="large", **FINE[name]).kind == "limit"
