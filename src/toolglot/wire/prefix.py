"""Append-only encoding: each request costs only what is new, and the bytes sent before stay a prefix of the
body.

A turn is closed when all of its calls have results. It is repaired and encoded once and never touched again,
so that prompt caches hit. The head of the body (model, tools, options, instructions) is encoded again only if
it changes, which starts a new prefix.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from toolglot.common.jsontext import dumps
from toolglot.providers.profile import Profile
from toolglot.values.messages import Message
from toolglot.values.request import Request
from toolglot.wire.cache_marks import count_head_marks
from toolglot.wire.codec import encode_messages, encode_request, is_stateful, load_request_encoder
from toolglot.wire.history import filter_visible
from toolglot.wire.repair import HistoryRepairer, split_turns
from toolglot.wire.tool_encoding import reserve_names
from toolglot.wire.tools_over_time import PlacedChange, find_changes, plan_tools
from toolglot.wire.writer import Encoding, ToolPlan, Writer

_read_rest = cast(
    Callable[[Request], tuple[Any, ...]],
    attrgetter(*(name for name in Request.__struct_fields__ if name != "messages")),
)


class EncodedBody(Encoding, frozen=True, gc=False, kw_only=True):
    """A request as the bytes of a body. The first `prefix_length` bytes also start the next body."""

    body: bytes = b""
    """The bytes of the body."""
    prefix_length: int = 0
    """How many of them also start the next body."""


class EncodedHead(NamedTuple):
    """The beginning of a body up to the items, and the writer that knows its names.

    It is copied and never changed.
    """

    key: object  # all that the head depends on
    writer: Writer
    data: bytes


class HeadCache:
    """The latest head for a target, shared by conversations that start alike, also in several threads."""

    def __init__(self) -> None:
        self.latest: EncodedHead | None = None  # replaced whole: key, writer and bytes belong together


class PrefixEncoder:
    """Encodes the successive requests of one conversation for one target.

    `head_cache` is shared with encoders of other conversations for the same target, so that tools are lowered
    only once.
    """

    def __init__(self, profile: Profile, head_cache: HeadCache | None = None) -> None:
        self._profile = profile
        self._head_cache = head_cache or HeadCache()
        self._encoder = load_request_encoder(profile.wire)
        self._rest: tuple[Any, ...] | None = None  # of the latest request: all but its messages
        # The rest is what is known of the prefix. `_start_prefix` sets all of it; until then, `_rest` is
        # None.
        self._messages: Sequence[Message]  # of the latest request
        self._leading_count: int  # messages that the head contains
        # messages whose encoding is final: the leading ones and those of closed turns
        self._closed_count: int
        self._closed_items: bytearray  # the encoding of closed turns, with a comma after each item
        self._repairer: HistoryRepairer  # as it is after the closed turns
        self._head: bytes
        self._head_key: object
        self._writer: Writer
        self._changes: list[PlacedChange]  # of the tools, as the plan of the writer knows them
        self._closed_changes: list[PlacedChange]  # those among the closed messages
        self._has_open_changes: bool  # whether there are others

    def encode(self, request: Request) -> EncodedBody:
        """Encode a request.

        A conversation that is the same object, or starts with the same messages, keeps its prefix.
        """
        request = request if request.model else replace(request, model=self._profile.model)
        if not self._try_extend(request) or not self._try_keep_head(request):
            self._start_prefix(request)
        self._close_turns(request)
        is_all_closed = self._closed_count == len(request.messages)
        if is_all_closed and self._repairer.awaits_model:  # a tool loop: nothing is open
            writer = self._writer
            repairer = self._repairer
            tail = self._encode_end(writer)
        else:  # the open turn may look different in the next request: encode it with copies
            writer = self._writer.copy()
            repairer = self._repairer.copy()
            tail = self._encode_open_turns(request.messages, writer, repairer)
        if self._closed_items or tail:
            *parts, last = [part for part in (self._head, self._closed_items, tail) if part]
            body = b"".join((*parts, _drop_last_comma(last), b"]}"))
            prefix_length = len(self._head) + len(self._closed_items) - 1
        else:  # the provider stores the whole history
            body = dumps(encode_request(request, self._profile).body)
            prefix_length = 0
        return EncodedBody(
            tuple(writer.losses),
            (*writer.repairs, *repairer.repairs),
            writer.names,
            writer.lowerings,
            frozenset(writer.freeform),
            body=body,
            prefix_length=prefix_length,
        )

    def _try_extend(self, request: Request) -> bool:
        """Continue the prefix with a request whose messages start with the closed ones.

        Return False if it has another head.
        """
        if self._rest is None or _read_rest(request) != self._rest:
            return False
        messages = request.messages
        if len(messages) < self._closed_count or self._encoder.leading_count(messages) != self._leading_count:
            return False
        if self._encoder.head_key(request, self._writer) != self._head_key:
            return False
        if messages is self._messages:
            return True
        # Another list: its messages must be the very same objects, which is cheap to check and never wrong.
        closed = zip(messages[: self._closed_count], self._messages, strict=False)
        self._messages = messages
        return all(new is old for new, old in closed)

    def _try_keep_head(self, request: Request) -> bool:
        """Plan the tools that came since the last request. Return False if they change the head."""
        # The open turn may look different each time: only the changes of closed turns are kept.
        open_changes = find_changes(request.messages, self._leading_count, self._closed_count)
        self._has_open_changes = bool(open_changes)
        changes = [*self._closed_changes, *open_changes]
        if changes == self._changes:
            return True
        plan = plan_tools(request, changes, Writer(self._profile, request.model))
        choice = request.tool_choice
        if plan.head_key(choice) != self._writer.plan.head_key(choice):
            return False
        self._set_plan(plan, changes)
        return True

    def _set_plan(self, plan: ToolPlan, changes: list[PlacedChange]) -> None:
        self._changes = changes
        self._writer.plan = plan
        if plan.inline:
            reserve_names(plan.inline.values(), self._writer)

    def _start_prefix(self, request: Request) -> None:
        """Forget the prefix, and start another one with the head of this request."""
        self._rest = None  # as long as the head is incomplete, nothing can extend it
        self._messages = request.messages
        self._leading_count = self._closed_count = self._encoder.leading_count(request.messages)
        self._closed_items = bytearray()
        self._repairer = HistoryRepairer(self._profile.history, stateful=is_stateful(request, self._profile))
        writer = Writer(self._profile, request.model)
        writer.leading_count = self._leading_count
        self._head_key = self._encoder.head_key(request, writer)
        changes = find_changes(request.messages, self._leading_count)
        self._closed_changes = find_changes(request.messages[: self._leading_count], self._leading_count)
        self._has_open_changes = bool(changes)
        plan = writer.plan = plan_tools(request, changes, writer)
        head = self._find_or_encode_head(request, writer)
        self._writer = head.writer.copy()
        self._head = head.data
        self._rest = _read_rest(request)
        self._set_plan(plan, changes)

    def _find_or_encode_head(self, request: Request, writer: Writer) -> EncodedHead:
        """Return the shared head if it is that of this request; otherwise encode it with a new writer, and
        share it.
        """
        system = request.messages[: self._leading_count]
        key = (self._head_key, _read_rest(request), system, writer.plan.head_key(request.tool_choice))
        head = self._head_cache.latest  # read once: another thread may replace it at any time
        if head is not None and head.key == key:
            return head
        tools = writer.plan.head
        reserve_names(tools, writer)
        planned = replace(request, tools=tools)
        writer.mark_count = count_head_marks(planned, self._leading_count, writer)
        body = self._encoder.encode_body(planned, writer, filter_visible(system, writer, 0), [])
        data = dumps(body)[:-2]  # without "]}": the items come last in every body
        if data[-1:] != b"[":
            data += b","
        head = self._head_cache.latest = EncodedHead(key, writer, data)
        return head

    def _close_turns(self, request: Request) -> None:
        """Encode the turns that were closed since the last request."""
        for turn in split_turns(request.messages, self._closed_count):
            messages = request.messages[turn.start : turn.stop]
            # A prefill, which is an assistant message at the end of a request, is changed for some targets
            # (`plain_prefill`: it must not end in white space), but only there. As long as this turn may be
            # one, it stays open.
            is_prefill = self._profile.history.plain_prefill and _may_be_prefill(
                messages, request.messages[turn.stop :]
            )
            if not turn.is_closed or is_prefill:
                break
            history = self._repairer.repair_turn(
                filter_visible(messages, self._writer, turn.start), turn.start
            )
            # a bytearray grows in place
            self._closed_items += self._encode_items(history, self._writer, turn.start)
            if self._has_open_changes:
                # closed turns come after the leading messages
                self._closed_changes += find_changes(messages, leading_count=0)
            self._closed_count = turn.stop

    def _encode_open_turns(
        self, messages: Sequence[Message], writer: Writer, repairer: HistoryRepairer
    ) -> bytes:
        """Encode the turns that are not closed yet, and the end of the history."""
        history: list[Message] = []
        for turn in split_turns(messages, self._closed_count):
            visible = filter_visible(messages[turn.start : turn.stop], writer, turn.start)
            history += repairer.repair_turn(visible, turn.start)
        items = self._encode_items(repairer.repair_ending(history), writer, self._closed_count)
        return items + self._encode_end(writer)

    def _encode_end(self, writer: Writer) -> bytes:
        return _join_items(self._encoder.encode_end(writer))

    def _encode_items(self, history: Sequence[Message], writer: Writer, first: int) -> bytes:
        return _join_items(encode_messages(history, self._encoder, writer, first))


def _join_items(items: list[dict[str, Any]]) -> bytes:
    """Write items as they stand in the list of a body, with a comma after each."""
    if not items:
        return b""
    return dumps(items)[1:-1] + b","


def _drop_last_comma(items: bytes | bytearray) -> memoryview:
    """Return items without the comma after the last one; not as a copy, because they may be nearly the whole
    body.
    """
    return memoryview(items)[:-1]


def _may_be_prefill(turn: Sequence[Message], following: Sequence[Message]) -> bool:
    """Return whether a request may end with an assistant message of this turn: what follows may be left out
    as blank.
    """
    if not any(message.role == "assistant" for message in turn):
        return False
    is_call_with_results = len(turn) == 2 and turn[1].role == "tool"
    if is_call_with_results:  # the usual turn: the request ends with the results
        return False
    return not any(message.role in ("user", "system") and message.text.strip() for message in following)
