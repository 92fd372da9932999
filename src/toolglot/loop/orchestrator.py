"""The public loop: one conversation with tools, on any model.

agent = Orchestrator("anthropic:claude-sonnet-4-5", tools=[get_weather])
result = agent.run_sync("Weather in Paris?")
agent.switch("gemini:gemini-3-pro-preview")
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from hashlib import sha256
from logging import getLogger
from threading import Event
from typing import Any, Unpack, cast
from weakref import WeakKeyDictionary, finalize

from toolglot.engine.engine import Engine
from toolglot.errors import MalformedData, NameConflict, UsageError
from toolglot.events import RunDone, RunEvent, RunResult
from toolglot.jsontext import dumps
from toolglot.loop.agent_core import AgentCore, AgentOptions, PromptContext
from toolglot.loop.background_loop import run_sync
from toolglot.loop.context_window import ContextUsage, ConversationWindow
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.driver import Driver
from toolglot.loop.prompts import Prompt, to_messages
from toolglot.loop.request_builder import RequestBuilder
from toolglot.loop.run import Decision, Run, find_last_prompt
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.messages import Conversation, Message, load, save, user
from toolglot.providers.tokens import estimate_message, estimate_tool
from toolglot.request import Request
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.type_parameters import Data, OtherData, OtherOutput, OutputValue
from toolglot.wire.prefix import EncodedBody, PrefixEncoder

__all__ = ["Orchestrator", "PromptContext"]

log = getLogger("toolglot.loop")
Decisions = Mapping[str, Decision] | None
Start = Callable[[bool], Awaitable[Driver]]
"""Begins or resumes a run; the argument says whether somebody reads its events."""


class Orchestrator(AgentCore[Data, OutputValue]):
    """A model, tools and a conversation. `Orchestrator[Data, OutputValue]`: the types of `data` and of `result.output`.

    Args:
        model: PROVIDER:MODEL, or an engine.
        tools: Functions, Tools, a ToolRegistry, or definitions of hosted tools.
        hosted: Names of tools that the provider runs: web_search, code_execution.
        system: The system prompt, or a function that writes it.
        config: How tools are run: limits, approvals, retries.
        options: How the model generates.
        context: What to do when the conversation outgrows the model's context window.
        facade: How the built-in tools look; by default as in the model's own harness, whose note on how to work with them
            follows the system prompt.
        output_type: A type, or a JSON Schema, for `result.output`.
        approve: Asked when a call needs approval; without it the run pauses.
        summarize: Summarizes what is left out of a long conversation, instead of the model.
        hooks: Observe or change requests, replies and calls.
        fallbacks: Models to continue with when this one is busy or fails.
        audit: Writes down every call.
        data: Passed to tools in their Context, and to a function that writes the system prompt. A run can have its own:
            `run(prompt, data=…)`.
        conversation: A conversation to continue.
        engine: Options of `create_engine`.
    """

    # ---- running

    @property
    def conversation(self) -> Conversation:
        """The agent's own conversation."""
        return self._state.conversation

    @property
    def has_pending_run(self) -> bool:
        """Whether a run waits to be resumed."""
        return self._state.paused is not None

    async def run(
        self, prompt: Prompt, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> RunResult[OutputValue]:
        """Ask the model, run its tools and ask again, until there is an answer.

        `data`: for this run instead of the agent's; concurrent runs, each with its own conversation, do not see each other's.
        """
        state = self._state_for(conversation)
        return await _finish(state, lambda streaming: self._start(state, prompt, data, streaming))

    def run_sync(
        self, prompt: Prompt, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> RunResult[OutputValue]:
        """Like `run`, for callers without an event loop. Ctrl-C leaves a valid conversation."""
        return run_sync(self.run(prompt, data=data, conversation=conversation))

    def stream(
        self, prompt: Prompt, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> AsyncGenerator[RunEvent]:
        """Like `run`, as it happens; the last event is `RunDone`. Leaving the stream interrupts the run."""
        state = self._state_for(conversation)
        return _watch(state, lambda streaming: self._start(state, prompt, data, streaming))

    async def resume(
        self, decisions: Decisions = None, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> RunResult[OutputValue]:
        """Continue a run that waits for approvals. `decisions`: call id -> yes or no.

        `data`: what the run was started with by default; it is not saved, so pass it again after `load`.
        """
        state = self._state_for(conversation)
        return await _finish(state, lambda streaming: self._resume(state, decisions, data, streaming))

    def resume_sync(
        self, decisions: Decisions = None, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> RunResult[OutputValue]:
        """Like `resume`, for callers without an event loop."""
        return run_sync(self.resume(decisions, data=data, conversation=conversation))

    def resume_stream(
        self, decisions: Decisions = None, *, data: Data | None = None, conversation: Conversation | None = None
    ) -> AsyncGenerator[RunEvent]:
        """Like `resume`, as it happens."""
        state = self._state_for(conversation)
        return _watch(state, lambda streaming: self._resume(state, decisions, data, streaming))

    # ---- state

    def save(self) -> bytes:
        """Return the conversation and a paused run as JSON lines: `Orchestrator.load` continues it in any process."""
        return save(self.conversation, model=self.engine.name, **self._state.save_header(_fingerprint(self.registry)))

    @classmethod
    def load(
        cls, saved: bytes, /, model: str | Engine | None = None, **options: Unpack[AgentOptions[OtherData, OtherOutput]]
    ) -> "Orchestrator[OtherData, OtherOutput]":
        """Return an agent that continues what `save` wrote; all other options are passed anew. Raises MalformedData."""
        if model is None and not isinstance(model := load(saved)[1].get("model", "simulator"), str):
            raise MalformedData("line 1: the saved model is not a string")
        agent = cast(type[Orchestrator[OtherData, OtherOutput]], cls)(model, **options)
        agent.restore(saved)
        return agent

    def restore(self, data: bytes) -> None:
        """Continue what `save` wrote, on the present model. Raises MalformedData, and changes nothing then."""
        conversation, header = load(data)
        state = self.new_state(conversation)
        run_state = state.restore_header(header)
        if run_state is not None:
            if run_state.tools != _fingerprint(self.registry):
                log.warning("the tools have changed since the run was saved")
            state.paused = self.new_run(conversation, run_state)
        self._check_idle()
        self._state = state

    def undo(self) -> tuple[Message, ...]:
        """Remove the last prompt and everything after it, and return that. What tools did is not undone."""
        start = find_last_prompt(self.conversation)
        if start is None:
            return ()
        removed = tuple(self.conversation[start:])
        self._check_idle()
        self._state.rewind(start)
        return removed

    def _check_idle(self) -> None:
        if self._state.is_busy:
            raise UsageError("a run is in progress on this conversation; wait for it")

    # ---- looking at the agent

    def needs_approval(self, tool: Tool) -> bool:
        """Return whether somebody has to approve the calls of a tool."""
        return self._state.executor.policy.needs_approval(tool)

    async def context_usage(self) -> ContextUsage:
        """Return how full the model's context window is, and of what; an estimate."""
        state, profile, view = self._state, self.engine.profile, self.view()
        instructions = sum(map(estimate_message, view.system_messages(await self.system_prompt(state, self.data))))
        tools = sum(map(estimate_tool, view.tools(self.loop_tools(state))))
        meter = state.meter
        parts = {
            "instructions": meter.scale_tokens(profile, instructions),
            "tools": meter.scale_tokens(profile, tools),
            **meter.tokens_by_part(state.conversation, profile),
        }
        return ContextUsage(
            meter.estimate_tokens(state.conversation, profile, instructions + tools),
            {name: tokens for name, tokens in parts.items() if tokens},
            meter.token_budget(profile, self.context, self.options.max_tokens),
            profile.limits.context,
            meter.truncation.omitted_count(state.conversation),
        )

    async def preview_request(self, model: str | Engine | None = None) -> EncodedBody:
        """Return the next request, with one more prompt, and what would be lost and repaired. Nothing is sent."""
        engine = self.engine if model is None else self.create_engine(model)
        view, state = self.view(engine), self._state
        system_messages = view.system_messages(await self.system_prompt(state, self.data))
        conversation = [*state.conversation, user("…")]
        messages = ConversationWindow(system_messages, conversation, state.meter.truncation, view.render_message)
        request = Request(engine.model, messages, view.tools(self.loop_tools(state)), options=self.options)
        return PrefixEncoder(engine.profile).encode(request)

    # ---- inside

    def _state_for(self, conversation: Conversation | None) -> ConversationState:
        """Return the state of a conversation; it lives as long as the conversation does."""
        if conversation is None or conversation is self._state.conversation:
            return self._state
        if conversation.attachments is None:
            conversation.attachments = WeakKeyDictionary()
        state: ConversationState | None = conversation.attachments.get(self)
        if state is None:
            state = conversation.attachments[self] = self.new_state(conversation)
        return state

    async def _start(self, state: ConversationState, prompt: Prompt, data: Any, streaming: bool) -> Driver:
        messages = to_messages(prompt)
        if state.paused is not None:
            state.paused.interrupt()  # the user moved on: what waited did not run
            state.paused = None
        state.prompt_start = len(state.conversation)
        state.conversation.append(*messages)
        state.executor.policy.begin_prompt()
        state.data = data
        try:
            return await self._new_driver(state, self.new_run(state.conversation), streaming)
        except BaseException:  # the function that writes the system prompt failed
            state.retract()
            raise

    async def _resume(self, state: ConversationState, decisions: Decisions, data: Any, streaming: bool) -> Driver:
        run = state.paused
        if run is None:
            raise UsageError("no run waits to be resumed")
        state.data = state.data if data is None else data
        driver = await self._new_driver(state, run, streaming)
        run.decide(dict(decisions or {}))
        if self.approve is not None:
            run.reopen_waiting()
        state.paused = None
        return driver

    async def _new_driver(self, state: ConversationState, run: Run, streaming: bool) -> Driver:
        output = None
        if self.output_type is not None:
            if FINAL_ANSWER_TOOL in self.registry:
                raise NameConflict(f"a tool is called {FINAL_ANSWER_TOOL!r}, the name of the tool for structured output")
            output = StructuredOutput(cast(Any, self.output_type))
        data = state.executor.data = self.data if state.data is None else state.data
        requests = RequestBuilder(self, state, output, await self.system_prompt(state, data))
        return Driver(run, requests, streaming=streaming)


def _fingerprint(registry: ToolRegistry) -> str:
    return sha256(dumps(registry.definitions())).hexdigest()[:16]


async def _finish(state: ConversationState, start: Start) -> RunResult:
    await state.enter(None)
    try:
        driver = await start(False)
        async with aclosing(driver.batches()) as batches:
            async for _ in batches:
                pass
    finally:
        state.leave()
    return state.take_result(driver)


def _watch(state: ConversationState, start: Start) -> AsyncGenerator[RunEvent]:
    """Return a stream that tells the conversation when its reader has gone without closing it."""
    reader_gone = Event()
    events = _stream(state, start, reader_gone)
    finalize(events, reader_gone.set).atexit = False
    return events


async def _stream(state: ConversationState, start: Start, reader_gone: Event) -> AsyncGenerator[RunEvent]:
    await state.enter(reader_gone)
    try:
        driver = await start(True)
        async with aclosing(driver.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
    finally:
        state.leave()
    yield RunDone(state.take_result(driver))
