"""Random histories of runs whose calls are answered from elsewhere: eight threads deliver messages, decisions
and answers at every moment, right ones and wrong ones, while the program runs, cancels, leaves, saves, loads,
switches the model and undoes.

The seed decides who does what at which step, not how the threads are interleaved: what is checked holds for
every order. Each prompt, call, message and answer holds a token of its own.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from tests.loop.agents import (
    PROVIDERS,
    QUICK,
    Wiretap,
    check,
    find_unpaired,
    hook,
    results_of,
    run,
)
from tests.loop.senders import Senders
from tests.properties.legality import find_refusals, illegal

from toolglot.common.jsontext import loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.tools.context import Context, Later
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.approvals import Allow, Answer, Deny, Suspended
from toolglot.values.definitions import ToolDefinition
from toolglot.values.deliveries import Delivery, DeliveryTime
from toolglot.values.events import RunDone, RunResult
from toolglot.values.messages import Block, Conversation, Message, Reply, Text, ToolCall
from toolglot.values.request import Request

TOKEN = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
COLOR = {
    "type": "object",
    "properties": {"color": {"type": "string"}},
    "required": ["color"],
    "additionalProperties": False,
}
PICK = ToolDefinition("pick", "Let the person pick a color.", TOKEN, output_schema=COLOR)
LOCATE = ToolDefinition("locate", "Where is the browser?", TOKEN)
CONFIRM = ToolDefinition("confirm", "Let the person confirm.", TOKEN)
LEAF_TOOLS = ("look", "fetch", "move", "pay", "sign", "pick", "locate", "confirm", "train")
RIGHT: dict[str, str] = {
    **dict.fromkeys(("pay", "sign", "confirm"), "decision"),
    **dict.fromkeys(("locate", "train", "pick"), "answer"),
}
_NOTHING = Message("user", ())
MAX_CALLS = 12
"""Calls in one run; after them the model answers."""


class Judge(Wiretap):
    """The simulator; whatever is sent is judged before."""

    def __init__(self, storm: "Storm", provider: str, turn: Callable[[Request], Reply]) -> None:
        super().__init__(*[turn] * 400)
        self._storm = storm
        self.engine: Engine = create_engine(f"simulator:{provider}", transport=self, retry=QUICK)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Judge a request, and hand it on."""
        profile, body = self.engine.profile, loads_object(request.body)
        wrong = [
            *illegal(profile, body),
            *find_refusals(profile, body, beta="anthropic-beta" in request.headers),
        ]
        self._storm.problems += [f"{profile.id}: {problem}" for problem in wrong]
        self._storm.counts["requests"] += 1
        self._storm.sent |= {*re.findall(rb"a\d{5}", request.body)}
        return await super().send(request)


class Given(msgspec.Struct):
    """What was delivered for calls, and the tokens that the results would show."""

    delivery: Delivery
    items: dict[str, Any]
    tokens: list[str]
    is_answer: bool
    """To a call of the model itself: its token is in the conversation as soon as it was delivered."""


class Known(msgspec.Struct):
    """A call that somebody may decide on or answer."""

    tool: str
    names: list[str]
    is_outer: bool


class Storm:
    """One history."""

    def __init__(self, seed: int, senders: Senders) -> None:
        self.random, self.senders = random.Random(seed), senders
        self.problems: list[str] = []
        self.counts = Counter[str]()
        self.messages: list[Delivery] = []
        self.undone: set[str] = set()  # ids of messages that were removed again
        self.given: list[Given] = []
        self.known: list[Known] = []
        self.effects = Counter[str]()  # by token
        self.paid: set[str] = set()  # the ids of calls that had effects after an approval
        self.allowed: set[str] = set()  # the keys of all decisions that let a call run
        self.snapshots: list[bytes] = []  # what was saved in the middle of a run
        self.sent: set[bytes] = set()  # tokens of answers that a model has got
        self.is_clean = True  # nothing was stopped, given up or undone
        self.pending: list[Known] = []
        self.call_count = 0
        self.has_equal_ids = self.random.random() < 0.5
        self.limits = RunLimits(max_iterations=self.random.choice([2, 4, 20, 20]))
        self.agent = Agent(
            self.open_engine(),
            tools=self.make_tools(),
            hooks=[self.make_hooks()],
            limits=self.limits,
        )

    # ---- what there is

    def open_engine(self) -> Engine:
        """The model of some provider."""
        return Judge(self, self.random.choice(PROVIDERS), self.reply).engine

    def make_hooks(self) -> Any:
        """Hooks in which something is delivered."""
        return hook(before_request=self._on_hook, after_reply=self._on_hook, before_tool=self._on_hook)

    def _on_hook(self, value: Any) -> None:
        if self.random.random() < 0.4:
            self.shake()
        if self.random.random() < 0.04:
            self.snapshots.append(self.agent.save())

    def make_tools(self) -> list[Any]:
        """Tools of every kind, and two agents, one in the other."""
        inner = Judge(self, self.random.choice(PROVIDERS), self.reply_inside).engine
        innermost = Judge(self, self.random.choice(PROVIDERS), self.reply_inside).engine
        dig = Agent(innermost, tools=self.make_leaves("pay", "locate", "look"))
        research = Agent(
            inner,
            tools=[
                *self.make_leaves("look", "fetch", "pay", "pick", "confirm", "train"),
                dig.as_tool("dig", "Digs."),
            ],
        )
        return [*self.make_leaves(*LEAF_TOOLS), research.as_tool("research", "Researches.")]

    def make_leaves(self, *names: str) -> list[Any]:
        """Tools that are no agents."""

        def act(context: Context, token: str) -> str:
            self.effects[token] += 1
            if context.call.name in ("pay", "sign"):
                self.paid.add(context.call.id)
            return f"{context.call.name} {token}"

        def look(token: str, context: Context) -> str:
            """Look, in a thread."""
            return act(context, token)

        async def fetch(token: str, context: Context) -> str:
            """Fetch."""
            result = act(context, token)
            for _ in range(4):
                self._on_hook(None)
                await asyncio.sleep(0)
            return result

        def train(token: str, context: Context) -> Later:
            """Train a model."""
            act(context, token)
            return Later(key=f"job-{token}")

        tools = {
            "look": Tool(look, effects="read"),
            "fetch": Tool(fetch, effects="read"),
            "move": Tool(fetch, name="move", ordered=True),
            "pay": Tool(look, name="pay", approval=True, inline=True),
            "sign": Tool(fetch, name="sign", approval=True, ordered=True),
            "pick": PICK,
            "locate": LOCATE,
            "confirm": tool_from_definition(CONFIRM, approval=True),
            "train": Tool(train, inline=True),
        }
        return [tools[name] for name in names]

    # ---- what the models say

    def reply(self, request: Request) -> Reply:
        """What the agent's own model says: calls, or that it is done."""
        if self.call_count >= MAX_CALLS or self.random.random() < 0.35:
            return Reply((Text("done"),))
        blocks: list[Block] = [Text("so")] if self.random.random() < 0.2 else []
        for _ in range(self.random.choice((1, 1, 2, 3, 4))):
            name = self.random.choice((*LEAF_TOOLS, "research", "research"))
            blocks.append(self._make_call(name))
        return Reply(tuple(blocks), "tools")

    def reply_inside(self, request: Request) -> Reply:
        """What the models of the other agents say: calls, or the results that they got."""
        texts = [result.text for result in results_of(request.messages)]
        if self.call_count >= MAX_CALLS or len(texts) > 3 or self.random.random() < (0.5 if texts else 0.1):
            return Reply((Text("; ".join(texts) or "nothing"),))
        names = sorted(tool.name for tool in request.tools)
        count = self.random.choice((1, 1, 2, 3))
        return Reply(tuple([self._make_call(self.random.choice(names)) for _ in range(count)]), "tools")

    def _make_call(self, name: str) -> ToolCall:
        self.call_count += 1
        token = self.token("c")
        arguments = {"prompt": f"Work on {token}."} if name in ("research", "dig") else {"token": token}
        if name in RIGHT and self.random.random() < 0.05:
            arguments = {}
        return ToolCall("" if self.has_equal_ids else f"id_{token}", name, arguments)

    def token(self, kind: str) -> str:
        """A word that is used once."""
        self.counts[kind] += 1
        return f"{kind}{self.counts[kind]:05d}"

    # ---- what the threads do

    def shake(self) -> None:
        """Let some threads deliver something, and perhaps wait for them."""
        for number in self.random.sample(range(self.senders.count), self.random.choice([0, 1, 1, 2, 3, 8])):
            work = self._plan_message() if self.random.random() < 0.5 else self._plan_answer()
            self.senders.tell(number, self._guarded(work))
        if self.random.random() < 0.5:
            self.senders.wait()

    def _guarded(self, work: Callable[[], object]) -> Callable[[], None]:
        def do() -> None:
            try:
                work()
            except Exception as e:
                self.note_error(e)

        return do

    def note_error(self, error: BaseException) -> None:
        """Only a UsageError may come, with one sentence."""
        text = str(error)
        if not isinstance(error, UsageError) or not text or "\n" in text:
            self.problems.append(f"raised: {error!r:.500}")
        self.counts["usage errors"] += 1

    def _plan_message(self) -> Callable[[], object]:
        agent, times = self.agent, get_args(DeliveryTime)
        when: DeliveryTime = self.random.choice(times)
        id = self.random.choice(["", f"m{self.random.randint(0, 9)}"])
        text, takes_back = f"message {id or self.token('m')}", self.random.random() < 0.1

        def deliver() -> None:
            delivery = agent.deliver(text, when=when, id=id)
            self.messages.append(delivery)
            if takes_back:
                delivery.withdraw()

        return deliver

    def _plan_answer(self) -> Callable[[], object]:
        agent, given = self.agent, self._make_items()

        def deliver() -> None:
            given.delivery = agent.deliver(given.items, id=given.delivery.id)
            self.given.append(given)

        repeats = 2 if self.random.random() < 0.1 else 1
        return lambda: [deliver() for _ in range(repeats)]

    def _make_items(self) -> Given:
        """A decision or an answer for some calls, mostly a right one."""
        candidates = [*self.known[-6:], *self._list_open_calls()]
        if self.pending and self.random.random() < 0.8:
            candidates = self.pending
        elif self.random.random() < 0.1:
            candidates = [*self.known, Known("pay", ["call_0", "nobody"], False)]
        if not candidates:
            candidates = [Known("pay", ["call_1"], False)]
        items: dict[str, Any] = {}
        tokens: list[str] = []
        is_answer = True
        for _ in range(self.random.choice([1, 1, 1, 2])):
            known = self.random.choice(candidates)
            value, token = self._make_value(known.tool)
            key = self.random.choice(known.names)
            if isinstance(value, Allow) or value is True:
                self.allowed.add(key)
            if key not in items:
                items[key] = value
                tokens += [token] if token else []
                is_answer = is_answer and known.is_outer and isinstance(value, Answer)
        return Given(Delivery(self.token("d"), _NOTHING), items, tokens, is_answer)

    def _make_value(self, tool: str) -> tuple[Any, str]:
        """What to say about a call, and what its result shows of it."""
        token, luck = self.token("a"), self.random.random()
        if luck < 0.12:  # of another kind, or none
            return self.random.choice(
                [("nonsense", ""), (Answer(object()), ""), ("later", ""), (7, ""), (Answer({"x": token}), "")]
            )
        kind = RIGHT.get(tool, "decision")
        if luck < 0.2:
            kind = "answer" if kind == "decision" else "decision"
        elif tool == "confirm" and self.random.random() < 0.5:
            kind = "answer"
        if kind == "decision":
            return self.random.choice(
                [
                    (True, ""),
                    (True, ""),
                    (Allow({"token": token}), ""),
                    (Allow({"tokin": token}), ""),
                    (Deny(f"because {token}"), token),
                    (False, ""),
                ]
            )
        if self.random.random() < 0.15:
            return Answer(error=f"failed {token}"), token
        return Answer({"color": token} if tool == "pick" else f"text {token}"), token

    def _list_open_calls(self) -> list[Known]:
        """The calls that the model has just made."""
        last = self.agent.conversation[-1:]
        return [
            Known(call.name, [call.id, *_list_keys(call)], True) for message in last for call in message.calls
        ]

    # ---- what the program does

    async def play(self, steps: int) -> None:
        """Play so many steps, and bring what waits to its end."""
        for _ in range(steps):
            await self.step()
            if self.problems:
                return
        for _ in range(30):
            if not self.agent.has_pending_run:
                break
            await self.finish_pending()
        else:
            self.problems.append("a run never ends")
        self.check()
        if self.is_clean:
            used = [given for given in self.given if given.delivery.state == "delivered"]
            delivered = [given for given in used if not given.delivery.reason]  # all of it
            lost = [
                given for given in delivered if not {token.encode() for token in given.tokens} <= self.sent
            ]
            self.problems += [f"no model got {given}" for given in lost]
            self.counts["clean"] += 1

    async def step(self) -> None:
        """Do something, and check everything."""
        before = self.random.random()
        if before < 0.15:
            self.load()
        elif before < 0.25:
            self.agent.switch(self.open_engine())
            self.counts["switched"] += 1
        elif before < 0.32:
            self.undo()
        if self.random.random() < 0.5:
            self.shake()
        if self.agent.has_pending_run and self.random.random() < 0.85:
            await self.look()
            options = {"prompt": f"prompt {self.token('p')}"} if self.random.random() < 0.15 else {}
            items: dict[str, Any] = {}
            if self.random.random() < 0.5:
                given = self._make_items()
                items = given.items
            await self.leg("resume", items, options)
        else:
            self.call_count = 0
            self.is_clean = not self.agent.has_pending_run and self.is_clean
            await self.leg("run", f"prompt {self.token('p')}", {})
        self.senders.wait()
        await self.look()
        self.check()
        while self.snapshots:
            await self.continue_after_crash(self.snapshots.pop())

    async def continue_after_crash(self, saved: bytes) -> None:
        """What was saved in the middle of a run can be continued, also without some of the tools.

        Calls that were open have no result there: each request says so, and is judged.
        """
        self.call_count = MAX_CALLS
        agent = Agent.load(saved, self.open_engine(), tools=self.make_leaves(*LEAF_TOOLS))
        await agent.run(f"prompt {self.token('p')}")
        self.counts["crashed"] += 1

    async def look(self) -> None:
        """Learn what waits."""
        if self.agent.has_pending_run:
            self.learn(await self.agent.list_pending())

    def learn(self, pending: Sequence[Suspended]) -> None:
        """Remember what can be answered."""
        self.pending = []
        for item in pending:
            names = [item.id, item.path[-1], item.fingerprint, *([item.key] if item.key else [])]
            known = Known(item.request.tool, names, len(item.path) == 1)
            self.pending.append(known)
            if known not in self.known:
                self.known.append(known)

    async def leg(self, kind: str, value: Any, options: Mapping[str, Any]) -> None:
        """Run to the end or to a pause; or cancel, or leave."""
        end = self.random.choice(["", "", "", "cancel", "leave"])
        try:
            if end == "leave" or self.random.random() < 0.5:
                moment = self.random.randrange(60) if end == "leave" else None
                method = self.agent.stream if kind == "run" else self.agent.resume_stream
                closes = self.random.random() < 0.7
                await self._read(method(value, **options), moment, closes=closes)
            else:
                method = self.agent.run if kind == "run" else self.agent.resume
                await self._wait(method(value, **options), end)
        except UsageError as e:
            self.note_error(e)
            if kind == "run":
                self.problems.append(f"a prompt was refused: {e}")
        self.counts["legs"] += 1

    async def _read(self, events: Any, moment: int | None, *, closes: bool) -> None:
        count = 0
        async for event in events:
            if isinstance(event, RunDone):
                self.note_result(event.result)
            if count == moment:
                self.is_clean = False
                break
            count += 1
        if closes:
            await events.aclose()
        del events
        while self.agent.conversation.active_run is not None:  # the event loop closes it soon
            await asyncio.sleep(0)

    async def _wait(self, work: Any, end: str) -> None:
        task = asyncio.ensure_future(work)
        if end == "cancel":
            self.is_clean = False
            for _ in range(self.random.randrange(self.random.choice([6, 20, 60]))):
                await asyncio.sleep(0)
            if self.random.random() < 0.5:
                task.cancel()
            else:
                loop = asyncio.get_running_loop()
                self.senders.tell(0, lambda: void(loop.call_soon_threadsafe(task.cancel)))
                self.senders.wait()
        try:
            self.note_result(await task)
        except asyncio.CancelledError:
            self.counts["cancelled"] += 1

    def note_result(self, result: RunResult[Any]) -> None:
        """A result of a run."""
        self.counts[result.stop] += 1
        self.learn(result.pending)

    def undo(self) -> None:
        """Remove the last prompt, with all that came for it."""
        self.senders.wait()
        self.check()
        length = len(self.agent.conversation)
        removed = self.agent.undo()
        self.is_clean = False
        start = length - len(removed)
        self.undone |= {
            delivery.id for delivery in self.messages if (delivery.index or 0) >= start and delivery.index
        }
        # What is left of them are refusals, which the next check sees.
        self.given = [given for given in self.given if given.delivery.state != "delivered"]
        self.counts["undone"] += bool(removed)

    def load(self) -> None:
        """Continue with the saved form, with other models; what was queued still is."""
        self.senders.wait()
        self.check()
        messages = {id(delivery): delivery for delivery in self.messages}.values()
        agent = Agent.load(
            self.agent.save(),
            self.open_engine(),
            tools=self.make_tools(),
            hooks=[self.make_hooks()],
            limits=self.limits,
        )
        self.messages = [agent.deliver(old.message, id=old.id) for old in messages]
        before = [(old.state, old.index, old.reason) for old in messages]
        after = [(new.state, new.index, new.reason) for new in self.messages]
        if before != after:
            self.problems.append(f"messages after load: {after} instead of {before}")
        for given in self.given:
            if given.delivery.state == "queued":
                given.delivery = agent.deliver(given.items, id=given.delivery.id)
                if given.delivery.state != "queued":
                    self.problems.append(f"an answer after load: {given}")
        self.agent = agent
        self.counts["loaded"] += 1

    async def finish_pending(self) -> None:
        """Decide on everything that waits, and go on."""
        self.senders.wait()
        items: dict[str, Any] = {}
        pending = await self.agent.list_pending()
        for item in pending:
            token = self.token("a")
            if item.kind == "external":
                items[item.id] = Answer({"color": token} if item.schema else token)
            else:
                items[item.id] = True
                self.allowed.add(item.id)
        for key, value in items.items():
            self.agent.deliver({key: value})  # refused if there is one already
        self.call_count = MAX_CALLS
        await self.leg("resume", {}, {})
        self.senders.wait()
        self.check()

    # ---- what must be so

    def check(self) -> None:
        """Between two runs: everything that was delivered is where it says."""
        conversation, is_paused = self.agent.conversation, self.agent.has_pending_run
        try:
            self._check_history(conversation, is_paused=is_paused)
        except AssertionError as e:
            self.problems.append(f"the conversation: {e!s:.500}")
        self.problems += [
            *self._find_lost_messages(conversation, is_paused=is_paused),
            *self._find_lost_answers(conversation, is_paused=is_paused),
        ]
        self.problems += [f"{token} had effects twice" for token, n in self.effects.items() if n > 1]
        names = [{*known.names} for known in self.known]
        for id in self.paid - self.allowed:
            if not any(id in others and others & self.allowed for others in names):
                self.problems.append(f"nobody has approved {id}")

    def _check_history(self, conversation: Conversation, *, is_paused: bool) -> None:
        if is_paused:
            wrong = find_unpaired(conversation[:-1])
            assert wrong == [], wrong
        else:
            check(conversation, everywhere=self.random.random() < 0.1)

    def _find_lost_messages(self, conversation: Conversation, *, is_paused: bool) -> list[str]:
        wrong: list[str] = []
        said = Counter(message.text for message in conversation if message.role == "user")
        for delivery in {id(delivery): delivery for delivery in self.messages}.values():
            count = said[delivery.message.text]
            is_there = delivery.state == "delivered" and delivery.id not in self.undone
            if is_there:
                index = delivery.index
                if index is None or index >= len(conversation) or conversation[index] != delivery.message:
                    wrong.append(f"{delivery} is not at {index}")
            if delivery.state == "queued" and not is_paused:
                wrong.append(f"{delivery} is queued for no run")
            if count != is_there:
                wrong.append(f"{delivery} is {count} times in the conversation")
        return wrong

    def _find_lost_answers(self, conversation: Conversation, *, is_paused: bool) -> list[str]:
        wrong: list[str] = []
        texts = [result.text for result in results_of(conversation)]
        if is_paused:  # the results of the open turn are not in the conversation yet
            run = self.agent._state.paused  # pyright: ignore[reportPrivateUsage]
            assert run is not None
            texts += [result.text for result in run.snapshot().results if result is not None]
        # Nothing fails by itself: it would be for something that somebody has said.
        wrong += [
            f"an agent failed: {text!r:.300}" for text in texts if re.search("The agent .* failed:", text)
        ]
        for given in self.given:
            delivery = given.delivery
            if delivery.state == "queued" and not is_paused:
                wrong.append(f"{given} is queued for no run")
            if delivery.state == "refused" and (not delivery.reason or "\n" in delivery.reason):
                wrong.append(f"{given} is refused without one sentence")
            for token in given.tokens:
                count = sum(token in text for text in texts)
                if count > (delivery.state == "delivered"):
                    wrong.append(f"{given} is the result of {count} calls")
                elif delivery.state == "delivered" and given.is_answer and count != 1 and not delivery.reason:
                    wrong.append(f"{given} is not a result")
        return wrong

    def count_deliveries(self) -> None:
        """For the report."""
        for delivery in {id(delivery): delivery for delivery in self.messages}.values():
            self.counts[f"messages {delivery.state}"] += 1
        for delivery in {id(given.delivery): given.delivery for given in self.given}.values():
            self.counts[f"answers {delivery.state}"] += 1


def _list_keys(call: ToolCall) -> list[str]:
    token = (call.arguments or {}).get("token")
    return [f"job-{token}"] if call.name == "train" else []


def void(value: object) -> None:
    """Nothing."""


def play_history(seed: int, senders: Senders) -> tuple[Counter[str], list[str]]:
    """Play one history; return what happened, and what was wrong."""
    storm = Storm(seed, senders)
    try:
        run(storm.play(storm.random.randint(2, 8)))
    except Exception as e:
        storm.problems.append(f"{type(e).__name__}: {e!s:.2000}")
    finally:
        senders.wait()
    storm.count_deliveries()
    return storm.counts, [f"history {seed}: {problem}" for problem in storm.problems]


def play_histories(seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Play some histories."""
    senders, total, problems = Senders(), Counter[str](), list[str]()
    try:
        for seed in seeds:
            counts, wrong = play_history(seed, senders)
            total += counts
            problems += wrong
    finally:
        senders.close()
    return total, problems
