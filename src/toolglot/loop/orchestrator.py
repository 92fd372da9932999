"""The public loop: one conversation with tools, on any model. It puts the parts together and keeps no secrets of its own.

agent = Orchestrator("anthropic:claude-sonnet-4-5", tools=[get_weather])
result = agent.run_sync("Weather in Paris?")
agent.switch("gemini:gemini-3-pro-preview")
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from inspect import isawaitable
from logging import getLogger
from typing import Any
from weakref import WeakKeyDictionary, finalize

import msgspec
from msgspec.structs import replace

from toolglot.engine.engine import Engine, Session
from toolglot.engine.factory import create_engine
from toolglot.errors import MalformedData, NameConflict, ToolglotError, UnknownName, UsageError
from toolglot.events import ContextCut, RunDone, RunEvent, RunResult
from toolglot.facades.check import check_facade
from toolglot.facades.face import Face
from toolglot.facades.select import facade_of, find_facade
from toolglot.facades.view import Facade
from toolglot.jsontext import dumps
from toolglot.loop.background import run_sync
from toolglot.loop.context import (
    ASK_SUMMARY,
    ContextPolicy,
    Cut,
    Measured,
    Memory,
    Summarise,
    View,
    may_begin,
    middle,
    older,
    transcript,
)
from toolglot.loop.drive import Driver
from toolglot.loop.faced import Faced
from toolglot.loop.final import FINAL_TOOL, Final
from toolglot.loop.run import AskModel, Decision, Run, RunState, is_prompt
from toolglot.losses import Loss
from toolglot.messages import Block, Conversation, Message, Origin, Reply, ToolCall, Usage, load, save, system, user
from toolglot.providers.catalog import surface
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import tokens_of_message, tokens_of_text, tokens_of_tool
from toolglot.request import BUILTIN, Options, Request, Schema, ToolDefinition
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import Approve, ToolExecutor
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.hosted import HOSTED, hosted_tool
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore, read_result_tool
from toolglot.tools.tool import Tool
from toolglot.wire.prefix import EncodedBody, PrefixEncoder
from toolglot.wire.writer import same_model

__all__ = ["Orchestrator", "PromptContext"]

log = getLogger("toolglot.loop")
Prompt = str | Message | Block | Sequence[str | Block]
_FOR_ALL = ("transport", "retry", "heal", "strict")  # options of an engine that are not about one provider
_NO_HOOKS = HookChain()
_DEFAULT_CONFIG, _DEFAULT_OPTIONS, _DEFAULT_CONTEXT = ToolConfig(), Options(cache=True), ContextPolicy()


class PromptContext(msgspec.Struct, frozen=True):
    """What a function that writes the system prompt may look at."""

    model: str
    data: Any
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    """As the model is told of them."""


SystemPrompt = str | Callable[[PromptContext], str | Awaitable[str]]


class Orchestrator:
    """A model, tools and a conversation.

    `tools`: functions, Tools, a ToolRegistry, or definitions of hosted tools; `hosted`: names of hosted tools (web_search,
    code_execution). `approve`: asked where a call needs it; without it the run pauses. `fallbacks`: models to go on with where
    this one is busy or fails. `context`: what is done when the conversation outgrows the model; `summarise`: sums up what is
    left out then, in the place of the model. `facade`: how the built-in tools look, by default as the model's own harness shows
    them; its note on how to work with them follows the system prompt. `data`: handed to tools in their Context. The rest goes
    to `create_engine`.
    """

    def __init__(
        self,
        model: str | Engine = "simulator",
        *,
        tools: Iterable[Any] | ToolRegistry = (),
        hosted: Iterable[str] = (),
        system: SystemPrompt | None = None,
        config: ToolConfig = _DEFAULT_CONFIG,
        options: Options = _DEFAULT_OPTIONS,
        context: ContextPolicy = _DEFAULT_CONTEXT,
        facade: str | Facade = "auto",
        output_type: "type[Any] | Schema | None" = None,
        approve: Approve | None = None,
        summarise: Summarise | None = None,
        hooks: Iterable[Hooks] = (),
        fallbacks: Iterable[str | Engine] = (),
        audit: AuditLog | None = None,
        data: Any = None,
        conversation: Conversation | None = None,
        **engine: Any,
    ) -> None:
        self.engine = _engine(model, engine)
        self._engine_options, self._options_of = engine, self.engine.profile.id
        self.options, self.output_type = options, output_type
        self.context, self.summarise = context, summarise
        self.facade: str | Facade = facade
        self._faces: dict[Any, Face | None] = {}
        self.system, self.data = system, data
        self.metrics, self.store = ToolMetrics(), ResultStore()
        self._config = config
        self._fallbacks = tuple(fallbacks)
        self._hooks = HookChain(hooks) if hooks else _NO_HOOKS
        self._approve, self._audit = approve, audit
        self.registry, self._fixed = _registered(tools)
        if isinstance(facade, Facade):
            check_facade(facade, self.engine.model, [one.name for one in self.registry if BUILTIN in one.tags])
        elif facade != "auto":
            find_facade(facade)
        self._hosted = _known_hosted(hosted)
        self._paged: Tool | None = None
        self._overlay: tuple[Any, ToolRegistry] = (None, self.registry)
        self._own = self._new_talk(conversation if conversation is not None else Conversation())

    @property
    def conversation(self) -> Conversation:
        """What was said so far."""
        return self._own.conversation

    # ---- running

    async def run(self, prompt: Prompt, *, conversation: Conversation | None = None) -> RunResult:
        """Asks, runs tools and asks again, until there is an answer."""
        talk = self._talk(conversation)
        return await _finished(talk, await self._begin(talk, prompt))

    def run_sync(self, prompt: Prompt, *, conversation: Conversation | None = None) -> RunResult:
        """The same for callers without an event loop. Ctrl-C leaves a valid conversation."""
        return run_sync(self.run(prompt, conversation=conversation))

    def stream(self, prompt: Prompt, *, conversation: Conversation | None = None) -> AsyncGenerator[RunEvent]:
        """The same, as it happens; the last event is `RunDone`. Leaving it interrupts the run."""
        talk = self._talk(conversation)
        return _watched(talk, lambda reader: self._begin(talk, prompt, reader))

    async def resume(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> RunResult:
        """Goes on with a run that waits for approvals: call id -> yes or no."""
        talk = self._talk(conversation)
        return await _finished(talk, await self._resumed(talk, decisions))

    def resume_sync(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> RunResult:
        """The same for callers without an event loop."""
        return run_sync(self.resume(decisions, conversation=conversation))

    def resume_stream(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> AsyncGenerator[RunEvent]:
        """The same, as it happens."""
        talk = self._talk(conversation)
        return _watched(talk, lambda reader: self._resumed(talk, decisions, reader))

    # ---- the model and the rules

    @property
    def model(self) -> str:
        """PROVIDER:MODEL."""
        return self.engine.name

    def switch(self, model: str | Engine, **engine: Any) -> None:
        """Goes on with another model: same conversation, same tools. What it cannot be told is in the next result's losses."""
        lasting = {name: value for name, value in self._engine_options.items() if name in _FOR_ALL}
        given = {**lasting, **engine} if engine else self._options_for(model)
        self.engine = _engine(model, given)
        if engine:
            self._engine_options, self._options_of = given, self.engine.profile.id

    @property
    def config(self) -> ToolConfig:
        """How tools are run; a new one counts from the next call on."""
        return self._config

    @config.setter
    def config(self, config: ToolConfig) -> None:
        self._config = config
        self._talk(None).executor.configure(config)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Of all tools, those that a provider runs included."""
        return (*(one.name for one in (*self.registry, *self._fixed)), *self._hosted)

    @property
    def pending(self) -> bool:
        """Whether a run waits to be resumed."""
        return self._talk(None).paused is not None

    # ---- state

    def save(self) -> bytes:
        """The conversation, and a run that waits, as JSON lines: `Orchestrator.load` goes on with it in any process."""
        talk = self._talk(None)
        header: dict[str, Any] = {"model": self.engine.name}
        if uses := talk.executor.guard.uses:
            header["uses"] = [[*name, count] for name, count in uses.items()]
        if talk.paused is not None:
            header["run"] = talk.paused.state(self._fingerprint())
        if talk.memory.cut.start:
            header["context"] = talk.memory.cut
        return save(self.conversation, **header)

    @classmethod
    def load(cls, data: bytes, model: str | Engine | None = None, **options: Any) -> "Orchestrator":
        """What `save` wrote, with the tools and everything else given anew. Raises MalformedData."""
        if model is None and not isinstance(model := load(data)[1].get("model", "simulator"), str):
            raise MalformedData("line 1: the saved model is not a text")
        agent = cls(model, **options)
        agent.restore(data)
        return agent

    def restore(self, data: bytes) -> None:
        """Goes on with what `save` wrote, on the present model. Raises MalformedData; nothing has changed then."""
        conversation, header = load(data)
        talk = self._new_talk(conversation)
        try:
            for namespace, name, count in msgspec.convert(header.get("uses", []), list[tuple[str, str, int]]):
                talk.executor.guard.uses[namespace, name] = count
            state = msgspec.convert(header["run"], RunState, str_keys=True) if "run" in header else None
            cut = msgspec.convert(header.get("context", {}), Cut)
        except msgspec.ValidationError as e:
            raise MalformedData(f"line 1: the saved state has an unexpected shape: {e}") from None
        if not _fits(cut, conversation):
            raise MalformedData("line 1: the saved context does not fit the conversation")
        talk.memory = Memory(cut)
        if state is not None:
            if state.tools != self._fingerprint():
                log.warning("the tools have changed since the run was saved")
            talk.paused = self._run(conversation, state)
        self._replace(talk)

    def undo(self) -> tuple[Message, ...]:
        """Takes back the last prompt and all that came of it, and returns that; what tools did stays done."""
        talk = self._talk(None)
        last = max((place for place, one in enumerate(talk.conversation) if is_prompt(one)), default=None)
        if last is None:
            return ()
        taken = tuple(talk.conversation[last:])
        shorter = self._new_talk(Conversation(talk.conversation[:last]))
        shorter.executor.guard.keep(talk.executor.guard)
        shorter.memory = talk.memory.after(talk.memory.cut if talk.memory.cut.start <= last else Cut())
        self._replace(shorter)
        return taken

    async def measured(self) -> Measured:
        """How full the model's memory is, and of what."""
        talk, profile = self._own, self.engine.profile
        preface, tools = self.noted(await self._instructions(talk)), self.offered(self.tools_with(None), None)
        said, offered = sum(map(tokens_of_message, preface)), sum(map(tokens_of_tool, tools))
        parts = {
            "instructions": talk.memory.scaled(profile, said),
            "tools": talk.memory.scaled(profile, offered),
            **talk.memory.parts(talk.conversation, profile),
        }
        return Measured(
            talk.memory.tokens(talk.conversation, profile, said + offered),
            {name: tokens for name, tokens in parts.items() if tokens},
            talk.memory.budget(profile, self.context, self.options.max_tokens),
            profile.limits.context,
            talk.memory.cut.left_out(talk.conversation),
        )

    def asks(self, tool: Tool) -> bool:
        """Whether somebody has to approve the calls of a tool."""
        return self._own.executor.guard.asks(tool)

    def _replace(self, talk: "_Talk") -> None:
        """Another conversation is the agent's own from now on."""
        if self._own.busy:
            raise UsageError("a run is in progress on this conversation; wait for it")
        self._own = talk

    async def look(self, model: str | Engine | None = None) -> EncodedBody:
        """The conversation with one more prompt as a request, and what would be lost and mended. Nothing is sent."""
        engine = self.engine if model is None else _engine(model, self._options_for(model))
        talk = [*self._own.conversation, user("…")]
        preface = self.noted(await self._instructions(self._own), engine)
        messages: Sequence[Message] = View(preface, talk, self._own.memory.cut)
        if (face := self.face(engine)) is not None:
            messages = _faced(messages, face, engine)
        request = Request(engine.model, messages, self.offered(self.tools_with(None), None, engine), options=self.options)
        return PrefixEncoder(engine.profile).encode(request)

    def _fingerprint(self) -> str:
        return sha256(dumps(self.registry.definitions())).hexdigest()[:16]

    # ---- inside

    def _options_for(self, model: str | Engine) -> Mapping[str, Any]:
        """What was said of one provider's endpoint counts for another model of it, and for nobody else: it may be a key."""
        if isinstance(model, Engine):
            return {}
        provider, _, name = model.partition(":")
        options = self._engine_options
        same = surface(provider, name) == self._options_of
        return options if same else {name: options[name] for name in _FOR_ALL if name in options}

    def _talk(self, conversation: Conversation | None) -> "_Talk":
        """What is kept for a conversation, for as long as it lives."""
        if conversation is None or conversation is self._own.conversation:
            return self._own
        if conversation.kept is None:
            conversation.kept = WeakKeyDictionary()
        talk: _Talk | None = conversation.kept.get(self)
        if talk is None:
            talk = conversation.kept[self] = self._new_talk(conversation)
        return talk

    def _new_talk(self, conversation: Conversation) -> "_Talk":
        executor = ToolExecutor(
            self.registry,
            self._config,
            approve=self._approve,
            hooks=self._hooks,
            audit=self._audit,
            metrics=self.metrics,
            store=self.store,
            data=self.data,
        )
        return _Talk(conversation, executor)

    def _run(self, conversation: Conversation, state: RunState | None = None) -> Run:
        return Run(
            conversation,
            max_iterations=self._config.max_iterations,
            tool_choice=self._config.tool_choice if self._config.enabled else None,
            state=state,
        )

    async def _begin(self, talk: "_Talk", prompt: Prompt, reader: "_Reader | None" = None) -> Driver:
        await talk.enter(reader)
        try:
            if talk.paused is not None:
                talk.paused.interrupted()  # the user moved on: what waited was not run
                talk.paused = None
            talk.conversation.append(prompt if isinstance(prompt, Message) else user(prompt))
            talk.executor.guard.new_prompt()
            return await self._driver(talk, self._run(talk.conversation), streaming=reader is not None)
        except BaseException:
            talk.leave()
            raise

    async def _resumed(
        self, talk: "_Talk", decisions: Mapping[str, Decision] | None, reader: "_Reader | None" = None
    ) -> Driver:
        await talk.enter(reader)
        try:
            run = talk.paused
            if run is None:
                raise UsageError("no run waits to be resumed")
            driver = await self._driver(talk, run, streaming=reader is not None)
            run.decide(dict(decisions or {}))
            if self._approve is not None:
                run.ask_again()
            talk.paused = None
            return driver
        except BaseException:
            talk.leave()
            raise

    async def _driver(self, talk: "_Talk", run: Run, *, streaming: bool) -> Driver:
        final = Final(self.output_type) if self.output_type is not None else None
        if final is not None and FINAL_TOOL in self.registry:
            raise NameConflict(f"a tool is called {FINAL_TOOL!r}, which is the name of the tool for structured output")
        asking = _Asking(self, talk, final, await self._instructions(talk))
        asking.session()
        driver = Driver(run, asking, talk.executor, self._config, self._hooks, final, streaming=streaming)
        driver.note(self._lost_hosted())
        return driver

    async def _instructions(self, talk: "_Talk") -> str:
        """The system prompt."""
        text = self.system
        if callable(text):
            tools = self.offered(self.tools_with(None), None)
            said = text(PromptContext(self.engine.name, self.data, talk.conversation, tools))
            text = await said if isawaitable(said) else said
        return text or ""

    def noted(self, instructions: str, engine: Engine | None = None) -> tuple[Message, ...]:
        """Instructions, and how to work with the built-in tools, by the names that a model has for them."""
        face = self.face(engine) if self._config.enabled else None
        text = "\n\n".join(part for part in (instructions, "" if face is None else face.note) if part)
        return (system(text),) if text else ()

    def tools_with(self, final: Tool | None) -> ToolRegistry:
        """The agent's tools with those that the loop adds: for structured output, and for results that were too long."""
        if self._paged is None and len(self.store) and "read_result" not in self.registry:
            self._paged = read_result_tool(self.store)
        own = [one for one in (final, self._paged) if one is not None]
        key = (self.registry.version, final, self._paged)
        if self._overlay[0] != key:
            registry = self.registry.clone() if own else self.registry
            for one in own:
                registry.register(one, replace=True)
            self._overlay = (key, registry)
        return self._overlay[1]

    def face(self, engine: Engine | None = None) -> Face | None:
        """The names that a model has for the built-in tools; None where there are none of them."""
        engine = engine or self.engine
        allowed = self._config.allowed
        facade = self.facade if isinstance(self.facade, str) else id(self.facade)
        key = (engine.model, self.registry.version, facade, allowed)
        if key not in self._faces:
            tools = list(self.registry)
            bases = [one.name for one in tools if BUILTIN in one.tags and (allowed is None or one.name in allowed)]
            others = [*self._hosted, *(one.name for one in (*self._fixed, *tools) if BUILTIN not in one.tags)]
            self._faces = {key: Face(self._facade(engine.model), engine.model, bases, others) if bases else None}
        return self._faces[key]

    def _facade(self, model: str) -> Facade:
        if isinstance(self.facade, Facade):
            return self.facade
        return facade_of(model) if self.facade == "auto" else find_facade(self.facade)

    def offered(self, registry: ToolRegistry, final: Tool | None, engine: Engine | None = None) -> tuple[ToolDefinition, ...]:
        """The tools as the model is told of them."""
        if not self._config.enabled:
            return () if final is None else (final.definition,)
        own = registry.definitions()
        if (face := self.face(engine)) is not None:
            own = face.offered(own)
        if self._config.allowed is not None:
            allowed = {*self._config.allowed, *(one.name for one in (final, self._paged) if one is not None)}
            shown = allowed if face is None else allowed | {one.name for one in face.definitions}
            own = tuple(one for one in own if one.name in shown)
        wire = (engine or self.engine).profile.wire
        hosted = tuple(found for name in self._hosted if (found := hosted_tool(name, wire)) is not None)
        if not hosted and not self._fixed:
            return own
        allowed = self._config.allowed
        return (*own, *(one for one in (*self._fixed, *hosted) if allowed is None or one.name in allowed))

    def _lost_hosted(self) -> tuple[Loss, ...]:
        """Hosted tools that the present model's provider does not have."""
        title, wire = self.engine.profile.title, self.engine.profile.wire
        return tuple(
            Loss(f"hosted tool {name!r}", "tools", f"{title} has none of this name")
            for name in self._hosted
            if hosted_tool(name, wire) is None
        )

    def fall_back(self, used: int) -> int | None:
        """Goes on with the next fallback after so many; how many are used then, None where there is none left."""
        for place in range(used, len(self._fallbacks)):
            model = self._fallbacks[place]
            other = _engine(model, self._options_for(model))
            if other is not self.engine and other.name != self.engine.name:
                self.engine = other
                return place + 1
        return None


def _fits(cut: Cut, conversation: Conversation) -> bool:
    """Whether a cut that was saved can be one of this conversation."""
    start, prompt = cut.start, cut.prompt
    if not 0 <= start <= len(conversation) or (prompt is not None and not 0 <= prompt < start):
        return False
    begins = start in (0, len(conversation)) or may_begin(conversation, start)
    return begins and (prompt is None or conversation[prompt].role == "user")


class _Talk:
    """One conversation and everything that is kept for it."""

    def __init__(self, conversation: Conversation, executor: ToolExecutor) -> None:
        self.conversation, self.executor = conversation, executor
        self.session: Session | None = None
        self.paused: Run | None = None
        self.preface: tuple[Message, ...] = ()
        self.memory = Memory()
        self.view: View | None = None
        self.faced: tuple[Face, Faced] | None = None
        self._busy = False
        self._reader: _Reader | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return self._busy

    async def enter(self, reader: "_Reader | None") -> None:
        """One run at a time. A stream that nobody reads any more is on its way out, and waited for."""
        while self._busy and self._reader is not None and self._reader.gone:
            if self._loop is not None and self._loop.is_closed():  # nobody is left who could end it
                self.leave()
            await asyncio.sleep(0.001)
        if self._busy:
            raise UsageError("a run is in progress on this conversation; wait for it, or give another conversation")
        self._busy, self._reader, self._loop = True, reader, asyncio.get_running_loop()

    def leave(self) -> None:
        """The run is over."""
        self._busy, self._reader, self._loop = False, None, None


class _Reader:
    """Whoever reads a stream."""

    gone = False

    def leave(self) -> None:
        self.gone = True


def _faced(messages: Sequence[Message], face: Face, engine: Engine) -> Faced:
    """A conversation in the words of a model; what it said itself stays as it was."""
    profile = engine.profile
    return Faced(messages, lambda one, lost: face.shown(one, own=_is_of(one.origin, profile), lost=lost))


def _is_of(origin: Origin | None, profile: Profile) -> bool:
    """Whether a message is of the model itself, under whichever of its names."""
    if origin is None or (origin.wire, origin.profile) != (profile.wire, profile.id):
        return False
    return same_model(origin.model, profile.model)


class _Asking:
    """The requests of one run; each goes to the model that the agent has then."""

    def __init__(self, agent: Orchestrator, talk: _Talk, final: Final | None, instructions: str) -> None:
        self._agent, self._talk, self._final = agent, talk, final
        self._instructions = instructions
        self._fallen = self._estimated = 0
        self._fixed: tuple[object, int] = (None, 0)

    def _seen(self) -> Sequence[Message]:
        talk, preface = self._talk, self._preface()
        cut = talk.memory.cut
        if not preface and not cut.start:
            return self._faced(talk.conversation)
        if talk.view is None or talk.view.preface is not preface or talk.view.cut is not cut:
            talk.view = View(preface, talk.conversation, cut)
        return self._faced(talk.view)

    def _preface(self) -> tuple[Message, ...]:
        """The same text is the same object, so that what was encoded stays good."""
        talk, found = self._talk, self._agent.noted(self._instructions)
        if talk.preface != found:
            talk.preface = found
        return talk.preface

    def _faced(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The conversation in the words of the present model, where it has words of its own."""
        face, talk = self._agent.face(), self._talk
        if face is None:
            return messages
        if talk.faced is None or talk.faced[0] is not face or talk.faced[1].messages is not messages:
            talk.faced = (face, _faced(messages, face, self._agent.engine))
        return talk.faced[1]

    def understood(self, reply: Reply) -> Reply:
        """A reply with what its calls mean beside them."""
        face = self._agent.face()
        if face is None or not reply.calls:
            return reply
        return replace(reply, blocks=tuple(face.understood(one) if isinstance(one, ToolCall) else one for one in reply.blocks))

    def unsaid(self) -> tuple[Loss, ...]:
        """What the model's own words could not say of the calls of others."""
        return tuple(self._talk.faced[1].lost) if self._talk.faced is not None else ()

    def session(self) -> Session:
        agent, talk = self._agent, self._talk
        if talk.session is None or talk.session.engine is not agent.engine:
            talk.session = agent.engine.session()
        executor = talk.executor
        executor.model, executor.data = agent.engine.name, agent.data
        if executor.config is not agent.config:
            executor.configure(agent.config)
        executor.registry = agent.tools_with(self._final_tool())
        executor.face = agent.face()
        return talk.session

    def _final_tool(self) -> Tool | None:
        agent = self._agent
        return self._final.tool(agent.engine.profile, with_tools=len(agent.registry) > 0) if self._final else None

    def request(self, step: AskModel, stream: bool) -> Request:
        agent, final = self._agent, self._final
        final_tool = self._final_tool()
        tools = agent.offered(self._talk.executor.registry, final_tool)
        choice = step.tool_choice
        if final is not None and not step.last:
            choice = final.choice(final_tool) or choice
        if choice is not None and choice.names and (face := agent.face()) is not None:
            choice = replace(choice, names=tuple(name for base in choice.names for name in face.names_of(base)))
        return Request(
            agent.engine.model,
            self._seen(),
            tools,
            choice if tools else None,
            agent.config.parallel if tools else None,
            agent.options,
            final.request_output() if final is not None and final_tool is None else None,
            stream,
        )

    # ---- what fits

    async def fit(self, *, refused: bool = False) -> tuple[ContextCut, Usage] | None:
        """Leaves out older messages where a request would be too long, or was; what was done, and what it took."""
        agent, talk, memory = self._agent, self._talk, self._talk.memory
        policy, profile = agent.context, agent.engine.profile
        fixed = self._fixed_tokens()
        before = self._estimated = memory.tokens(talk.conversation, profile, fixed)
        if policy.when_full == "off":
            return None
        budget = memory.budget(profile, policy, agent.options.max_tokens)
        if refused:
            budget = min(budget or before, max(1, before * 3 // 4))
        if budget is None or before <= budget:
            return None
        cut = memory.better(talk.conversation, profile, fixed, int(budget * policy.keep))
        if cut is None:
            return None
        if refused:
            memory.refused(profile, before, fixed)
        summary, usage, why = await self._summary(cut, budget) if policy.when_full == "compact" else ("", Usage(), "")
        summary = middle(summary, max(400, budget))
        memory.cut = replace(cut, summary=summary)
        after = self._estimated = memory.tokens(talk.conversation, profile, fixed)
        left = cut.left_out(talk.conversation)
        said = f"{older(left)} {'summed up' if summary else 'left out'}: about {before:,} tokens, {budget:,} fit"
        return ContextCut(said + (f" ({why})" if why else ""), left, before, after, summary), usage

    def counted(self, usage: Usage) -> None:
        """The provider has counted the request."""
        self._talk.memory.learn(self._agent.engine.profile, self._estimated, usage.input)

    def _fixed_tokens(self) -> int:
        tools = self._agent.offered(self._talk.executor.registry, self._final_tool())
        if self._fixed[0] != tools:
            self._fixed = (tools, sum(map(tokens_of_message, self._preface())) + sum(map(tokens_of_tool, tools)))
        return self._fixed[1]

    async def _summary(self, cut: Cut, budget: int) -> tuple[str, Usage, str]:
        """What is going to be left out, summed up; what that took; and why there is none."""
        agent, talk = self._agent, self._talk
        old = talk.conversation[: cut.start]
        try:
            if agent.summarise is not None:
                said = agent.summarise([one for place, one in enumerate(old) if place != cut.prompt])
                said = await said if isawaitable(said) else said
                if not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it is somebody's own function
                    raise UsageError(f"summarise must give a text, not {type(said).__name__}")
                return said.strip(), Usage(), ""
            before = talk.memory.cut
            new = [
                old[place]
                for place in range(len(old))
                if place != cut.prompt and (place >= before.start or place == before.prompt)
            ]
            text = transcript(new, before.summary, 2 * budget)
            if (tokens := talk.memory.scaled(agent.engine.profile, tokens_of_text(text))) > budget * 0.7:
                text = transcript(new, before.summary, int(2 * budget * 0.7 * budget / tokens))
            asked = Request(agent.engine.model, (user(f"{ASK_SUMMARY}\n\n{text}"),))
            reply = (await agent.engine.session().ask(asked)).reply
        except ToolglotError as e:
            log.warning("the conversation could not be summed up: %s", e)
            return "", Usage(), f"it could not be summed up: {e}"
        return reply.text.strip(), reply.usage, "" if reply.text.strip() else "the model gave no summary"

    def fall_back(self) -> Session | None:
        used = self._agent.fall_back(self._fallen)
        if used is None:
            return None
        self._fallen = used
        return self.session()


async def _finished(talk: _Talk, driver: Driver) -> RunResult:
    try:
        await driver.finish()
    finally:
        talk.leave()
    return _paused_or_done(talk, driver)


def _watched(talk: _Talk, begin: Callable[[_Reader], Awaitable[Driver]]) -> AsyncGenerator[RunEvent]:
    """A stream that tells the conversation when its reader has gone without closing it."""
    reader = _Reader()
    events = _streamed(talk, begin, reader)
    finalize(events, reader.leave).atexit = False
    return events


async def _streamed(talk: _Talk, begin: Callable[[_Reader], Awaitable[Driver]], reader: _Reader) -> AsyncGenerator[RunEvent]:
    driver = await begin(reader)
    try:
        async with aclosing(driver.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
    finally:
        talk.leave()
    yield RunDone(_paused_or_done(talk, driver))


def _paused_or_done(talk: _Talk, driver: Driver) -> RunResult:
    result = driver.result()
    talk.paused = driver.run if result.stop == "approval" else None
    return result


def _registered(tools: Iterable[Any] | ToolRegistry) -> tuple[ToolRegistry, tuple[ToolDefinition, ...]]:
    """The tools that run here, and the definitions of those that a provider runs."""
    if isinstance(tools, ToolRegistry):
        return tools, ()
    tools = list(tools)
    fixed = tuple(one for one in tools if isinstance(one, ToolDefinition))
    if strangers := [one.name for one in fixed if one.kind != "hosted"]:
        raise UsageError(f"{strangers[0]!r} is only a definition: give it a function with tool_from_schema")
    return ToolRegistry(one for one in tools if not isinstance(one, ToolDefinition)), fixed


def _engine(model: str | Engine, options: Mapping[str, Any]) -> Engine:
    return model if isinstance(model, Engine) else create_engine(model, **options)


def _known_hosted(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    for name in names:
        if name not in HOSTED:
            raise UnknownName("hosted tool", name, HOSTED)
    return names
