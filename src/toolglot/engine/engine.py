"""One model's inference: wire + profile + transport. No tool is run here.

Laws: what is shown is never taken back: a stream that has shown events is not started again. A request is healed at most once
and asked again only as the provider allows; both are reported. Keys stay in the request's head.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import lru_cache
from logging import DEBUG, INFO, getLogger
from typing import Any, cast
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.engine.auth import Key, KeySource
from toolglot.engine.retry import retry_delay
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.errors import (
    AuthenticationFailed,
    LossyEncoding,
    MalformedReply,
    ProviderError,
    ToolglotError,
    TransportError,
    UsageError,
)
from toolglot.events import Event, ReplyStarted, Retrying
from toolglot.jsontext import dumps_text, loads
from toolglot.losses import Loss, Repair
from toolglot.messages import Reply
from toolglot.providers.heal import heal_profile
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile, ToolFeatures
from toolglot.redact import redact
from toolglot.request import Request, ToolDefinition
from toolglot.tools.config import RetryConfig
from toolglot.wire.codec import create_reader
from toolglot.wire.prefix import EncodedBody, HeadCache, PrefixEncoder
from toolglot.wire.reader import ReplyReader, error_from_response
from toolglot.wire.restore_calls import needs_restoring, restore_events, restore_reply

__all__ = ["Engine", "EngineResult", "EngineState", "PreparedTools", "join_url", "redact_error"]

log = getLogger("toolglot.engine")
_EMPTY_BODY = EncodedBody(b"", 0)
DEFAULT_RETRY = RetryConfig()
# What providers call a request of theirs, the most telling name first.
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id", "apim-request-id", "x-github-request-id", "cf-ray")
_PUBLIC_HEADERS = frozenset(
    {"content-type", "user-agent", "accept", "anthropic-version", "anthropic-beta"}
)  # headers without secrets
_BASE_HEADERS = {"content-type": "application/json", "user-agent": "toolglot"}


class EngineResult(msgspec.Struct, frozen=True, gc=False):
    """A reply, and what it took to get it. `losses` and `repairs` are of the request and of the answer."""

    reply: Reply
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    retries: int = 0
    seconds: float = 0.0


class PreparedTools(msgspec.Struct, frozen=True):
    """Tools as the model will get them: those it takes, and what is lost of the rest."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[Problem, ...]
    losses: tuple[Loss, ...]


class Engine:
    """Asks one model. It may serve any number of conversations at once; each has a `session` of its own."""

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
            raise UsageError(f"no model is named: say {profile.id}:MODEL")
        self.profile = profile
        self.transport = transport
        self.retry = retry
        self.keys = KeySource(profile, key)
        self.applied_heals: tuple[Repair, ...] = ()
        self._extra_headers = _lowercase_names(headers or {})
        self._heals_refusals, self._is_strict = heal, strict
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

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"

    def features(self) -> ToolFeatures:
        """What the model can do with tools."""
        return self.profile.features

    def prepare_tools(self, tools: Iterable[ToolDefinition]) -> PreparedTools:
        """The tools that the provider takes; the others are left out with a reason."""
        tools = tuple(tools)
        kept, losses = drop_refused_tools(tools, self.profile)
        return PreparedTools(tuple(kept), tuple(preflight(tools, self.profile)), tuple(losses))

    def new_state(self) -> "EngineState":
        """A way to the model for one conversation: it keeps what was encoded."""
        return EngineState(self)

    async def ask(self, request: Request) -> EngineResult:
        """The whole answer to one request."""
        return await self.new_state().ask(request)

    async def stream(self, request: Request) -> AsyncGenerator[Event | Retrying]:
        """The answer to one request as it comes; the last event is `ReplyDone`."""
        async with aclosing(self.new_state().stream_batches(replace(request, stream=True))) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def close(self) -> None:
        """Gives back what the transport holds."""
        close = getattr(self.transport, "close", None)
        if close is not None:
            await close()

    # ---- for sessions

    def new_encoder(self) -> PrefixEncoder:
        """An encoder for one conversation; it shares its head with all others."""
        return PrefixEncoder(self.profile, self._heads)

    def apply_heal(self, error: ProviderError, sent_profile: Profile) -> Repair | None:
        """Changes the profile where the refusal can be cured; every later request is right at once.

        `sent`: the profile that the request was made for; where another conversation has cured it since, that is enough.
        """
        if sent_profile is not self.profile:
            return self.applied_heals[-1] if self.applied_heals else None
        found = heal_profile(str(error), self.profile) if self._heals_refusals and not error.retryable else None
        if found is None:
            return None
        self.profile, self._heads = found.profile, HeadCache()
        done = Repair(found.changed_fields, "request", f"{found.reason}; asked again")
        self.applied_heals = (*self.applied_heals, done)
        log.info("healed %s: %s", self.name, found.reason, extra={"model": self.name, "healed": found.changed_fields})
        return done

    @property
    def secrets(self) -> frozenset[str]:
        """Whatever is sent that may be secret: keys, the caller's own headers, who is named in the address."""
        own = (value.removeprefix("Bearer ") for name, value in self._extra_headers.items() if name not in _PUBLIC_HEADERS)
        named = self.profile.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        return frozenset({*self.keys.known_keys, *own, *map(unquote, named.split(":", 1))})

    def check_losses(self, encoded: EncodedBody) -> None:
        """Strict engines send nothing that would lose something."""
        if self._is_strict and encoded.losses:
            raise LossyEncoding(encoded.losses)

    def build_http_request(self, profile: Profile, body: bytes, key_headers: Mapping[str, str], *, stream: bool) -> HttpRequest:
        """The request as it goes out, to where it was encoded for, or where its token is good. The caller's own headers win."""
        headers = {**_BASE_HEADERS, **_lowercase_names(profile.headers), **key_headers, **self._extra_headers}
        return HttpRequest(_build_url(profile, stream, self.keys.base_url or profile.base_url), headers, body, stream)


def _lowercase_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _build_url(profile: Profile, stream: bool, base: str) -> str:
    path = profile.stream_path if stream and profile.stream_path else profile.path
    return join_url(base, path).replace("{model}", quote(profile.model, safe="/-._~:@"))


@lru_cache(maxsize=256)
def join_url(base: str, path: str) -> str:
    """A base URL and a path. A base that already ends with the path's first parts (…/v1) does not get them twice."""
    base = base.rstrip("/")
    parts = path.split("/")[1:]
    for count in range(len(parts) - 1, 0, -1):
        start = "/" + "/".join(parts[:count])
        if base.endswith(start):
            return base.removesuffix(start) + path
    return base + path


class EngineState:
    """One conversation's way to one model: each request costs what is new in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._profile = engine.profile
        self._encoder = engine.new_encoder()
        self._reader: ReplyReader | None = None
        self.result: EngineResult | None = None

    @property
    def partial_text(self) -> str:
        """The visible text of the reply that is being read: all that is left of it when it is interrupted."""
        if self.result is not None:
            return self.result.reply.text
        return self._reader.visible_text if self._reader else ""

    async def ask(self, request: Request) -> EngineResult:
        """The whole answer to a request. Raises what `batches` does."""
        request = replace(request, stream=False) if request.stream else request
        patience = _RetryState(self._engine)
        while True:
            attempt = self._start_attempt(request, patience)
            try:
                await attempt.open()
                while await attempt.next() is not None:
                    pass
                return self._finish(attempt, patience)
            except (ProviderError, TransportError, MalformedReply) as error:
                wait = patience.delay_after(error, attempt)
            finally:
                await attempt.close()
            await asyncio.sleep(wait)

    async def stream_batches(self, request: Request) -> AsyncGenerator[list[Event | Retrying]]:
        """The answer as it comes, one list for each piece that was read; then `answered` is set.

        Raises ProviderError, TransportError, MalformedReply; after that nothing of the answer counts.
        """
        patience = _RetryState(self._engine)
        while True:
            attempt, number = self._start_attempt(request, patience), patience.retries
            try:
                await attempt.open()
                while (batch := await attempt.next()) is not None:
                    yield batch
                self._finish(attempt, patience)
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                wait, why = patience.delay_after(error, attempt), str(error)
            finally:
                await attempt.close()
            if patience.retries > number:
                yield [Retrying(why, wait, patience.retries)]
            await asyncio.sleep(wait)

    def _start_attempt(self, request: Request, retry_state: "_RetryState") -> "_Attempt":
        self._reader = self.result = None
        return _Attempt(self, request, retry_state)

    def _finish(self, attempt: "_Attempt", retry_state: "_RetryState") -> EngineResult:
        done = attempt.build_result(tuple(retry_state.heals), retry_state.retries, retry_state.elapsed)
        self.result, self._reader = done, None
        if log.isEnabledFor(INFO):
            _log_result(attempt, done)
        return done

    def encode(self, request: Request) -> EncodedBody:
        """The request as the bytes of a body."""
        engine = self._engine
        if self._profile is not engine.profile:  # healed since
            self._profile, self._encoder = engine.profile, engine.new_encoder()
        encoded = self._encoder.encode(request)
        engine.check_losses(encoded)
        return encoded

    def open_reader(self, request: Request, *, content_type: str) -> ReplyReader:
        """A reader for the answer."""
        profile = self._profile
        self._reader = create_reader(
            profile.wire,
            streaming=bool(request.stream),
            content_type=content_type,
            profile=profile.id,
            model=profile.model,
        )
        return self._reader

    @property
    def engine(self) -> Engine:
        """The engine that it asks."""
        return self._engine


class _RetryState:
    """What is done about failures of one request: the key is renewed once, a refusal cured once, the rest waited for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started_at = time.monotonic()
        self._has_renewed_key = False
        self._request_id = ""
        self.heals: list[Repair] = []
        self.retries = 0

    @property
    def request_id(self) -> str:
        """Our name for the request, the same however often it is sent. It is made when somebody wants to know it."""
        if not self._request_id:
            self._request_id = uuid4().hex[:8]
        return self._request_id

    @property
    def elapsed(self) -> float:
        """Since the request was made."""
        return time.monotonic() - self._started_at

    def delay_after(self, error: ToolglotError, attempt: "_Attempt") -> float:
        """Seconds before the provider is asked again. Raises the error where it is not, and where something was shown."""
        engine = self._engine
        if isinstance(error, ProviderError):
            error.request_id = error.request_id or attempt.provider_request_id
        redact_error(error, engine)
        if attempt.has_emitted:
            raise self._log_failure(error, attempt)
        if isinstance(error, AuthenticationFailed) and not self._has_renewed_key and attempt.key_headers is not None:
            if engine.keys.is_renewable:
                self._has_renewed_key = True
                engine.keys.mark_refused(attempt.key_headers)
                return 0.0
        if isinstance(error, ProviderError) and not self.heals and (repair := engine.apply_heal(error, attempt.profile)):
            self.heals.append(repair)
            return 0.0
        wait = attempt.retry_delay(error, self.retries, engine.retry)
        if wait is None:
            raise self._log_failure(error, attempt)
        self.retries += 1
        if log.isEnabledFor(INFO):
            fields = {**attempt.log_fields, "error": error.type, "attempt": self.retries, "seconds": wait}
            log.info("%s: %s; asked again in %.2f s", engine.name, error, wait, extra=fields)
        return wait

    def _log_failure(self, error: ToolglotError, attempt: "_Attempt") -> ToolglotError:
        if log.isEnabledFor(INFO):
            fields = {**attempt.log_fields, "error": error.type, "status": attempt.status, "seconds": self.elapsed}
            log.info("%s failed: %s", self._engine.name, error, extra=fields)
        return error


class _Attempt:
    """One request, sent once: `open`, then `next` until it is None, and `close` in any case."""

    def __init__(self, state: EngineState, request: Request, retry_state: _RetryState) -> None:
        self._state, self._retry_state = state, retry_state
        self.profile = state.engine.profile
        self._request = _add_profile_defaults(request, self.profile)
        self._encoded = _EMPTY_BODY
        self.key_headers: Mapping[str, str] | None = None
        self._response: HttpResponse | None = None
        self._reader: ReplyReader | None = None
        self._restores_calls = False
        self._held_events: list[Event] = []
        self._reply: Reply | None = None
        self.first_byte_seconds = 0.0  # seconds from the request to the head of its answer
        self.has_emitted = False

    @property
    def provider_request_id(self) -> str:
        """What the provider calls this request; "" where it does not say."""
        headers = self._response.headers if self._response else dict[str, str]()
        found = next((value for name in _REQUEST_ID_HEADERS if (value := headers.get(name))), "")
        return redact("".join(filter(str.isprintable, found)), self._state.engine.secrets)[:200]

    @property
    def status(self) -> int | None:
        """Of the answer, where one came."""
        return self._response.status if self._response else None

    @property
    def log_fields(self) -> dict[str, Any]:
        """Whose request it is, for the log."""
        return {
            "model": self._state.engine.name,
            "request": self._retry_state.request_id,
            "provider_request": self.provider_request_id,
        }

    async def open(self) -> None:
        """Sends the request. Raises what the provider answers where that is an error."""
        session, engine, request = self._state, self._state.engine, self._request
        sent = self._encoded = session.encode(request)
        self.key_headers = await engine.keys.headers()
        asked = engine.build_http_request(self.profile, sent.body, self.key_headers, stream=bool(request.stream))
        if log.isEnabledFor(DEBUG):
            self._log_request(asked)
        before = time.monotonic()
        answer = self._response = await engine.transport.send(asked)
        self.first_byte_seconds = time.monotonic() - before
        if answer.status >= 300:
            raise error_from_response(answer.status, await _read_error_body(answer))
        self._reader = session.open_reader(request, content_type=answer.headers.get("content-type", ""))
        self._restores_calls = needs_restoring(sent)

    def _log_request(self, request: HttpRequest) -> None:
        name, size = self._state.engine.name, len(request.body)
        fields = {
            "model": name,
            "request": self._retry_state.request_id,
            "method": request.method,
            "url": _sanitize_url(request.url),
            "bytes": size,
            "stream": request.stream,
        }
        log.debug("asking %s: %d bytes", name, size, extra=fields)

    async def next(self) -> list[Event | Retrying] | None:
        """The next events that can be shown; None at the end."""
        found = self._reader
        if found is None or self._reply is not None:
            return None
        while data := await self._read():
            events = found.feed(data)
            if self._held_events:
                events = self._held_events + events
            if not self.has_emitted and all(isinstance(event, ReplyStarted) for event in events):
                self._held_events = events  # nothing to see yet: it may still be asked again
                continue
            if events:
                return self._emit(events)
        events = self._held_events + found.close()
        assert found.reply is not None
        self._reply = restore_reply(found.reply, self._encoded) if self._restores_calls else found.reply
        return self._emit(events)

    async def _read(self) -> bytes:
        assert self._response is not None
        try:
            return await self._response.read()
        except TransportError:
            if self._reader is not None and self._reader.is_complete:  # the answer was whole already
                return b""
            raise

    def _emit(self, events: list[Event]) -> list[Event | Retrying]:
        self.has_emitted, self._held_events = True, []
        return cast(list[Event | Retrying], restore_events(events, self._encoded) if self._restores_calls else events)

    async def close(self) -> None:
        """Gives the connection back."""
        if self._response is not None:
            await self._response.close()

    def retry_delay(self, error: ToolglotError, attempt: int, config: RetryConfig) -> float | None:
        """Seconds before it may be asked again; None: it may not."""
        headers = self._response.headers if self._response else dict[str, str]()
        return retry_delay(error, headers, attempt, config, chance=random.random(), now=time.time())

    def build_result(self, heals: tuple[Repair, ...], retries: int, seconds: float) -> EngineResult:
        """The reply and what it took."""
        assert self._reply is not None
        assert self._reader is not None
        losses = (*self._encoded.losses, *self._reader.losses)
        return EngineResult(self._reply, losses, (*self._encoded.repairs, *heals), retries, seconds)


def _sanitize_url(url: str) -> str:
    """An address without its query and without who is named in it. It may be none at all."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _log_result(attempt: _Attempt, result: EngineResult) -> None:
    usage, ids = result.reply.usage, attempt.log_fields
    fields = {
        **ids,
        "status": attempt.status,
        "stop": result.reply.stop,
        "seconds": result.seconds,
        "first_byte": attempt.first_byte_seconds,
        "retries": result.retries,
        "usage": usage,
    }
    log.info("%s answered in %.3f s: %s", ids["model"], result.seconds, result.reply.stop, extra=fields)


def _add_profile_defaults(request: Request, profile: Profile) -> Request:
    """The request with what our own engine always asks for."""
    own = {**profile.defaults, **(profile.stream_defaults if request.stream else {})}
    own = {key: value for key, value in own.items() if key not in request.extras.get(profile.wire, {})}
    extras = {**request.extras, profile.wire: {**own, **request.extras.get(profile.wire, {})}} if own else request.extras
    return replace(request, model=profile.model, extras=extras, stream=bool(request.stream))


async def _read_error_body(response: HttpResponse) -> bytes:
    """The body of a refusal, or what came of it."""
    parts: list[bytes] = []
    size = 0
    with suppress(TransportError):
        while size < 1_000_000 and (data := await response.read()):
            parts.append(data)
            size += len(data)
    return b"".join(parts)


def redact_error(error: ToolglotError, engine: Engine) -> None:
    """Some providers repeat the key that they refuse. What is behind an error may hold the request's head, and goes."""
    known = engine.secrets
    error.args = (redact(str(error), known),)
    error.__cause__ = error.__context__ = None
    if isinstance(error, ProviderError):
        error.code = redact(error.code, known)
        if error.body is not None:
            error.body = loads(redact(dumps_text(error.body), known))
