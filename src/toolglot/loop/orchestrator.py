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

from toolglot.engine.engine import Engine, EngineState
from toolglot.engine.factory import create_engine
from toolglot.errors import MalformedData, NameConflict, ToolglotError, UnknownName, UsageError
from toolglot.events import ContextCut, RunDone, RunEvent, RunResult
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import facade_for_model, find_facade
from toolglot.facades.validation import check_facade
from toolglot.facades.view import Facade
from toolglot.jsontext import dumps
from toolglot.loop.background_loop import run_sync
from toolglot.loop.context_window import (
    SUMMARY_PROMPT,
    ContextMeter,
    ContextPolicy,
    ContextUsage,
    ConversationWindow,
    Summarize,
    Truncation,
    can_start_at,
    count_phrase,
    elide_middle,
    render_transcript,
)
from toolglot.loop.driver import Driver
from toolglot.loop.history_view import RenderedHistory
from toolglot.loop.run import AskModel, Decision, Run, RunState, is_user_prompt
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.losses import Loss
from toolglot.messages import Block, Conversation, Message, Origin, Reply, ToolCall, Usage, load, save, system, user
from toolglot.providers.catalog import select_row
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import estimate_message, estimate_text, estimate_tool
from toolglot.request import BUILTIN_TAG, Options, Request, Schema, ToolDefinition
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import Approve, ToolExecutor
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.hosted import HOSTED_TOOLS, find_hosted_tool
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore, read_result_tool
from toolglot.tools.tool import Tool
from toolglot.wire.prefix import EncodedBody, PrefixEncoder
from toolglot.wire.writer import is_same_model

__all__ = ["Orchestrator", "PromptContext"]

log = getLogger("toolglot.loop")
Prompt = str | Message | Block | Sequence[str | Block]
_SHARED_ENGINE_OPTIONS = ("transport", "retry", "heal", "strict")  # options of an engine that are not about one provider
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
        summarize: Summarize | None = None,
        hooks: Iterable[Hooks] = (),
        fallbacks: Iterable[str | Engine] = (),
        audit: AuditLog | None = None,
        data: Any = None,
        conversation: Conversation | None = None,
        **engine: Any,
    ) -> None:
        self.engine = _to_engine(model, engine)
        self._engine_options, self._options_profile = engine, self.engine.profile.id
        self.options, self.output_type = options, output_type
        self.context, self.summarize = context, summarize
        self.facade: str | Facade = facade
        self._bound_facades: dict[Any, BoundFacade | None] = {}
        self.system, self.data = system, data
        self.metrics, self.store = ToolMetrics(), ResultStore()
        self._config = config
        self._fallbacks = tuple(fallbacks)
        self._hooks = HookChain(hooks) if hooks else _NO_HOOKS
        self._approve, self._audit = approve, audit
        self.registry, self._hosted_definitions = _split_tools(tools)
        if isinstance(facade, Facade):
            check_facade(facade, self.engine.model, [one.name for one in self.registry if BUILTIN_TAG in one.tags])
        elif facade != "auto":
            find_facade(facade)
        self._hosted_names = _check_hosted(hosted)
        self._read_result_tool: Tool | None = None
        self._overlay: tuple[Any, ToolRegistry] = (None, self.registry)
        self._state = self._new_state(conversation if conversation is not None else Conversation())

    @property
    def conversation(self) -> Conversation:
        """What was said so far."""
        return self._state.conversation

    # ---- running

    async def run(self, prompt: Prompt, *, conversation: Conversation | None = None) -> RunResult:
        """Asks, runs tools and asks again, until there is an answer."""
        talk = self._state_for(conversation)
        return await _finish_run(talk, await self._start_run(talk, prompt))

    def run_sync(self, prompt: Prompt, *, conversation: Conversation | None = None) -> RunResult:
        """The same for callers without an event loop. Ctrl-C leaves a valid conversation."""
        return run_sync(self.run(prompt, conversation=conversation))

    def stream(self, prompt: Prompt, *, conversation: Conversation | None = None) -> AsyncGenerator[RunEvent]:
        """The same, as it happens; the last event is `RunDone`. Leaving it interrupts the run."""
        talk = self._state_for(conversation)
        return _watch_stream(talk, lambda reader: self._start_run(talk, prompt, reader))

    async def resume(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> RunResult:
        """Goes on with a run that waits for approvals: call id -> yes or no."""
        talk = self._state_for(conversation)
        return await _finish_run(talk, await self._resume_run(talk, decisions))

    def resume_sync(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> RunResult:
        """The same for callers without an event loop."""
        return run_sync(self.resume(decisions, conversation=conversation))

    def resume_stream(
        self, decisions: Mapping[str, Decision] | None = None, *, conversation: Conversation | None = None
    ) -> AsyncGenerator[RunEvent]:
        """The same, as it happens."""
        talk = self._state_for(conversation)
        return _watch_stream(talk, lambda reader: self._resume_run(talk, decisions, reader))

    # ---- the model and the rules

    @property
    def model(self) -> str:
        """PROVIDER:MODEL."""
        return self.engine.name

    def switch(self, model: str | Engine, **engine: Any) -> None:
        """Goes on with another model: same conversation, same tools. What it cannot be told is in the next result's losses."""
        lasting = {name: value for name, value in self._engine_options.items() if name in _SHARED_ENGINE_OPTIONS}
        given = {**lasting, **engine} if engine else self._options_for(model)
        self.engine = _to_engine(model, given)
        if engine:
            self._engine_options, self._options_profile = given, self.engine.profile.id

    @property
    def config(self) -> ToolConfig:
        """How tools are run; a new one counts from the next call on."""
        return self._config

    @config.setter
    def config(self, config: ToolConfig) -> None:
        self._config = config
        self._state_for(None).executor.configure(config)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Of all tools, those that a provider runs included."""
        return (*(one.name for one in (*self.registry, *self._hosted_definitions)), *self._hosted_names)

    @property
    def has_pending_run(self) -> bool:
        """Whether a run waits to be resumed."""
        return self._state_for(None).paused is not None

    # ---- state

    def save(self) -> bytes:
        """The conversation, and a run that waits, as JSON lines: `Orchestrator.load` goes on with it in any process."""
        talk = self._state_for(None)
        header: dict[str, Any] = {"model": self.engine.name}
        if uses := talk.executor.policy.uses:
            header["uses"] = [[*name, count] for name, count in uses.items()]
        if talk.paused is not None:
            header["run"] = talk.paused.snapshot(self._fingerprint())
        if talk.meter.truncation.start:
            header["context"] = talk.meter.truncation
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
        talk = self._new_state(conversation)
        try:
            for namespace, name, count in msgspec.convert(header.get("uses", []), list[tuple[str, str, int]]):
                talk.executor.policy.uses[namespace, name] = count
            state = msgspec.convert(header["run"], RunState, str_keys=True) if "run" in header else None
            cut = msgspec.convert(header.get("context", {}), Truncation)
        except msgspec.ValidationError as e:
            raise MalformedData(f"line 1: the saved state has an unexpected shape: {e}") from None
        if not _is_valid_truncation(cut, conversation):
            raise MalformedData("line 1: the saved context does not fit the conversation")
        talk.meter = ContextMeter(cut)
        if state is not None:
            if state.tools != self._fingerprint():
                log.warning("the tools have changed since the run was saved")
            talk.paused = self._new_run(conversation, state)
        self._replace_state(talk)

    def undo(self) -> tuple[Message, ...]:
        """Takes back the last prompt and all that came of it, and returns that; what tools did stays done."""
        talk = self._state_for(None)
        last = max((place for place, one in enumerate(talk.conversation) if is_user_prompt(one)), default=None)
        if last is None:
            return ()
        taken = tuple(talk.conversation[last:])
        shorter = self._new_state(Conversation(talk.conversation[:last]))
        shorter.executor.policy.copy_usage(talk.executor.policy)
        shorter.meter = talk.meter.with_truncation(
            talk.meter.truncation if talk.meter.truncation.start <= last else Truncation()
        )
        self._replace_state(shorter)
        return taken

    async def context_usage(self) -> ContextUsage:
        """How full the model's memory is, and of what."""
        talk, profile = self._state, self.engine.profile
        preface, tools = (
            self.system_messages(await self._system_prompt(talk)),
            self.tool_definitions(self.registry_with(None), None),
        )
        said, offered = sum(map(estimate_message, preface)), sum(map(estimate_tool, tools))
        parts = {
            "instructions": talk.meter.scale_tokens(profile, said),
            "tools": talk.meter.scale_tokens(profile, offered),
            **talk.meter.tokens_by_part(talk.conversation, profile),
        }
        return ContextUsage(
            talk.meter.estimate_tokens(talk.conversation, profile, said + offered),
            {name: tokens for name, tokens in parts.items() if tokens},
            talk.meter.token_budget(profile, self.context, self.options.max_tokens),
            profile.limits.context,
            talk.meter.truncation.omitted_count(talk.conversation),
        )

    def needs_approval(self, tool: Tool) -> bool:
        """Whether somebody has to approve the calls of a tool."""
        return self._state.executor.policy.needs_approval(tool)

    def _replace_state(self, state: "ConversationState") -> None:
        """Another conversation is the agent's own from now on."""
        if self._state.is_busy:
            raise UsageError("a run is in progress on this conversation; wait for it")
        self._state = state

    async def preview_request(self, model: str | Engine | None = None) -> EncodedBody:
        """The conversation with one more prompt as a request, and what would be lost and mended. Nothing is sent."""
        engine = self.engine if model is None else _to_engine(model, self._options_for(model))
        talk = [*self._state.conversation, user("…")]
        preface = self.system_messages(await self._system_prompt(self._state), engine)
        messages: Sequence[Message] = ConversationWindow(preface, talk, self._state.meter.truncation)
        if (face := self.bound_facade(engine)) is not None:
            messages = _render_history(messages, face, engine)
        request = Request(
            engine.model, messages, self.tool_definitions(self.registry_with(None), None, engine), options=self.options
        )
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
        same = select_row(provider, name) == self._options_profile
        return options if same else {name: options[name] for name in _SHARED_ENGINE_OPTIONS if name in options}

    def _state_for(self, conversation: Conversation | None) -> "ConversationState":
        """What is kept for a conversation, for as long as it lives."""
        if conversation is None or conversation is self._state.conversation:
            return self._state
        if conversation.attachments is None:
            conversation.attachments = WeakKeyDictionary()
        talk: ConversationState | None = conversation.attachments.get(self)
        if talk is None:
            talk = conversation.attachments[self] = self._new_state(conversation)
        return talk

    def _new_state(self, conversation: Conversation) -> "ConversationState":
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
        return ConversationState(conversation, executor)

    def _new_run(self, conversation: Conversation, state: RunState | None = None) -> Run:
        return Run(
            conversation,
            max_iterations=self._config.max_iterations,
            tool_choice=self._config.tool_choice if self._config.enabled else None,
            state=state,
        )

    async def _start_run(self, state: "ConversationState", prompt: Prompt, reader: "_StreamReader | None" = None) -> Driver:
        await state.enter(reader)
        try:
            if state.paused is not None:
                state.paused.interrupt()  # the user moved on: what waited was not run
                state.paused = None
            state.conversation.append(prompt if isinstance(prompt, Message) else user(prompt))
            state.executor.policy.begin_prompt()
            return await self._new_driver(state, self._new_run(state.conversation), streaming=reader is not None)
        except BaseException:
            state.leave()
            raise

    async def _resume_run(
        self, state: "ConversationState", decisions: Mapping[str, Decision] | None, reader: "_StreamReader | None" = None
    ) -> Driver:
        await state.enter(reader)
        try:
            run = state.paused
            if run is None:
                raise UsageError("no run waits to be resumed")
            driver = await self._new_driver(state, run, streaming=reader is not None)
            run.decide(dict(decisions or {}))
            if self._approve is not None:
                run.reopen_waiting()
            state.paused = None
            return driver
        except BaseException:
            state.leave()
            raise

    async def _new_driver(self, state: "ConversationState", run: Run, *, streaming: bool) -> Driver:
        final = StructuredOutput(self.output_type) if self.output_type is not None else None
        if final is not None and FINAL_ANSWER_TOOL in self.registry:
            raise NameConflict(f"a tool is called {FINAL_ANSWER_TOOL!r}, which is the name of the tool for structured output")
        asking = RequestBuilder(self, state, final, await self._system_prompt(state))
        asking.engine_state()
        driver = Driver(run, asking, state.executor, self._config, self._hooks, final, streaming=streaming)
        driver.add_losses(self._hosted_losses())
        return driver

    async def _system_prompt(self, state: "ConversationState") -> str:
        """The system prompt."""
        text = self.system
        if callable(text):
            tools = self.tool_definitions(self.registry_with(None), None)
            said = text(PromptContext(self.engine.name, self.data, state.conversation, tools))
            text = await said if isawaitable(said) else said
        return text or ""

    def system_messages(self, instructions: str, engine: Engine | None = None) -> tuple[Message, ...]:
        """Instructions, and how to work with the built-in tools, by the names that a model has for them."""
        face = self.bound_facade(engine) if self._config.enabled else None
        text = "\n\n".join(part for part in (instructions, "" if face is None else face.note) if part)
        return (system(text),) if text else ()

    def registry_with(self, answer_tool: Tool | None) -> ToolRegistry:
        """The agent's tools with those that the loop adds: for structured output, and for results that were too long."""
        if self._read_result_tool is None and len(self.store) and "read_result" not in self.registry:
            self._read_result_tool = read_result_tool(self.store)
        own = [one for one in (answer_tool, self._read_result_tool) if one is not None]
        key = (self.registry.version, answer_tool, self._read_result_tool)
        if self._overlay[0] != key:
            registry = self.registry.clone() if own else self.registry
            for one in own:
                registry.register(one, replace=True)
            self._overlay = (key, registry)
        return self._overlay[1]

    def bound_facade(self, engine: Engine | None = None) -> BoundFacade | None:
        """The names that a model has for the built-in tools; None where there are none of them."""
        engine = engine or self.engine
        allowed = self._config.allowed_tools
        facade = self.facade if isinstance(self.facade, str) else id(self.facade)
        key = (engine.model, self.registry.version, facade, allowed)
        if key not in self._bound_facades:
            tools = list(self.registry)
            bases = [one.name for one in tools if BUILTIN_TAG in one.tags and (allowed is None or one.name in allowed)]
            others = [
                *self._hosted_names,
                *(one.name for one in (*self._hosted_definitions, *tools) if BUILTIN_TAG not in one.tags),
            ]
            self._bound_facades = {
                key: BoundFacade(self._select_facade(engine.model), engine.model, bases, others) if bases else None
            }
        return self._bound_facades[key]

    def _select_facade(self, model: str) -> Facade:
        if isinstance(self.facade, Facade):
            return self.facade
        return facade_for_model(model) if self.facade == "auto" else find_facade(self.facade)

    def tool_definitions(
        self, registry: ToolRegistry, answer_tool: Tool | None, engine: Engine | None = None
    ) -> tuple[ToolDefinition, ...]:
        """The tools as the model is told of them."""
        if not self._config.enabled:
            return () if answer_tool is None else (answer_tool.definition,)
        own = registry.definitions()
        if (face := self.bound_facade(engine)) is not None:
            own = face.visible_tools(own)
        if self._config.allowed_tools is not None:
            allowed = {
                *self._config.allowed_tools,
                *(one.name for one in (answer_tool, self._read_result_tool) if one is not None),
            }
            shown = allowed if face is None else allowed | {one.name for one in face.definitions}
            own = tuple(one for one in own if one.name in shown)
        wire = (engine or self.engine).profile.wire
        hosted = tuple(found for name in self._hosted_names if (found := find_hosted_tool(name, wire)) is not None)
        if not hosted and not self._hosted_definitions:
            return own
        allowed = self._config.allowed_tools
        return (*own, *(one for one in (*self._hosted_definitions, *hosted) if allowed is None or one.name in allowed))

    def _hosted_losses(self) -> tuple[Loss, ...]:
        """Hosted tools that the present model's provider does not have."""
        title, wire = self.engine.profile.title, self.engine.profile.wire
        return tuple(
            Loss(f"hosted tool {name!r}", "tools", f"{title} has none of this name")
            for name in self._hosted_names
            if find_hosted_tool(name, wire) is None
        )

    def use_fallback(self, used: int) -> int | None:
        """Goes on with the next fallback after so many; how many are used then, None where there is none left."""
        for place in range(used, len(self._fallbacks)):
            model = self._fallbacks[place]
            other = _to_engine(model, self._options_for(model))
            if other is not self.engine and other.name != self.engine.name:
                self.engine = other
                return place + 1
        return None


def _is_valid_truncation(truncation: Truncation, conversation: Conversation) -> bool:
    """Whether a cut that was saved can be one of this conversation."""
    start, prompt = truncation.start, truncation.prompt
    if not 0 <= start <= len(conversation) or (prompt is not None and not 0 <= prompt < start):
        return False
    begins = start in (0, len(conversation)) or can_start_at(conversation, start)
    return begins and (prompt is None or conversation[prompt].role == "user")


class ConversationState:
    """One conversation and everything that is kept for it."""

    def __init__(self, conversation: Conversation, executor: ToolExecutor) -> None:
        self.conversation, self.executor = conversation, executor
        self.engine_state: EngineState | None = None
        self.paused: Run | None = None
        self.system_messages: tuple[Message, ...] = ()
        self.meter = ContextMeter()
        self.window: ConversationWindow | None = None
        self.rendered: tuple[BoundFacade, RenderedHistory] | None = None
        self._is_busy = False
        self._reader: _StreamReader | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a run is in progress."""
        return self._is_busy

    async def enter(self, reader: "_StreamReader | None") -> None:
        """One run at a time. A stream that nobody reads any more is on its way out, and waited for."""
        while self._is_busy and self._reader is not None and self._reader.is_gone:
            if self._loop is not None and self._loop.is_closed():  # nobody is left who could end it
                self.leave()
            await asyncio.sleep(0.001)
        if self._is_busy:
            raise UsageError("a run is in progress on this conversation; wait for it, or give another conversation")
        self._is_busy, self._reader, self._loop = True, reader, asyncio.get_running_loop()

    def leave(self) -> None:
        """The run is over."""
        self._is_busy, self._reader, self._loop = False, None, None


class _StreamReader:
    """Whoever reads a stream."""

    is_gone = False

    def leave(self) -> None:
        self.is_gone = True


def _render_history(messages: Sequence[Message], facade: BoundFacade, engine: Engine) -> RenderedHistory:
    """A conversation in the words of a model; what it said itself stays as it was."""
    profile = engine.profile
    return RenderedHistory(
        messages, lambda one, lost: facade.render_message(one, is_own=_is_own_message(one.origin, profile), losses=lost)
    )


def _is_own_message(origin: Origin | None, profile: Profile) -> bool:
    """Whether a message is of the model itself, under whichever of its names."""
    if origin is None or (origin.wire, origin.profile) != (profile.wire, profile.id):
        return False
    return is_same_model(origin.model, profile.model)


class RequestBuilder:
    """The requests of one run; each goes to the model that the agent has then."""

    def __init__(
        self, agent: Orchestrator, state: ConversationState, structured_output: StructuredOutput | None, instructions: str
    ) -> None:
        self._agent, self._state, self._structured_output = agent, state, structured_output
        self._instructions = instructions
        self._fallbacks_used = self._estimated_tokens = 0
        self._overhead: tuple[object, int] = (None, 0)

    def _visible_messages(self) -> Sequence[Message]:
        talk, preface = self._state, self._system_messages()
        cut = talk.meter.truncation
        if not preface and not cut.start:
            return self._render_messages(talk.conversation)
        if talk.window is None or talk.window.system_messages is not preface or talk.window.truncation is not cut:
            talk.window = ConversationWindow(preface, talk.conversation, cut)
        return self._render_messages(talk.window)

    def _system_messages(self) -> tuple[Message, ...]:
        """The same text is the same object, so that what was encoded stays good."""
        talk, found = self._state, self._agent.system_messages(self._instructions)
        if talk.system_messages != found:
            talk.system_messages = found
        return talk.system_messages

    def _render_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The conversation in the words of the present model, where it has words of its own."""
        face, talk = self._agent.bound_facade(), self._state
        if face is None:
            return messages
        if talk.rendered is None or talk.rendered[0] is not face or talk.rendered[1].messages is not messages:
            talk.rendered = (face, _render_history(messages, face, self._agent.engine))
        return talk.rendered[1]

    def annotate_reply(self, reply: Reply) -> Reply:
        """A reply with what its calls mean beside them."""
        face = self._agent.bound_facade()
        if face is None or not reply.calls:
            return reply
        return replace(reply, blocks=tuple(face.annotate(one) if isinstance(one, ToolCall) else one for one in reply.blocks))

    def history_losses(self) -> tuple[Loss, ...]:
        """What the model's own words could not say of the calls of others."""
        return tuple(self._state.rendered[1].losses) if self._state.rendered is not None else ()

    def engine_state(self) -> EngineState:
        agent, talk = self._agent, self._state
        if talk.engine_state is None or talk.engine_state.engine is not agent.engine:
            talk.engine_state = agent.engine.new_state()
        executor = talk.executor
        executor.model, executor.data = agent.engine.name, agent.data
        if executor.config is not agent.config:
            executor.configure(agent.config)
        executor.registry = agent.registry_with(self._answer_tool())
        executor.facade = agent.bound_facade()
        return talk.engine_state

    def _answer_tool(self) -> Tool | None:
        agent = self._agent
        return (
            self._structured_output.answer_tool(agent.engine.profile, with_tools=len(agent.registry) > 0)
            if self._structured_output
            else None
        )

    def build_request(self, step: AskModel, stream: bool) -> Request:
        agent, final = self._agent, self._structured_output
        final_tool = self._answer_tool()
        tools = agent.tool_definitions(self._state.executor.registry, final_tool)
        choice = step.tool_choice
        if final is not None and not step.last:
            choice = final.forced_choice(final_tool) or choice
        if choice is not None and choice.names and (face := agent.bound_facade()) is not None:
            choice = replace(choice, names=tuple(name for base in choice.names for name in face.native_names(base)))
        return Request(
            agent.engine.model,
            self._visible_messages(),
            tools,
            choice if tools else None,
            agent.config.parallel if tools else None,
            agent.options,
            final.native_output() if final is not None and final_tool is None else None,
            stream,
        )

    # ---- what fits

    async def fit_context(self, *, was_rejected: bool = False) -> tuple[ContextCut, Usage] | None:
        """Leaves out older messages where a request would be too long, or was; what was done, and what it took."""
        agent, talk, memory = self._agent, self._state, self._state.meter
        policy, profile = agent.context, agent.engine.profile
        fixed = self._overhead_tokens()
        before = self._estimated_tokens = memory.estimate_tokens(talk.conversation, profile, fixed)
        if policy.when_full == "off":
            return None
        budget = memory.token_budget(profile, policy, agent.options.max_tokens)
        if was_rejected:
            budget = min(budget or before, max(1, before * 3 // 4))
        if budget is None or before <= budget:
            return None
        cut = memory.find_truncation(talk.conversation, profile, fixed, int(budget * policy.keep))
        if cut is None:
            return None
        if was_rejected:
            memory.record_rejection(profile, before, fixed)
        summary, usage, why = await self._summarize(cut, budget) if policy.when_full == "compact" else ("", Usage(), "")
        summary = elide_middle(summary, max(400, budget))
        memory.truncation = replace(cut, summary=summary)
        after = self._estimated_tokens = memory.estimate_tokens(talk.conversation, profile, fixed)
        left = cut.omitted_count(talk.conversation)
        said = f"{count_phrase(left)} {'summed up' if summary else 'left out'}: about {before:,} tokens, {budget:,} fit"
        return ContextCut(said + (f" ({why})" if why else ""), left, before, after, summary), usage

    def record_usage(self, usage: Usage) -> None:
        """The provider has counted the request."""
        self._state.meter.calibrate(self._agent.engine.profile, self._estimated_tokens, usage.input)

    def _overhead_tokens(self) -> int:
        tools = self._agent.tool_definitions(self._state.executor.registry, self._answer_tool())
        if self._overhead[0] != tools:
            self._overhead = (tools, sum(map(estimate_message, self._system_messages())) + sum(map(estimate_tool, tools)))
        return self._overhead[1]

    async def _summarize(self, truncation: Truncation, budget: int) -> tuple[str, Usage, str]:
        """What is going to be left out, summed up; what that took; and why there is none."""
        agent, talk = self._agent, self._state
        old = talk.conversation[: truncation.start]
        try:
            if agent.summarize is not None:
                said = agent.summarize([one for place, one in enumerate(old) if place != truncation.prompt])
                said = await said if isawaitable(said) else said
                if not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it is somebody's own function
                    raise UsageError(f"summarise must give a text, not {type(said).__name__}")
                return said.strip(), Usage(), ""
            before = talk.meter.truncation
            new = [
                old[place]
                for place in range(len(old))
                if place != truncation.prompt and (place >= before.start or place == before.prompt)
            ]
            text = render_transcript(new, before.summary, 2 * budget)
            if (tokens := talk.meter.scale_tokens(agent.engine.profile, estimate_text(text))) > budget * 0.7:
                text = render_transcript(new, before.summary, int(2 * budget * 0.7 * budget / tokens))
            asked = Request(agent.engine.model, (user(f"{SUMMARY_PROMPT}\n\n{text}"),))
            reply = (await agent.engine.new_state().ask(asked)).reply
        except ToolglotError as e:
            log.warning("the conversation could not be summed up: %s", e)
            return "", Usage(), f"it could not be summed up: {e}"
        return reply.text.strip(), reply.usage, "" if reply.text.strip() else "the model gave no summary"

    def use_fallback(self) -> EngineState | None:
        used = self._agent.use_fallback(self._fallbacks_used)
        if used is None:
            return None
        self._fallbacks_used = used
        return self.engine_state()


async def _finish_run(state: ConversationState, driver: Driver) -> RunResult:
    try:
        await driver.run_to_end()
    finally:
        state.leave()
    return _take_result(state, driver)


def _watch_stream(state: ConversationState, begin: Callable[[_StreamReader], Awaitable[Driver]]) -> AsyncGenerator[RunEvent]:
    """A stream that tells the conversation when its reader has gone without closing it."""
    reader = _StreamReader()
    events = _stream_events(state, begin, reader)
    finalize(events, reader.leave).atexit = False
    return events


async def _stream_events(
    state: ConversationState, begin: Callable[[_StreamReader], Awaitable[Driver]], reader: _StreamReader
) -> AsyncGenerator[RunEvent]:
    driver = await begin(reader)
    try:
        async with aclosing(driver.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
    finally:
        state.leave()
    yield RunDone(_take_result(state, driver))


def _take_result(state: ConversationState, driver: Driver) -> RunResult:
    result = driver.result()
    state.paused = driver.run if result.stop == "approval" else None
    return result


def _split_tools(tools: Iterable[Any] | ToolRegistry) -> tuple[ToolRegistry, tuple[ToolDefinition, ...]]:
    """The tools that run here, and the definitions of those that a provider runs."""
    if isinstance(tools, ToolRegistry):
        return tools, ()
    tools = list(tools)
    fixed = tuple(one for one in tools if isinstance(one, ToolDefinition))
    if strangers := [one.name for one in fixed if one.kind != "hosted"]:
        raise UsageError(f"{strangers[0]!r} is only a definition: give it a function with tool_from_schema")
    return ToolRegistry(one for one in tools if not isinstance(one, ToolDefinition)), fixed


def _to_engine(model: str | Engine, options: Mapping[str, Any]) -> Engine:
    return model if isinstance(model, Engine) else create_engine(model, **options)


def _check_hosted(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    for name in names:
        if name not in HOSTED_TOOLS:
            raise UnknownName("hosted tool", name, HOSTED_TOOLS)
    return names
