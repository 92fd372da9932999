"""One model's inference: wire + profile + transport. No tools run here.

Emitted events are never taken back: a stream that has emitted events is not restarted. A request is healed at
most once, and retried only as the provider allows; both are reported. Keys appear only in the headers of the
request.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from logging import DEBUG, INFO
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.redact import redact
from toolglot.common.textutil import pluralize
from toolglot.engine.auth import Key, KeySource
from toolglot.engine.error_hints import find_hint
from toolglot.engine.rate_limit import RequestRate, Slot, cancel_slot, reserve_slot
from toolglot.engine.retry import retry_delay
from toolglot.engine.transport import (
    PUBLIC_HEADERS,
    HttpRequest,
    HttpResponse,
    Transport,
    build_url,
    read_body,
    redact_error,
    sanitize_url,
    send,
)
from toolglot.errors import (
    AuthenticationFailed,
    ConnectionLost,
    LossyEncoding,
    MalformedReply,
    ProviderError,
    ReplyTooLarge,
    RequestFailed,
    ToolglotError,
    TransportError,
    UsageError,
)
from toolglot.providers.heal import heal_profile
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile, ToolFeatures
from toolglot.providers.tokens import estimate_message, estimate_tool
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.values.events import EngineEvent, Event, ReplyStarted, RequestDelayed, Retrying
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Reply
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import create_reader
from toolglot.wire.converters import encode_tools
from toolglot.wire.prefix import EncodedBody, HeadCache, PrefixEncoder
from toolglot.wire.reader import ReplyReader, error_from_response
from toolglot.wire.restore_calls import restore_events, restore_reply

if TYPE_CHECKING:
    from toolglot.telemetry.runs import RunTelemetry

__all__ = ["Engine", "EngineResult", "EngineState", "PreparedTools"]

log = get_logger("toolglot.engine")
DEFAULT_RETRY = RetryConfig()
_MAX_ERROR_BYTES = 1_000_000
_MAX_REPLY_BYTES = 128 * 1024 * 1024  # unpacked; a stream of 128,000 tokens has about 50 MB
# Some servers and proxies keep the connection open after a reply. We still wait briefly for the end of the
# response, without which the connection cannot be reused, and for the usage, which may follow the terminal
# event.
_END_SECONDS, _USAGE_SECONDS = 0.25, 5.0
# Headers with the provider's id of a request, most specific first (cf-ray is from Cloudflare, which some
# providers use).
_REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-github-request-id",
    "cf-ray",
)
_BASE_HEADERS = {"content-type": "application/json", "user-agent": "toolglot"}


class EngineResult(msgspec.Struct, frozen=True, gc=False):
    """A reply, and how it was obtained. `losses` and `repairs` cover both the request and the reply."""

    reply: Reply
    """The reply."""
    losses: tuple[Loss, ...] = ()
    """What could not be sent, or not as it was."""
    repairs: tuple[Repair, ...] = ()
    """What was changed in the request and in the reply."""
    retries: int = 0
    """How often the request was repeated."""
    seconds: float = 0.0
    """The time from the first request to the end of the reply."""


class PreparedTools(msgspec.Struct, frozen=True):
    """The tools that a model will get, also encoded in its provider's format, and what was lost, including
    omitted tools.
    """

    tools: tuple[ToolDefinition, ...]
    """The tools that the request will have."""
    problems: tuple[Problem, ...]
    """The limits of the provider that the tools exceed."""
    losses: tuple[Loss, ...]
    """What is lost, including omitted tools."""
    repairs: tuple[Repair, ...]
    """What is changed."""
    body: dict[str, Any]
    """The fields of a request: `tools`, `tool_choice` …"""


class Engine:
    """Sends requests to one model.

    It serves any number of conversations at once; each has its own `EngineState`.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        transport: Transport,
        key: Key | None = None,
        retry: RetryConfig = DEFAULT_RETRY,
        headers: Mapping[str, str] | None = None,
        heal: bool = True,
        strict: bool = False,
        name: str = "",
    ) -> None:
        if not profile.model:
            raise UsageError(f"no model is named: use {profile.id}:MODEL")
        self.profile = profile
        self.transport = transport
        self.retry = retry
        self.keys = KeySource(profile, getattr(transport, "key", None) if key is None else key)
        self.applied_heals: tuple[Repair, ...] = ()
        self.holds_responses = False
        """Whether the server kept the last response open after its reply; if so, do not wait for the end of
        the next one."""
        self._extra_headers = _lowercase_names(headers or {})
        self._heals_refusals, self.is_strict = heal, strict
        self._name = name
        self._heads = HeadCache()

    @property
    def model(self) -> str:
        """The model's name at its provider."""
        return self.profile.model

    @property
    def name(self) -> str:
        """PROVIDER:MODEL, as `create_engine` takes it."""
        return self._name or f"{self.profile.id}:{self.profile.model}"

    @property
    def is_simulated(self) -> bool:
        """Whether the simulator answers: nothing is sent to anybody."""
        return self.name.startswith("simulator")

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"

    def features(self) -> ToolFeatures:
        """Return what the model can do with tools, including the provider's limits."""
        return self.profile.features

    def prepare_tools(
        self, tools: Iterable[ToolDefinition], config: ToolConfig | None = None
    ) -> PreparedTools:
        """Encode the tools that `config` allows in the provider's format, without those that the provider
        would refuse.
        """
        config, profile = config or ToolConfig(), self.profile
        allowed = config.allow
        tools = [tool for tool in tools if config.enabled and (allowed is None or tool.name in allowed)]
        accepted, dropped = drop_refused_tools(tools, profile)
        encoded = encode_tools(accepted, profile, tool_choice=config.tool_choice, parallel=config.parallel)
        losses = (*dropped, *encoded.losses)
        return PreparedTools(
            tuple(accepted), tuple(preflight(tools, profile)), losses, encoded.repairs, encoded.body
        )

    def new_state(self, request_rates: Mapping[str, RequestRate] | None = None) -> "EngineState":
        """Return the encoding state for a new conversation. `request_rates`: as in `RunLimits`."""
        return EngineState(self, request_rates or {})

    async def ask(self, request: Request) -> EngineResult:
        """Send one request and return the whole reply."""
        return await self.new_state().ask(request)

    async def stream(self, request: Request) -> AsyncGenerator[EngineEvent]:
        """Send one request and yield the reply as it arrives; the last event is `ReplyDone`."""
        async with aclosing(self.new_state().stream_batches(replace(request, stream=True))) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def close(self) -> None:
        """Close the transport's connections; if all engines share it, only those that no request is using."""
        close = getattr(self.transport, "close", None)
        if close is not None:
            await close()

    # ---- for EngineState

    def new_encoder(self) -> PrefixEncoder:
        """Return an encoder for one conversation; all encoders share the encoded head."""
        return PrefixEncoder(self.profile, self._heads)

    def apply_heal(self, error: ProviderError, sent_profile: Profile) -> Repair | None:
        """Change the profile if that avoids the refusal, so that later requests are accepted at once.

        `sent_profile`: the profile for which the refused request was encoded.
        """
        if sent_profile is not self.profile:  # another conversation has healed it since
            return self.applied_heals[-1] if self.applied_heals else None
        healed = (
            heal_profile(str(error), self.profile) if self._heals_refusals and not error.retryable else None
        )
        if healed is None:
            return None
        self.profile, self._heads = healed.profile, HeadCache()  # encoded heads contain what was refused
        repair = Repair(healed.changed_fields, "request", f"{healed.reason}; retried")
        self.applied_heals = (*self.applied_heals, repair)
        log.info(
            "healed %s: %s",
            self.name,
            healed.reason,
            extra={"model": self.name, "healed": healed.changed_fields},
        )
        return repair

    @property
    def secrets(self) -> frozenset[str]:
        """Everything sent that may be secret: keys, the caller's headers, and the user and password in the
        base URL.
        """
        extra = (
            value.removeprefix("Bearer ")
            for name, value in self._extra_headers.items()
            if name not in PUBLIC_HEADERS
        )
        userinfo = self.profile.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        return frozenset({*self.keys.known_keys, *extra, *map(unquote, userinfo.split(":", 1))})

    def build_http_request(
        self, profile: Profile, body: bytes, key_headers: Mapping[str, str], *, stream: bool
    ) -> HttpRequest:
        """Return the HTTP request for a body.

        `profile`: for which it was encoded; the engine's may have been healed since.
        """
        # The caller's headers go last: they may replace even the key, for proxies that authenticate on their
        # own.
        own, extra = _lowercase_names(profile.headers), self._extra_headers
        headers = {**_BASE_HEADERS, **own, **key_headers, **extra}
        # a list: merge the body's needs and the caller's
        if "anthropic-beta" in own and "anthropic-beta" in extra:
            headers["anthropic-beta"] = f"{own['anthropic-beta']},{extra['anthropic-beta']}"
        path = profile.stream_path if stream and profile.stream_path else profile.path
        return HttpRequest(
            build_url(self.keys.base_url or profile.base_url, path, profile.model), headers, body, stream
        )


def _lowercase_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class EngineState:
    """The encoding state of one conversation with one model: each request encodes only what is new."""

    def __init__(self, engine: Engine, request_rates: Mapping[str, RequestRate]) -> None:
        self.engine, self.request_rates = engine, request_rates
        self._profile = engine.profile
        self._encoder = engine.new_encoder()
        self._reader: ReplyReader | None = None
        self.result: EngineResult | None = None
        self.telemetry: RunTelemetry | None = None
        """The telemetry of the current run."""

    @property
    def partial_text(self) -> str:
        """The visible text so far of the reply being read; if it is interrupted, only this remains."""
        if self.result is not None:
            return self.result.reply.text
        return self._reader.visible_text if self._reader else ""

    async def ask(self, request: Request) -> EngineResult:
        """Send a request and return the whole reply. Raises what `stream_batches` raises."""
        request = replace(request, stream=False) if request.stream else request
        if self.telemetry is None:
            return await self._answer(request)
        async for _ in self.stream_batches(request):
            pass
        assert self.result is not None
        return self.result

    def stream_batches(self, request: Request) -> AsyncGenerator[list[EngineEvent]]:
        """Yield the reply's events as they arrive, one list for each read; afterwards `result` is set.

        Raises ProviderError, TransportError, MalformedReply; after that, discard what was yielded.
        """
        batches = self._exchange(request)
        if self.telemetry is None:
            return batches
        return self.telemetry.watch_chat(batches, self.engine, request, lambda: self.result)

    async def _answer(self, request: Request) -> EngineResult:
        """Like `_exchange`, for callers that want no events: about a tenth cheaper for a short reply."""
        exchange = _Exchange(self, request, wants_events=False)
        while True:
            self._reader = self.result = None
            try:
                exchange.begin_attempt()
                if self.request_rates and (event := exchange.reserve_slot()) is not None:
                    await asyncio.sleep(event.seconds)
                await exchange.open()
                while await exchange.next() is not None:
                    pass
                self.result, self._reader = exchange.build_result(), None
                return self.result
            except (ProviderError, TransportError, MalformedReply) as error:
                delay = exchange.delay_after(error)
            finally:
                await exchange.close()  # before the delay, so that no connection is held while waiting
            await asyncio.sleep(delay)

    async def _exchange(self, request: Request) -> AsyncGenerator[list[EngineEvent]]:
        exchange = _Exchange(self, request)
        while True:
            self._reader = self.result = None
            retries = exchange.retries
            try:
                exchange.begin_attempt()
                if self.request_rates and (event := exchange.reserve_slot()) is not None:
                    yield [event]
                    await asyncio.sleep(event.seconds)
                await exchange.open()
                while (batch := await exchange.next()) is not None:
                    yield batch
                self.result, self._reader = exchange.build_result(), None
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                delay, reason = exchange.delay_after(error), str(error)
            finally:
                await exchange.close()  # before the delay, so that no connection is held while waiting
            if exchange.retries > retries:  # a renewed key or a heal does not count as a retry
                yield [Retrying(reason, delay, exchange.retries)]
            await asyncio.sleep(delay)

    def encode(self, request: Request) -> EncodedBody:
        """Encode a request as the bytes of a body."""
        engine = self.engine
        # it was healed: bytes encoded for the old profile are useless
        if self._profile is not engine.profile:
            self._profile, self._encoder = engine.profile, engine.new_encoder()
        encoded = self._encoder.encode(request)
        if engine.is_strict and encoded.losses:
            raise LossyEncoding(encoded.losses)
        return encoded

    def open_reader(
        self, request: Request, encoded: EncodedBody, *, content_type: str, wants_events: bool = True
    ) -> ReplyReader:
        """Create the reader for the response.

        `wants_events`: whether anybody looks at more than the reply.
        """
        profile, messages = self._profile, request.messages
        # The same call in a later turn gets another id. The seed includes the last id, as older messages may
        # have been omitted.
        results = messages[-1].results if messages else ()
        may_call = profile.text_calls and (request.tool_choice is None or request.tool_choice.mode != "none")
        self._reader = create_reader(
            profile.wire,
            streaming=bool(request.stream),
            content_type=content_type,
            profile=profile.id,
            model=profile.model,
            id_seed=f"{len(messages)} {results[-1].call_id if results else ''} ",
            text_calls=encoded.offered_schemas() if may_call else None,
            bare_calls=request.output is None,
            wants_call_events=wants_events,
        )
        return self._reader


class _Exchange:
    """One request until it is answered.

    Each attempt: `begin_attempt`, `open`, `next` until it returns None, `close`.

    After a failure, the key is renewed once, a refusal is healed once, and anything else is retried.
    """

    def __init__(self, state: EngineState, request: Request, *, wants_events: bool = True) -> None:
        self._state, self._engine, self._original = state, state.engine, request
        self._wants_events = wants_events
        self._started_at = time.monotonic()
        self._request_id = ""
        self._has_renewed_key = False
        self._heals: list[Repair] = []
        self.retries = 0

    def begin_attempt(self) -> None:
        """Encode the request."""
        self._profile = self._engine.profile
        self._request = _add_profile_defaults(self._original, self._profile)
        self._key_headers: Mapping[str, str] | None = None
        self._url = ""
        self._slot: Slot | None = None
        self._response: HttpResponse | None = None
        self._reader: ReplyReader | None = None
        self._restores_calls = False
        self._held_events: list[Event] = []
        self._reply: Reply | None = None
        self._first_byte_seconds = 0.0
        self._received_bytes = 0
        self._has_emitted = self._was_sent = False
        self._encoded = self._state.encode(self._request)

    def reserve_slot(self) -> RequestDelayed | None:
        """Reserve a time at which the limits allow the request; return an event if that is in the future."""
        rates, request, now = self._state.request_rates, self._request, time.monotonic()
        tokens = 0
        if any(rate.tokens is not None for rate in rates.values()):
            tokens = sum(map(estimate_message, request.messages)) + sum(map(estimate_tool, request.tools))
        slot = self._slot = reserve_slot(rates, self._engine.name, now, tokens)
        if slot.rate is None:
            return None
        limits = ((slot.rate.requests, "request"), (slot.rate.tokens, "token"))
        limit = " and ".join(pluralize(count, unit) for count, unit in limits if count is not None)
        event = RequestDelayed(
            f"{slot.pattern} is limited to {limit} in {slot.rate.seconds:g} s", slot.time - now
        )
        self._log_info("%s: %s; waiting for %.2f s", event.reason, event.seconds, seconds=event.seconds)
        return event

    def _log_info(self, message: str, *arguments: object, **fields: object) -> None:
        if log.isEnabledFor(INFO):
            status = self._response.status if self._response else None
            ids = {**self._log_ids, "provider_request": self._provider_request_id, "status": status}
            log.info(message, self._engine.name, *arguments, extra={**ids, **fields})

    @property
    def _log_ids(self) -> dict[str, Any]:
        # Our id is the same for all attempts. It is created on demand, as only logging needs it.
        self._request_id = self._request_id or uuid4().hex[:8]
        return {"model": self._engine.name, "request": self._request_id}

    @property
    def _provider_request_id(self) -> str:
        """The provider's id for this attempt; "" if it sent none."""
        headers: Mapping[str, str] = self._response.headers if self._response else {}
        text = next((value for name in _REQUEST_ID_HEADERS if (value := headers.get(name))), "")
        # A server controls this text, and it ends up on terminals.
        return redact("".join(filter(str.isprintable, text)), self._engine.secrets)[:200]

    def delay_after(self, error: ToolglotError) -> float:
        """Return the seconds to wait before the next attempt. Raises the error if there must be none."""
        engine = self._engine
        if isinstance(error, ProviderError):
            error.request_id = error.request_id or self._provider_request_id
        redact_error(error, engine.secrets)
        delay = None
        if not self._has_emitted:  # otherwise the caller would see part of the reply twice
            # Once: a second 401 means that the renewed key is wrong too.
            if (
                isinstance(error, AuthenticationFailed)
                and not self._has_renewed_key
                and self._key_headers is not None
            ):
                if engine.keys.is_renewable:
                    self._has_renewed_key = True
                    engine.keys.mark_refused(self._key_headers)
                    return 0.0
            # Once: a second heal could undo the first, and the two could alternate forever.
            if (
                isinstance(error, ProviderError)
                and not self._heals
                and (repair := engine.apply_heal(error, self._profile))
            ):
                self._heals.append(repair)
                return 0.0
            headers: Mapping[str, str] = self._response.headers if self._response else {}
            delay = retry_delay(
                error, headers, self.retries, engine.retry, chance=random.random(), now=time.time()
            )
        if delay is None:
            self._log_info(
                "%s failed: %s", error, error=error.type, seconds=time.monotonic() - self._started_at
            )
            self._complete(error)
            raise error
        self.retries += 1
        self._log_info(
            "%s: %s; retrying in %.2f s", error, delay, error=error.type, attempt=self.retries, seconds=delay
        )
        return delay

    def _complete(self, error: ToolglotError) -> None:
        """Say in an error who was asked, where, and what to do."""
        if not isinstance(error, RequestFailed):
            return
        engine = self._engine
        error.provider, _, error.model = engine.name.partition(":")
        if not engine.is_simulated:
            error.url = sanitize_url(self._url) if self._url else ""
            error.hint = find_hint(error, engine.profile, engine.keys.describe_key())

    async def open(self) -> None:
        """Send the request. Raises the provider's error if it answers with one."""
        state, engine, request, encoded = self._state, self._engine, self._request, self._encoded
        # After encoding, which may fail: a sign-in can take seconds, or ask the user for a password.
        self._key_headers = await engine.keys.headers()
        http_request = engine.build_http_request(
            self._profile, encoded.body, self._key_headers, stream=bool(request.stream)
        )
        self._url = http_request.url
        if log.isEnabledFor(DEBUG):
            size = len(http_request.body)
            fields = {"method": http_request.method, "url": sanitize_url(http_request.url), "bytes": size}
            fields |= {**self._log_ids, "stream": http_request.stream}
            log.debug("sending a request to %s: %d bytes", engine.name, size, extra=fields)
        sent_at = time.monotonic()
        self._was_sent = True
        response = self._response = await send(engine.transport, http_request)
        self._first_byte_seconds = time.monotonic() - sent_at
        if response.status >= 300:  # a redirect, too: following it could send the key to another host
            raise error_from_response(
                response.status, await read_body(response, _MAX_ERROR_BYTES, keep_partial=True)
            )
        content_type = response.headers.get("content-type", "")
        self._reader = state.open_reader(
            request, encoded, content_type=content_type, wants_events=self._wants_events
        )
        self._restores_calls = encoded.changes_calls

    async def next(self) -> list[EngineEvent] | None:
        """Return the next events to emit; None at the end."""
        reader = self._reader
        if reader is None or self._reply is not None:
            return None
        while data := await self._read():
            events = reader.feed(data)
            if self._held_events:
                events = self._held_events + events
            if not self._has_emitted and all(isinstance(event, ReplyStarted) for event in events):
                self._held_events = events  # no content yet: if the stream fails now, it can still be retried
                continue
            if events:
                return self._emit(events)
        events = self._held_events + reader.close()
        self._reply = restore_reply(reader.reply, self._encoded) if self._restores_calls else reader.reply
        return self._emit(events)

    async def _read(self) -> bytes:
        assert self._response is not None
        assert self._reader is not None
        data = b""
        if not self._reader.is_complete:
            try:
                data = await self._response.read()
            except OSError as e:  # from the caller's own transport
                raise ConnectionLost(f"the transport failed: {str(e) or type(e).__name__}") from e
        else:  # whether the server ends the response now, keeps it open or resets it: nothing is lost
            is_over, engine = self._reader.is_over, self._engine
            seconds = (0.0, _END_SECONDS, _USAGE_SECONDS)[(not engine.holds_responses) + (not is_over)]
            try:
                async with asyncio.timeout(seconds):
                    while (data := await self._response.read()) and is_over:
                        data = b""
                engine.holds_responses = engine.holds_responses and bool(data)
            except TimeoutError:
                engine.holds_responses = True
            except (TransportError, OSError):
                pass
        self._received_bytes += len(data)
        if self._received_bytes > _MAX_REPLY_BYTES:
            limit = _MAX_REPLY_BYTES // 1024**2
            raise ReplyTooLarge(
                f"the reply exceeds {limit} MB, more than any model sends; check the base URL"
            )
        return data

    def _emit(self, events: list[Event]) -> list[EngineEvent]:
        self._has_emitted, self._held_events = True, []
        return cast(
            list[EngineEvent], restore_events(events, self._encoded) if self._restores_calls else events
        )

    async def close(self) -> None:
        """Release the connection, and the slot of a request that was not sent."""
        if self._slot is not None and not self._was_sent:
            cancel_slot(self._state.request_rates, self._engine.name, self._slot)
        if self._response is not None:
            await self._response.close()

    def build_result(self) -> EngineResult:
        """Return the reply and how it was obtained, and log it."""
        assert self._reply is not None
        assert self._reader is not None
        losses = (*self._encoded.losses, *self._reader.losses)
        repairs = (*self._encoded.repairs, *self._heals, *self._reader.repairs)
        seconds = time.monotonic() - self._started_at
        if self._slot is not None and (tokens := self._reply.usage.input + self._reply.usage.output):
            self._slot.tokens = tokens
        result = EngineResult(self._reply, losses, repairs, self.retries, seconds)
        if log.isEnabledFor(INFO):
            stop, usage = result.reply.stop, result.reply.usage
            fields = {"stop": stop, "seconds": seconds, "first_byte": self._first_byte_seconds}
            self._log_info(
                "%s replied in %.3f s: %s", seconds, stop, **fields, retries=self.retries, usage=usage
            )
        return result


def _add_profile_defaults(request: Request, profile: Profile) -> Request:
    """Add the extras that the profile always sends, such as usage in streams, unless the request sets them."""
    extras, own_extras = request.extras, request.extras.get(profile.wire, {})
    defaults = {**profile.defaults, **(profile.stream_defaults if request.stream else {})}
    if missing := {key: value for key, value in defaults.items() if key not in own_extras}:
        extras = {**extras, profile.wire: {**missing, **own_extras}}
    if extras is request.extras and request.model == profile.model and request.stream is not None:
        return request
    return replace(request, model=profile.model, extras=extras, stream=bool(request.stream))
