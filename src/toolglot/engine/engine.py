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
from toolglot.engine.retry import wait_before_retry
from toolglot.engine.transport import HttpAnswer, HttpRequest, Transport
from toolglot.errors import (
    AuthenticationFailed,
    MalformedReply,
    ProviderError,
    ToolglotError,
    TransportError,
    UsageError,
    WouldLose,
)
from toolglot.events import Event, ReplyStarted, Retrying
from toolglot.jsontext import dumps_text, loads
from toolglot.losses import Loss, Repair
from toolglot.messages import Reply
from toolglot.providers.heal import cure
from toolglot.providers.preflight import Problem, leave_out, preflight
from toolglot.providers.profile import Profile, ToolFeatures
from toolglot.redact import redact
from toolglot.request import Request, ToolDefinition
from toolglot.tools.config import RetryConfig
from toolglot.wire.back import changes_calls, restored, restored_events
from toolglot.wire.codec import reader
from toolglot.wire.prefix import EncodedBody, Heads, PrefixEncoder
from toolglot.wire.reader import ReplyReader, error_of

__all__ = ["Answered", "Engine", "PreparedTools", "Session", "hide_keys", "joined"]

log = getLogger("toolglot.engine")
_NOTHING = EncodedBody(b"", 0)
DEFAULT_RETRY = RetryConfig()
# What providers call a request of theirs, the most telling name first.
_REQUEST_IDS = ("x-request-id", "request-id", "x-goog-request-id", "apim-request-id", "x-github-request-id", "cf-ray")
_OPEN = frozenset({"content-type", "user-agent", "accept", "anthropic-version", "anthropic-beta"})  # headers without secrets
_AGENT = {"content-type": "application/json", "user-agent": "toolglot"}


class Answered(msgspec.Struct, frozen=True, gc=False):
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
        self.healed: tuple[Repair, ...] = ()
        self._own_headers = _lowered(headers or {})
        self._heal, self._strict = heal, strict
        self._name = name
        self._heads = Heads()

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
        kept, losses = leave_out(tools, self.profile)
        return PreparedTools(tuple(kept), tuple(preflight(tools, self.profile)), tuple(losses))

    def session(self) -> "Session":
        """A way to the model for one conversation: it keeps what was encoded."""
        return Session(self)

    async def ask(self, request: Request) -> Answered:
        """The whole answer to one request."""
        return await self.session().ask(request)

    async def stream(self, request: Request) -> AsyncGenerator[Event | Retrying]:
        """The answer to one request as it comes; the last event is `ReplyDone`."""
        async with aclosing(self.session().batches(replace(request, stream=True))) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def close(self) -> None:
        """Gives back what the transport holds."""
        close = getattr(self.transport, "close", None)
        if close is not None:
            await close()

    # ---- for sessions

    def encoder(self) -> PrefixEncoder:
        """An encoder for one conversation; it shares its head with all others."""
        return PrefixEncoder(self.profile, self._heads)

    def cured(self, error: ProviderError, sent: Profile) -> Repair | None:
        """Changes the profile where the refusal can be cured; every later request is right at once.

        `sent`: the profile that the request was made for; where another conversation has cured it since, that is enough.
        """
        if sent is not self.profile:
            return self.healed[-1] if self.healed else None
        found = cure(str(error), self.profile) if self._heal and not error.retryable else None
        if found is None:
            return None
        self.profile, self._heads = found.profile, Heads()
        done = Repair(found.what, "request", f"{found.why}; asked again")
        self.healed = (*self.healed, done)
        log.info("healed %s: %s", self.name, found.why, extra={"model": self.name, "healed": found.what})
        return done

    @property
    def secrets(self) -> frozenset[str]:
        """Whatever is sent that may be secret: keys, the caller's own headers, who is named in the address."""
        own = (value.removeprefix("Bearer ") for name, value in self._own_headers.items() if name not in _OPEN)
        named = self.profile.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        return frozenset({*self.keys.known, *own, *map(unquote, named.split(":", 1))})

    def check(self, encoded: EncodedBody) -> None:
        """Strict engines send nothing that would lose something."""
        if self._strict and encoded.losses:
            raise WouldLose(encoded.losses)

    def http_request(self, profile: Profile, body: bytes, keys: Mapping[str, str], *, stream: bool) -> HttpRequest:
        """The request as it goes out, to where it was encoded for, or where its token is good. The caller's own headers win."""
        headers = {**_AGENT, **_lowered(profile.headers), **keys, **self._own_headers}
        return HttpRequest(_url(profile, stream, self.keys.base_url or profile.base_url), headers, body, stream)


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _url(profile: Profile, stream: bool, base: str) -> str:
    path = profile.stream_path if stream and profile.stream_path else profile.path
    return joined(base, path).replace("{model}", quote(profile.model, safe="/-._~:@"))


@lru_cache(maxsize=256)
def joined(base: str, path: str) -> str:
    """A base URL and a path. A base that already ends with the path's first parts (…/v1) does not get them twice."""
    base = base.rstrip("/")
    parts = path.split("/")[1:]
    for count in range(len(parts) - 1, 0, -1):
        start = "/" + "/".join(parts[:count])
        if base.endswith(start):
            return base.removesuffix(start) + path
    return base + path


class Session:
    """One conversation's way to one model: each request costs what is new in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._profile = engine.profile
        self._encoder = engine.encoder()
        self._reader: ReplyReader | None = None
        self.answered: Answered | None = None

    @property
    def said(self) -> str:
        """The visible text of the reply that is being read: all that is left of it when it is interrupted."""
        if self.answered is not None:
            return self.answered.reply.text
        return self._reader.said if self._reader else ""

    async def ask(self, request: Request) -> Answered:
        """The whole answer to a request. Raises what `batches` does."""
        request = replace(request, stream=False) if request.stream else request
        patience = _Patience(self._engine)
        while True:
            attempt = self._attempt(request, patience)
            try:
                await attempt.open()
                while await attempt.next() is not None:
                    pass
                return self._done(attempt, patience)
            except (ProviderError, TransportError, MalformedReply) as error:
                wait = patience.after(error, attempt)
            finally:
                await attempt.close()
            await asyncio.sleep(wait)

    async def batches(self, request: Request) -> AsyncGenerator[list[Event | Retrying]]:
        """The answer as it comes, one list for each piece that was read; then `answered` is set.

        Raises ProviderError, TransportError, MalformedReply; after that nothing of the answer counts.
        """
        patience = _Patience(self._engine)
        while True:
            attempt, number = self._attempt(request, patience), patience.retries
            try:
                await attempt.open()
                while (batch := await attempt.next()) is not None:
                    yield batch
                self._done(attempt, patience)
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                wait, why = patience.after(error, attempt), str(error)
            finally:
                await attempt.close()
            if patience.retries > number:
                yield [Retrying(why, wait, patience.retries)]
            await asyncio.sleep(wait)

    def _attempt(self, request: Request, patience: "_Patience") -> "_Attempt":
        self._reader = self.answered = None
        return _Attempt(self, request, patience)

    def _done(self, attempt: "_Attempt", patience: "_Patience") -> Answered:
        done = attempt.answered(tuple(patience.healed), patience.retries, patience.seconds)
        self.answered, self._reader = done, None
        if log.isEnabledFor(INFO):
            _log_answered(attempt, done)
        return done

    def encode(self, request: Request) -> EncodedBody:
        """The request as the bytes of a body."""
        engine = self._engine
        if self._profile is not engine.profile:  # healed since
            self._profile, self._encoder = engine.profile, engine.encoder()
        encoded = self._encoder.encode(request)
        engine.check(encoded)
        return encoded

    def begin(self, request: Request, *, content_type: str) -> ReplyReader:
        """A reader for the answer."""
        profile = self._profile
        self._reader = reader(
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


class _Patience:
    """What is done about failures of one request: the key is renewed once, a refusal cured once, the rest waited for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started = time.monotonic()
        self._renewed = False
        self._id = ""
        self.healed: list[Repair] = []
        self.retries = 0

    @property
    def id(self) -> str:
        """Our name for the request, the same however often it is sent. It is made when somebody wants to know it."""
        if not self._id:
            self._id = uuid4().hex[:8]
        return self._id

    @property
    def seconds(self) -> float:
        """Since the request was made."""
        return time.monotonic() - self._started

    def after(self, error: ToolglotError, attempt: "_Attempt") -> float:
        """Seconds before the provider is asked again. Raises the error where it is not, and where something was shown."""
        engine = self._engine
        if isinstance(error, ProviderError):
            error.request_id = error.request_id or attempt.provider_id
        hide_keys(error, engine)
        if attempt.shown:
            raise self._given_up(error, attempt)
        if isinstance(error, AuthenticationFailed) and not self._renewed and attempt.keys is not None:
            if engine.keys.renewable:
                self._renewed = True
                engine.keys.renew(attempt.keys)
                return 0.0
        if isinstance(error, ProviderError) and not self.healed and (repair := engine.cured(error, attempt.profile)):
            self.healed.append(repair)
            return 0.0
        wait = attempt.wait(error, self.retries, engine.retry)
        if wait is None:
            raise self._given_up(error, attempt)
        self.retries += 1
        if log.isEnabledFor(INFO):
            fields = {**attempt.ids, "error": error.type, "attempt": self.retries, "seconds": wait}
            log.info("%s: %s; asked again in %.2f s", engine.name, error, wait, extra=fields)
        return wait

    def _given_up(self, error: ToolglotError, attempt: "_Attempt") -> ToolglotError:
        if log.isEnabledFor(INFO):
            fields = {**attempt.ids, "error": error.type, "status": attempt.status, "seconds": self.seconds}
            log.info("%s failed: %s", self._engine.name, error, extra=fields)
        return error


class _Attempt:
    """One request, sent once: `open`, then `next` until it is None, and `close` in any case."""

    def __init__(self, session: Session, request: Request, patience: _Patience) -> None:
        self._session, self._patience = session, patience
        self.profile = session.engine.profile
        self._request = _complete(request, self.profile)
        self._sent = _NOTHING
        self.keys: Mapping[str, str] | None = None
        self._answer: HttpAnswer | None = None
        self._reader: ReplyReader | None = None
        self._back = False
        self._held: list[Event] = []
        self._reply: Reply | None = None
        self.first_byte = 0.0  # seconds from the request to the head of its answer
        self.shown = False

    @property
    def provider_id(self) -> str:
        """What the provider calls this request; "" where it does not say."""
        headers = self._answer.headers if self._answer else dict[str, str]()
        found = next((value for name in _REQUEST_IDS if (value := headers.get(name))), "")
        return redact("".join(filter(str.isprintable, found)), self._session.engine.secrets)[:200]

    @property
    def status(self) -> int | None:
        """Of the answer, where one came."""
        return self._answer.status if self._answer else None

    @property
    def ids(self) -> dict[str, Any]:
        """Whose request it is, for the log."""
        return {"model": self._session.engine.name, "request": self._patience.id, "provider_request": self.provider_id}

    async def open(self) -> None:
        """Sends the request. Raises what the provider answers where that is an error."""
        session, engine, request = self._session, self._session.engine, self._request
        sent = self._sent = session.encode(request)
        self.keys = await engine.keys.headers()
        asked = engine.http_request(self.profile, sent.body, self.keys, stream=bool(request.stream))
        if log.isEnabledFor(DEBUG):
            self._log_asking(asked)
        before = time.monotonic()
        answer = self._answer = await engine.transport.send(asked)
        self.first_byte = time.monotonic() - before
        if answer.status >= 300:
            raise error_of(answer.status, await _whole(answer))
        self._reader = session.begin(request, content_type=answer.headers.get("content-type", ""))
        self._back = changes_calls(sent)

    def _log_asking(self, asked: HttpRequest) -> None:
        name, size = self._session.engine.name, len(asked.body)
        fields = {
            "model": name,
            "request": self._patience.id,
            "method": asked.method,
            "url": _shown_url(asked.url),
            "bytes": size,
            "stream": asked.stream,
        }
        log.debug("asking %s: %d bytes", name, size, extra=fields)

    async def next(self) -> list[Event | Retrying] | None:
        """The next events that can be shown; None at the end."""
        found = self._reader
        if found is None or self._reply is not None:
            return None
        while data := await self._read():
            events = found.feed(data)
            if self._held:
                events = self._held + events
            if not self.shown and all(isinstance(event, ReplyStarted) for event in events):
                self._held = events  # nothing to see yet: it may still be asked again
                continue
            if events:
                return self._shown(events)
        events = self._held + found.close()
        assert found.reply is not None
        self._reply = restored(found.reply, self._sent) if self._back else found.reply
        return self._shown(events)

    async def _read(self) -> bytes:
        assert self._answer is not None
        try:
            return await self._answer.read()
        except TransportError:
            if self._reader is not None and self._reader.complete:  # the answer was whole already
                return b""
            raise

    def _shown(self, events: list[Event]) -> list[Event | Retrying]:
        self.shown, self._held = True, []
        return cast(list[Event | Retrying], restored_events(events, self._sent) if self._back else events)

    async def close(self) -> None:
        """Gives the connection back."""
        if self._answer is not None:
            await self._answer.close()

    def wait(self, error: ToolglotError, number: int, config: RetryConfig) -> float | None:
        """Seconds before it may be asked again; None: it may not."""
        headers = self._answer.headers if self._answer else dict[str, str]()
        return wait_before_retry(error, headers, number, config, chance=random.random(), now=time.time())

    def answered(self, healed: tuple[Repair, ...], retries: int, seconds: float) -> Answered:
        """The reply and what it took."""
        assert self._reply is not None
        assert self._reader is not None
        losses = (*self._sent.losses, *self._reader.losses)
        return Answered(self._reply, losses, (*self._sent.repairs, *healed), retries, seconds)


def _shown_url(url: str) -> str:
    """An address without its query and without who is named in it. It may be none at all."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _log_answered(attempt: _Attempt, done: Answered) -> None:
    usage, ids = done.reply.usage, attempt.ids
    fields = {
        **ids,
        "status": attempt.status,
        "stop": done.reply.stop,
        "seconds": done.seconds,
        "first_byte": attempt.first_byte,
        "retries": done.retries,
        "usage": usage,
    }
    log.info("%s answered in %.3f s: %s", ids["model"], done.seconds, done.reply.stop, extra=fields)


def _complete(request: Request, profile: Profile) -> Request:
    """The request with what our own engine always asks for."""
    own = {**profile.defaults, **(profile.stream_defaults if request.stream else {})}
    own = {key: value for key, value in own.items() if key not in request.extras.get(profile.wire, {})}
    extras = {**request.extras, profile.wire: {**own, **request.extras.get(profile.wire, {})}} if own else request.extras
    return replace(request, model=profile.model, extras=extras, stream=bool(request.stream))


async def _whole(answer: HttpAnswer) -> bytes:
    """The body of a refusal, or what came of it."""
    parts: list[bytes] = []
    size = 0
    with suppress(TransportError):
        while size < 1_000_000 and (data := await answer.read()):
            parts.append(data)
            size += len(data)
    return b"".join(parts)


def hide_keys(error: ToolglotError, engine: Engine) -> None:
    """Some providers repeat the key that they refuse. What is behind an error may hold the request's head, and goes."""
    known = engine.secrets
    error.args = (redact(str(error), known),)
    error.__cause__ = error.__context__ = None
    if isinstance(error, ProviderError):
        error.code = redact(error.code, known)
        if error.body is not None:
            error.body = loads(redact(dumps_text(error.body), known))
