"""Reads calls that a server left in the text of a reply, because it does not know the model's form of them.

Text that may be a call is held back; everything else is passed on at once. Only tools that the request offers
are called, and nothing that is quoted: code, block quotes, quotation marks, thoughts, examples in the middle
of prose. As soon as the server reports a call of its own, all text stays text. Calls are reported with the
end of the reply, each with a Repair. A call that turns out to be none when text after it has been passed on
is left out, with a Repair: text never comes out of its order.
"""

import re
from collections.abc import Hashable
from typing import Any, Literal

from msgspec.structs import replace

from toolglot.values.losses import Repair
from toolglot.values.messages import Origin, Reply, ToolCall
from toolglot.wire.json_values import join_surrogates
from toolglot.wire.text_calls.bodies import (
    TagsEndFinder,
    TextCall,
    Tools,
    ValueEndFinder,
    find_tool,
    make_end_finder,
    parse_body,
)
from toolglot.wire.text_calls.forms import TAILS, TRIGGER, Form, Head, find_head, find_stripped_head
from toolglot.wire.text_calls.quoting import CLOSING_TAGS, Quoting
from toolglot.wire.tracker import ToolCallTracker

_SLOT = "content"  # the text of a reply, on the wires of servers that leak calls
_find_mark = re.compile(r"[<\[{]").search  # what a head can begin with
_add_text = ToolCallTracker.add_text
_MAX_REJECTED = 256  # what looks like a call and is none: a reply with more of them is about calls


class _Group:
    """Calls that follow each other, with nothing between them."""

    def __init__(self, form: Form, quoting: Quoting) -> None:
        self.form = form  # of the first call
        self.calls: list[tuple[TextCall, Form]] = []
        self.raw: list[str] = []  # as the server sent it
        self.space: list[str] = []  # after the last call
        self.is_reply_start = quoting.is_reply_start
        # A control token ends a sentence, too: nothing but an example has it in the middle of one.
        self.is_separate = quoting.is_sentence_start if form.is_control else quoting.is_line_start
        self.is_quoted = quoting.is_introduced_as_quotation or (form.is_bare and quoting.is_in_value)
        self.is_introduced = quoting.is_introduced
        self.thought_count = quoting.thought_count

    def is_example(self) -> bool:
        """Return whether prose after these calls makes them an example: in a sentence, or after "like this:"."""
        if self.form.is_bare:
            return not self.is_reply_start
        is_inline = not self.is_separate and "\n" not in "".join(self.space)
        return is_inline or (self.is_introduced and not self.form.is_control)

    def add_raw(self, *texts: str) -> None:
        """Add what belongs to the calls."""
        self.raw += (*self.space, *texts)
        self.space = []


class TextCallTracker(ToolCallTracker):
    """A tracker that also finds calls in text. `bare`: JSON and Python without any mark may be calls, too."""

    def __init__(self, origin: Origin, id_seed: str, tools: Tools, *, bare: bool) -> None:
        super().__init__(origin, id_seed)
        self._tools = tools
        self._allows_bare = bare
        self._is_active = self._is_idle = True  # idle: nothing is held back
        self._quoting = Quoting()
        self._passed: list[str] = []  # text that was passed on, and that `_quoting` has not seen yet
        self._held = ""  # the beginning of a head or of a tail
        self._head: Head | None = None  # of the call that is being read
        self._head_text = ""
        self._end_finder: ValueEndFinder | TagsEndFinder | None = None
        self._body: list[str] = []
        self._group: _Group | None = None
        self._accepted: list[_Group] = []
        self._rejected_count = 0

    # ---- what decoders and readers use

    def add_text(self, slot: Hashable, text: Any) -> None:
        may_have_calls = self._is_active and slot == _SLOT and type(text) is str
        if not may_have_calls:
            _add_text(self, slot, text)
            return
        if self._is_idle and not _find_mark(text):  # nearly every delta
            self._passed.append(text)
            _add_text(self, slot, text)
            return
        self._read(text)
        is_in_call = self._head or self._held or self._group
        self._is_idle = not is_in_call

    @property
    def visible_text(self) -> str:
        return super().visible_text + self._withheld_text

    def finish(self) -> Reply:
        if self._is_active:
            if self._head:  # cut off
                self._reject(prose=False)
            self._close_group(prose=False)
            self._pass_on(self._held)
            self._look("")
            groups = self._accepted
            self._is_active = False
            self._held = ""
            self._accepted = []
            for group in groups:
                # the end of a thought that the server left came later
                if group.thought_count < self._quoting.thought_count:
                    self._leave_out(group, "in a thought")
                else:
                    self._add_calls(group)
        return super().finish()

    def _add_calls(self, group: _Group) -> None:
        """Report calls that the server sent as text."""
        for call, form in group.calls:
            slot = ("text call", len(self.repairs))
            self.update_call(slot, call.id, call.name, call.arguments)
            self.close(slot)
            reason = f"the server sent it as text ({form.title}); read as a call"
            self.repairs.append(Repair(f"tool call {call.name!r}", "reply", reason))

    def update_call(
        self, slot: Hashable, id: object = None, name: object = None, *rest: Any, **options: Any
    ) -> None:
        if isinstance(name, str):
            name = self._clean_name(name)
        super().update_call(slot, id, name, *rest, **options)

    def set_block(self, slot: Hashable, block: Any) -> None:
        if isinstance(block, ToolCall):
            block = replace(block, name=self._clean_name(block.name))
        super().set_block(slot, block)

    def _clean_name(self, name: str) -> str:
        """Remove control tokens that vLLM leaves in names of gpt-oss (vllm#32587):
        `look_up<|channel|>commentary`.
        """
        start = name.partition("<|")[0].strip()
        if name in self._tools or start not in self._tools:
            return name
        repair = Repair(f"tool name {name!r}", "reply", f"control tokens removed; read as {start!r}")
        if repair not in self.repairs:
            self.repairs.append(repair)
        return start

    def _start_call(self, state: Any, id: str) -> None:
        if self._is_active:  # the server reads calls itself: what it left in the text is text
            text = self._withheld_text
            self._is_active = False
            self._is_idle = False
            for group in self._accepted:
                self._leave_out(group, "besides calls of its own")
            self._accepted = []
            self._group = None
            self._held = ""
            self._head_text = ""
            self._body = []
            _add_text(self, _SLOT, text)
        super()._start_call(state, id)

    def _leave_out(self, group: _Group, where: str) -> None:
        for call, form in group.calls:
            reason = f"the server sent it as text ({form.title}), {where}; left out"
            self.repairs.append(Repair(f"tool call {call.name!r}", "reply", reason))

    # ---- the text

    @property
    def _withheld_text(self) -> str:
        raw = (*self._group.raw, *self._group.space) if self._group else ()
        return join_surrogates("".join((*raw, self._head_text, *self._body, self._held)))

    def _read(self, text: str) -> None:
        text = self._held + text
        self._held = ""
        while text:
            if self._head:
                text = self._read_body(self._head, text)
            elif self._group:
                text = self._read_tail(self._group, text)
            else:
                text = self._read_prose(text)

    def _read_prose(self, text: str) -> str:
        """Pass text on up to what may be a call. Return the text that is still to be read."""
        seen = 0  # how much of it `_quoting` has seen
        triggers = TRIGGER.finditer(text) if self._rejected_count < _MAX_REJECTED else ()
        for match in triggers:
            place = match.start()
            # Most of what can begin a call is something else. The other marks depend on what stands before
            # them.
            if match[0] == "<" and self._find_head(text, place) is None:
                continue
            self._look(text[seen:place])
            seen = place
            head = self._find_head(text, place)
            if head is None or self._quoting.is_quoted:
                continue
            _add_text(self, _SLOT, join_surrogates(text[:place]))
            if head == "partial":
                self._held = text[place:]
                return ""
            return self._open(head, text, place)
        self._passed.append(text[seen:])
        _add_text(self, _SLOT, join_surrogates(text))
        return ""

    def _find_head(self, text: str, place: int) -> Head | Literal["partial"] | None:
        """Return the head of a call to an offered tool."""
        head = find_head(text, place, bare=self._allows_bare and self._quoting.is_line_start)
        if head is None and text[place] == "{":
            head = find_stripped_head(self._quoting.line_end, place)
        if isinstance(head, Head) and head.name and not find_tool(head.name, self._tools):
            return None
        return head

    def _open(self, head: Head, text: str, place: int) -> str:
        """Begin to read a body. Return the text from its start."""
        self._head = head
        self._head_text = text[place : head.end]
        self._end_finder = make_end_finder(head)
        self._group = self._group or _Group(head.form, self._quoting)
        if head.form.tags is None and text[head.end] == "<":  # Harmony: no arguments at all
            self._close_body(head)
        return text[head.end :]

    def _read_body(self, head: Head, text: str) -> str:
        assert self._end_finder is not None
        end = self._end_finder.feed(text)
        if end < 0:
            self._body.append(text)
            return ""
        self._body.append(text[:end])
        self._close_body(head)
        return text[end:]

    def _close_body(self, head: Head) -> None:
        assert self._group is not None
        body = "".join(self._body)
        calls = parse_body(head, body, self._tools)
        if calls is None:
            self._reject(prose=True)
            return
        self._group.add_raw(self._head_text, body)
        self._group.calls += ((call, head.form) for call in calls)
        self._forget_head()

    def _reject(self, *, prose: bool) -> None:
        """Pass on what looked like a call."""
        text = "".join((self._head_text, *self._body))
        self._forget_head()
        self._rejected_count += 1
        self._close_group(prose=prose)
        self._pass_on(text)

    def _forget_head(self) -> None:
        self._head = None
        self._head_text = ""
        self._body = []

    def _read_tail(self, group: _Group, text: str) -> str:
        """Read what may follow a call: white space, the end of its section, another call.

        Anything else is prose.
        """
        stripped = text.lstrip()
        group.space.append(text[: len(text) - len(stripped)])
        if not stripped:
            return ""
        form = group.calls[-1][1]
        # A parameter that ends once more: a value held what looks like the end of the call, and nobody knows
        # where it ended.
        again = form.tags.closing if form.tags else ""
        tails = (*TAILS, *filter(None, (form.extra_tail, again)))
        if tail := next((tail for tail in tails if stripped.startswith(tail)), ""):
            group.add_raw(tail)
            group.is_quoted = group.is_quoted or tail == again
            return stripped[len(tail) :]
        # the calls stand in a thought or a quotation whose beginning is unknown
        if stripped.startswith(CLOSING_TAGS):
            group.is_quoted = True
        head = self._find_head(stripped, 0) if TRIGGER.match(stripped) else None
        if head == "partial" or any(tail.startswith(stripped) for tail in (*tails, *CLOSING_TAGS)):
            self._held = stripped
            return ""
        if head is not None:
            return self._open(head, stripped, 0)
        self._close_group(prose=True)
        return stripped

    def _close_group(self, *, prose: bool) -> None:
        """Decide about the calls so far. `prose`: text follows them."""
        group = self._group
        if group is None:
            return
        self._group = None
        is_meant = bool(group.calls) and not group.is_quoted
        is_example = prose and group.is_example()
        is_accepted = is_meant and not is_example
        if is_accepted:
            self._accepted.append(group)
        else:
            self._pass_on("".join(group.raw))
        if prose or not is_accepted:
            self._pass_on("".join(group.space))
            group.space = []

    def _pass_on(self, text: str) -> None:
        if text:
            self._passed.append(text)
            _add_text(self, _SLOT, join_surrogates(text))

    def _look(self, text: str) -> None:
        """Let `_quoting` see what was passed on, and text after it."""
        self._quoting.feed("".join((*self._passed, text)))
        self._passed = []
