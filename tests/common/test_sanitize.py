"""Text that a terminal shows and does not obey."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.common.sanitize import escape_controls, escape_invisible, shorten

pytestmark = pytest.mark.untraced

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ANYTHING = "".join(map(chr, range(0x110000)))
SCRIPTS = [
    "Grüße, naïve café — “quoted” … €5 ½",
    "日本語のテキスト、漢字かな",
    "한국어 텍스트",
    "Русский текст, ελληνικά",
    "עברית",
    "اللغة العربية",
    "हिन्दी, தமிழ், ไทย",
    "👩‍👩‍👧 🏳️‍🌈 ✅ 🇫🇷",
    "می‌خواهم",
    "e\u0301 cafe\u0301",
    "tab\tand\nline",
    "🀄 𐍈 𠀀",
]


def is_control_character(character: str) -> bool:
    """What a terminal does something with, but for a tab and a new line."""
    return unicodedata.category(character) == "Cc" and character not in "\t\n"


class TestHarmless:
    @pytest.mark.parametrize("text", SCRIPTS)
    def test_text_of_any_script_stays(self, text: str) -> None:
        assert escape_controls(text) == text

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("", ""),
            ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
            ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "␛]8;;http://evil␛\\click␛]8;;␛\\"),
            ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
            ("\x9b31m \x9d0;title\x9c", "⟨U+009B⟩31m ⟨U+009D⟩0;title⟨U+009C⟩"),
            ("rm -rf /\rls        ", "rm -rf /␍ls        "),
            ("safe\x08\x08\x08\x08evil", "safe␈␈␈␈evil"),
            ("one\r\ntwo\r\n", "one\ntwo\n"),
            ("\r\r\n", "␍\n"),
            ("\x00\x7f\x0b\x0c", "␀␡␋␌"),
            ("\x85next", "⟨U+0085⟩next"),
            ("abc\u202etxt.exe", "abc⟨U+202E⟩txt.exe"),
            ("\u2066a\u2069", "⟨U+2066⟩a⟨U+2069⟩"),
        ],
    )
    def test_what_a_terminal_obeys_is_shown(self, text: str, shown: str) -> None:
        assert escape_controls(text) == shown

    def test_only_what_is_obeyed_is_changed(self) -> None:
        escaped = escape_controls(ANYTHING)
        assert not [
            hex(ord(character))
            for character in escaped
            if is_control_character(character) or character in "\u202a\u202b\u202c\u202d\u202e"
        ]
        changed = {
            character
            for character in ANYTHING
            if not is_control_character(character) and escape_controls(character) != character
        }
        assert changed <= {*BIDI, *map(chr, range(0xD800, 0xE000))}
        escaped.encode()  # every UTF-8 terminal can write it

    @given(st.text())
    def test_twice_is_once(self, text: str) -> None:
        assert escape_controls(escape_controls(text)) == escape_controls(text)
        assert escape_invisible(escape_invisible(text)) == escape_invisible(text)


class TestVisible:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("pay\u200bpal", "pay⟨U+200B⟩pal"),
            ("a\u200db", "a⟨U+200D⟩b"),
            ("\ufeffx", "⟨U+FEFF⟩x"),
            ("soft\u00adhyphen", "soft⟨U+00AD⟩hyphen"),
            ("\u2028line\u2029paragraph", "⟨U+2028⟩line⟨U+2029⟩paragraph"),
            ("hi\U000e0068\U000e0069", "hi⟨U+E0068⟩⟨U+E0069⟩"),
            ("\ud83d lone", "⟨U+D83D⟩ lone"),
            ("\u3164filler\u115f", "⟨U+3164⟩filler⟨U+115F⟩"),
            ("\x1b[2J", "␛[2J"),
            ("two\nlines", "two\nlines"),
        ],
    )
    def test_what_hides_is_shown_by_its_number(self, text: str, shown: str) -> None:
        assert escape_invisible(text) == shown

    @pytest.mark.parametrize("character", BIDI)
    def test_nothing_turns_the_direction_of_writing(self, character: str) -> None:
        assert escape_invisible(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"

    def test_no_format_character_of_unicode_hides(self) -> None:
        escaped = escape_invisible(ANYTHING)
        left = {
            ord(character)
            for character in escaped
            if unicodedata.category(character) in ("Cf", "Cs", "Zl", "Zp")
        }
        assert left <= _SEEN
        escaped.encode()  # every UTF-8 terminal can write it

    @pytest.mark.parametrize("selector", ["\ufe00", "\U000e0100", "\U000e01ef", "\u034f", "\uffa0"])
    def test_characters_that_draw_nothing_do_not_hide(self, selector: str) -> None:
        """Whole messages can be written with variation selectors: whoever approves a call must see them."""
        assert escape_invisible(f"a{selector}b") != f"a{selector}b"


# Signs above or below numbers and letters: these are seen.
_SEEN = {0x70F, 0x8E2, 0x110BD, 0x110CD, *range(0x600, 0x606), 0x6DD, 0x890, 0x891, *range(0x13430, 0x13440)}


class TestShortened:
    @pytest.mark.parametrize(
        ("text", "limit", "shown"),
        [
            ("", 5, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("  a \n\n b\t c ", 20, "a b c"),
            ("a\x1bb", 20, "a␛b"),
            ("abc", 1, "…"),
            ("abc", 0, "…"),
        ],
    )
    def test_a_text_in_one_line(self, text: str, limit: int, shown: str) -> None:
        assert shorten(text, limit) == shown

    @given(st.text(), st.integers(1, 50))
    def test_it_is_one_line_and_short_enough(self, text: str, limit: int) -> None:
        line = shorten(text, limit)
        assert len(line) <= limit
        assert len(line.splitlines()) <= 1
        assert not any(map(is_control_character, line))
