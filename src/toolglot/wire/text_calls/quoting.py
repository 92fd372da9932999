"""Tells whether a place in a reply is quoted, so that what stands there is an example and not a call."""

import re

_FENCE = re.compile(r"(?:[\s>]|[-*+]\s|\d{1,9}[.)]\s)*(`{3,}|~{3,})(.*)")  # also in a list
_INDENTED = re.compile(r" {4}| {0,3}\t")
_QUOTATION_MARKS = tuple("\"'“‘„«‹「『")
# Thoughts that a server left in the text, and tags that quote. The names are the models' own.
_THOUGHTS = ("think", "thinking", "thought", "reasoning", "reflection", "THINK")
_TAGS = (*_THOUGHTS[:-1], "code", "pre", "example", "examples")
_MARK = re.compile(rf"(`+)|<(/?)({'|'.join(_TAGS)})>|\[(/?)(THINK)\]")
CLOSING_TAGS = (*(f"</{name}>" for name in _TAGS), "[/THINK]")
"""What follows a call only if it is quoted."""
# Words that introduce an example.
_EXAMPLE = re.compile(
    r"\b(?:(?:examples?|instance|such as|like (?:this|so)|looks? like|formats?|syntax|would "
    r"(?:be|call|send|write))\b|e\.g\.)"
    r".*[:：]\W*\Z",
    re.IGNORECASE,
)
# Words that introduce what somebody else wrote: "The file says:", "Here is its content:", but not "Let me
# read the file:".
_CONTENT = (
    r"\b(?:files?|readme|contents?|outputs?|results?|responses?|logs?|documents?|pages?|texts?|messages?)\b"
)
_QUOTATION = re.compile(
    r"(?:\b(?:says?|said|reads|wrote|replied|answered|(?:contain|show|state|print|return|report)(?:s|ed)|output)"
    r"|\bhere(?:['’]s| is| "
    rf"are)\b.*{_CONTENT}.*|(?:\A|[,;]\s)\W*(?:(?:the|its|this|that|your)\b[^,;]*)?{_CONTENT}[^,;]*)"
    r"[:：]\W*\Z",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:I['’]ll|will|let|needs?|must|should|next|steps?|(?:calls?|commands?) (?:to|that|for))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s")
_LIST_MARKER = re.compile(r"\s*(?:[-*+•]|\d{1,9}[.)])\s+")
_KEPT = 300  # characters of the beginning and of the end of a line that are looked at again


class _Line:
    """The current line, as far as it is known: its beginning and its end, and what is open there."""

    def __init__(self, region: str, backticks: str) -> None:
        self.start = self.end = ""
        self.is_blank = True
        self.region = region
        self.opens_region = False
        self.backticks = backticks  # a run that opened code, which the same run closes
        self.run_count = self.stray_thoughts = 0

    def read_mark(self, match: re.Match[str]) -> None:
        """Follow a run of backticks, or a tag of `_MARK`."""
        run = match[1]
        name = match[3] or match[5]
        is_opening = not (match[2] or match[4])
        if run:
            self.run_count += 1
            if run == self.backticks:
                self.backticks = ""
            else:
                self.backticks = self.backticks or run
        elif is_opening:
            self.opens_region = self.opens_region or not self.region
            self.region = self.region or name
        elif name == self.region:
            self.region = ""
        elif not self.region and name in _THOUGHTS:
            self.stray_thoughts += 1


class Quoting:
    """Follows the Markdown of a reply.

    `feed` takes all text before a place, in pieces that do not split a mark.
    """

    def __init__(self) -> None:
        self._line = _Line("", "")
        self._has_text = False  # there was something else than white space in the lines before
        self._last_text = ""  # the end of the last of them that is not blank
        self._stray_thoughts = 0
        self._fence = ""
        self._may_indent = True  # an indented line is code here: it does not continue a paragraph

    def feed(self, text: str) -> None:
        """Add text."""
        first, *others = text.split("\n")
        self._extend_line(first)
        for other in others:
            self._end_line()
            self._extend_line(other)

    def _extend_line(self, text: str) -> None:
        line = self._line
        line.start += text[: _KEPT - len(line.start)]
        line.end = (line.end + text)[-_KEPT:]
        line.is_blank = line.is_blank and not text.strip()
        if not self._fence:
            for match in _MARK.finditer(text):
                line.read_mark(match)

    def _end_line(self) -> None:
        line = self._line
        region = line.region
        backticks = line.backticks
        was_fenced = bool(self._fence)
        self._update_fence()
        if self._fence and not was_fenced:
            backticks = ""  # they open the fence
        self._stray_thoughts += line.stray_thoughts
        self._may_indent = line.is_blank or (self._may_indent and bool(_INDENTED.match(line.start)))
        if line.is_blank:
            backticks = ""  # inline code ends with its paragraph at the latest
        else:
            self._has_text = True
            self._last_text = line.end
        # A tag that quotes begins or ends its line. Within a line it is a word ("the <pre> element"), which
        # is never closed.
        if line.opens_region and region not in _THOUGHTS:
            begins_line = line.start.lstrip().startswith(f"<{region}>")
            ends_line = line.end.rstrip().endswith(f"<{region}>")
            if not begins_line and not ends_line:
                region = ""
        self._line = _Line(region, backticks)

    def _update_fence(self) -> None:
        """Open or close a block of code, if the line is a fence."""
        fence = _FENCE.match(self._line.start)
        if fence is None:
            return
        marks, info = fence.groups()
        if not self._fence:
            if self._line.run_count <= 1:  # more runs of backticks: inline code
                self._fence = marks
        elif marks.startswith(self._fence) and not info.strip():
            self._fence = ""

    # ---- the place after all text

    @property
    def line_end(self) -> str:
        """What stands before the place in its line, at most a few hundred characters."""
        return self._line.end

    @property
    def thought_count(self) -> int:
        """How many thoughts have ended whose beginning is unknown: it was part of the prompt."""
        return self._stray_thoughts + self._line.stray_thoughts

    @property
    def is_line_start(self) -> bool:
        """Whether nothing but white space stands before the place in its line."""
        return self._line.is_blank

    @property
    def is_reply_start(self) -> bool:
        """Whether nothing but white space stands before the place."""
        return not self._has_text and self._line.is_blank

    @property
    def is_sentence_start(self) -> bool:
        """Whether the text before the place in its line is complete: a sentence, an introduction, a control
        token.
        """
        return self._line.is_blank or self._line.end.rstrip().endswith(
            (".", "!", "?", "…", "。", ":", "：", ">", "]")
        )

    @property
    def is_introduced(self) -> bool:
        """Whether the text before the place ends with a colon."""
        return self._text_before.rstrip().endswith((":", "："))

    @property
    def is_in_value(self) -> bool:
        """Whether the text before the place ends as JSON does before an inner value."""
        return self._text_before.rstrip().endswith(("[", "{", "(", ",", '":'))

    @property
    def is_introduced_as_quotation(self) -> bool:
        """Whether the text before the place says that an example or somebody else's text follows: a quotation
        mark, a word.
        """
        text = self._text_before
        if (
            self._line.end.endswith(_QUOTATION_MARKS)
            or _LIST_MARKER.fullmatch(self._line.start)
            or _EXAMPLE.search(text)
        ):
            return True
        sentence = _SENTENCE_END.split(text)[-1]
        return bool(_QUOTATION.search(sentence)) and not _PLAN.search(sentence)

    @property
    def _text_before(self) -> str:
        return self._last_text if self._line.is_blank else self._line.end

    @property
    def is_quoted(self) -> bool:
        """Whether the place is in code, a block quote or a thought."""
        line = self._line
        if self._fence or line.region or line.backticks:
            return True
        if line.start.lstrip().startswith(">"):
            return True
        return self._may_indent and bool(_INDENTED.match(line.start))
