"""Which calls may run: allowed, used too often, too fast, in circles, approved."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.tools.policy_kit import make_caller

from toolglot.errors import UsageError
from toolglot.tools.config import Rate, RetryConfig, ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import Hooks, Veto
from toolglot.tools.policy import ToolPolicy, allow_only_readers
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Text, ToolCall

_numbers = count(1)


@tool(effects="read", inline=True)
def look(at: Any = None, note: Any = None) -> str:
    """Looks at something."""
    return "seen"


@tool(effects="write", inline=True)
def write(path: str = "", content: str = "") -> str:
    """Writes a file."""
    return "written"


@tool(inline=True)
def silent(x: int = 0) -> str:
    """Says nothing of its effects."""
    return "done"


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{next(_numbers)}", name, arguments)


def says(answer: Any) -> Callable[[ApprovalRequest], Any]:
    """An approver with one answer."""

    def approve(question: ApprovalRequest) -> Any:
        return answer

    return approve


class Rig:
    """An executor with tools whose runs are counted, and an approver."""

    def __init__(
        self,
        *tools: Tool,
        approve: Callable[[ApprovalRequest], Any] | None = None,
        hooks: tuple[Hooks, ...] = (),
        **config: Any,
    ) -> None:
        self.now = 0.0
        self.asked: list[ApprovalRequest] = []
        self._approve = approve

        def ask(question: ApprovalRequest) -> Any:
            self.asked.append(question)
            return approve(question) if approve else "later"

        self.executor = ToolExecutor(
            ToolRegistry(tools or (look, write, silent)),
            ToolConfig(**config),
            approve=ask if approve else None,
            hooks=hooks,
            clock=lambda: self.now,
        )

    def run(self, *calls: ToolCall) -> list[ToolOutcome]:
        return asyncio.run(self.executor.run_all(calls))

    def kinds(self, *calls: ToolCall) -> list[str]:
        return [outcome.result.error_kind or "ok" for outcome in self.run(*calls)]


# ---- allowed


@pytest.mark.parametrize(("config", "kinds"), [
    ({}, ["ok", "ok"]),
    ({"enabled": False}, ["not_allowed", "not_allowed"]),
    ({"allow": frozenset({"look"})}, ["ok", "not_allowed"]),
    ({"allow": frozenset[str]()}, ["not_allowed", "not_allowed"]),
    ({"allow": frozenset({"look", "write", "unheard of"})}, ["ok", "ok"]),
])  # fmt: skip
def test_only_allowed_tools_run(config: dict[str, Any], kinds: list[str]) -> None:
    outcomes = Rig(**config).run(call("look"), call("write"))
    assert [outcome.result.error_kind or "ok" for outcome in outcomes] == kinds
    for outcome in outcomes:
        if outcome.result.is_error:
            assert not outcome.ran
            assert outcome.call.name in outcome.result.text
            assert "not allowed" in outcome.result.text


def test_a_tool_that_is_not_allowed_is_refused_as_that_whatever_its_arguments() -> None:
    """Otherwise the model mends its arguments, and is refused again."""
    assert Rig(allow=frozenset({"look"})).kinds(call("write", path=[1])) == ["not_allowed"]


# ---- uses


@pytest.mark.parametrize(
    ("allowed", "left"), [(None, {"look"}), (["look", "write"], {"look"}), (["write"], set[str]())]
)
def test_only_readers_are_allowed(allowed: list[str] | None, left: set[str]) -> None:
    """Not a reader that shares its name with a writer of another namespace, nor a tool that declares nothing."""
    rows = {
        "look": ["read"],
        "a.item": ["read"],
        "b.item": ["write"],
        "write": ["read", "write"],
        "unknown": None,
    }
    tools: list[Tool] = []
    for name, effects in rows.items():
        namespace, _, short = name.rpartition(".")
        options: dict[str, Any] = {"effects": effects} if effects else {}
        tools.append(tool(lambda: "", name=short, namespace=namespace, **options))
    assert allow_only_readers(ToolConfig(allow=allowed), tools).allow == left


def test_uses_are_counted_over_the_conversation() -> None:
    rig = Rig(look.replace(max_uses=2), write)
    assert rig.kinds(call("look", at=1)) == ["ok"]
    assert rig.kinds(call("look", at=2), call("write")) == ["ok", "ok"]
    (outcome,) = rig.run(call("look", at=3))
    assert (outcome.result.error_kind, outcome.ran) == ("limit", False)
    assert "limit of 2 uses" in outcome.result.text
    assert rig.kinds(call("write")) == ["ok"], "other tools are not concerned"


@pytest.mark.parametrize(
    ("own_limit", "general", "expected"), [(None, 3, 3), (2, 5, 2), (5, 2, 5), (0, 5, 0), (None, 0, 0)]
)
def test_a_tools_own_number_overrides_the_general_one(
    own_limit: int | None, general: int, expected: int
) -> None:
    rig = Rig(look.replace(max_uses=own_limit), max_uses={"look": general})
    assert rig.kinds(*(call("look", at=n) for n in range(8))).count("ok") == expected


class Slow(Hooks):
    """Waits before each call."""

    async def before_tool(self, call: ToolCall) -> None:
        await asyncio.sleep(0)


async def look_later(at: Any) -> str:
    await asyncio.sleep(0)
    return "seen"


@pytest.mark.parametrize("hooks", [(), (Slow(),)], ids=["", "hooked"])
@pytest.mark.parametrize(
    "limited",
    [look, look.replace(inline=False), tool(name="look")(look_later)],
    ids=["inline", "thread", "async"],
)
def test_eight_calls_of_one_turn_share_the_limit(limited: Tool, hooks: tuple[Hooks, ...]) -> None:
    rig = Rig(limited.replace(max_uses=3), hooks=hooks)
    outcomes = rig.run(*(call("look", at=n) for n in range(8)))
    assert sum(outcome.ran for outcome in outcomes) == 3
    assert [outcome.result.error_kind for outcome in outcomes].count("limit") == 5


@pytest.mark.parametrize("limit", ["max_uses", "rate"])
def test_calls_that_are_approved_at_the_same_time_share_the_limit(limit: str) -> None:
    """A limit holds when the call begins, not when somebody is asked about it."""

    async def yes(question: ApprovalRequest) -> str:
        await asyncio.sleep(0)
        return "yes"

    limited = write.replace(max_uses=2) if limit == "max_uses" else write.replace(rate=Rate(2, 60))
    rig = Rig(limited, approve=yes, ask=frozenset({"write"}))
    assert rig.kinds(*(call("write", path=str(n)) for n in range(6))).count("ok") == 2


def test_calls_that_are_refused_use_nothing_up() -> None:
    answers = ["no", "no", "yes", "yes"]
    rig = Rig(write.replace(max_uses=2), approve=lambda _: answers.pop(0), ask=frozenset({"write"}))
    assert [rig.kinds(call("write", path=str(n)))[0] for n in range(5)] == [
        "rejected",
        "rejected",
        "ok",
        "ok",
        "limit",
    ]


def test_calls_that_are_not_valid_use_nothing_up() -> None:
    rig = Rig(write.replace(max_uses=1))
    assert rig.kinds(call("write", path=[1]), call("write", path="a")) == ["validation", "ok"]


# ---- rates


def test_a_rate_is_a_sliding_window() -> None:
    rig = Rig(look.replace(rate=Rate(2, 10)))
    kinds: list[str] = []
    for now in (0, 4, 9.9, 10.0, 13.9, 14.0):
        rig.now = now
        kinds += rig.kinds(call("look", at=now))
    assert kinds == ["ok", "ok", "limit", "ok", "limit", "ok"]


def test_a_rate_of_the_configuration_counts_unless_the_tool_has_its_own() -> None:
    rig = Rig(look, write.replace(rate=Rate(2, 60)), rates={"look": Rate(1, 60), "write": Rate(1, 60)})
    assert rig.kinds(call("look"), call("look", at=1)) == ["ok", "limit"]
    assert rig.kinds(*(call("write", path=str(n)) for n in range(3))) == ["ok", "ok", "limit"]


def test_a_rate_tells_when_to_come_again() -> None:
    rig = Rig(look.replace(rate=Rate(1, 60)))
    rig.run(call("look"))
    rig.now = 15.0
    (outcome,) = rig.run(call("look", at=1))
    assert not outcome.ran
    assert "1 calls in 60 s" in outcome.result.text
    assert "try again in 45.0 s" in outcome.result.text


def test_a_rate_is_of_one_tool() -> None:
    rig = Rig(look.replace(rate=Rate(1, 60)), write)
    assert rig.kinds(call("look"), call("write"), call("write", path="b"), call("look", at=1)) == [
        "ok",
        "ok",
        "ok",
        "limit",
    ]


def test_a_rate_of_none_never_lets_a_call_through() -> None:
    rig = Rig(look.replace(rate=Rate(0, 60)))
    assert rig.kinds(call("look")) == ["limit"]


def test_eight_calls_of_one_turn_share_the_rate() -> None:
    rig = Rig(look.replace(rate=Rate(3, 60)))
    assert rig.kinds(*(call("look", at=n) for n in range(8))).count("ok") == 3


# ---- approvals


async def _later_yes(question: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


async def _later_no(question: ApprovalRequest) -> str:
    await asyncio.sleep(0)
    return "no"


@pytest.mark.parametrize(("approve", "kind"), [
    (says("yes"), "ok"),
    (says(True), "ok"),
    (says("always"), "ok"),
    (_later_yes, "ok"),
    (says("no"), "rejected"),
    (says(False), "rejected"),
    (says(None), "rejected"),
    (_later_no, "rejected"),
    (says("later"), "rejected"),
    (None, "rejected"),
    *((says(answer), "rejected") for answer in ("deny", "NO", "No", "n", "never", "", "yes?", 0, "reject")),
])  # fmt: skip
def test_an_answer_decides(approve: Callable[[ApprovalRequest], Any] | None, kind: str) -> None:
    rig = Rig(approve=approve, ask=frozenset({"write"}))
    (outcome,) = rig.run(call("write", path="a"))
    assert (outcome.result.error_kind or "ok", outcome.ran) == (kind, kind == "ok")


def _in_home(arguments: dict[str, Any]) -> str:
    return f"/home/{arguments['path']}"


def test_the_question_says_what_would_be_done_to_what() -> None:
    rig = Rig(write.replace(target=_in_home), approve=says("yes"), ask=frozenset({"write"}))
    tool_call = call("write", path="a.txt")
    rig.run(tool_call)
    [question] = rig.asked
    assert (question.call, question.id, question.tool) == (tool_call, tool_call.id, "write")
    assert (question.effects, question.target) == ({"write"}, "/home/a.txt")
    assert (question.arguments, question.reason) == (
        {"path": "a.txt"},
        "it can change files, and no rule allows it",
    )


def test_always_means_no_more_questions_about_this_tool() -> None:
    other = write.replace(name="other")
    rig = Rig(
        write,
        other,
        approve=lambda question: "always" if question.tool == "write" else "no",
        ask=frozenset({"write"}),
    )
    kinds = rig.kinds(call("write", path="a")) + rig.kinds(
        call("write", path="b"), call("other"), call("other", path="c")
    )
    assert kinds == ["ok", "ok", "rejected", "rejected"]
    assert [question.tool for question in rig.asked] == ["write", "other", "other"]


def test_always_for_a_tool_is_not_for_its_namesake() -> None:
    mine, theirs = write.replace(namespace="mine"), write.replace(namespace="theirs")
    rig = Rig(
        mine,
        theirs,
        approve=lambda q: "always" if q.call.namespace == "mine" else "no",
        ask=frozenset({"write"}),
    )
    first = ToolCall("a", "write", {"path": "x"}, namespace="mine")
    second = ToolCall("b", "write", {"path": "y"}, namespace="theirs")
    assert rig.kinds(first) + rig.kinds(second) == ["ok", "rejected"]


def test_yes_is_for_this_once() -> None:
    rig = Rig(approve=says("yes"), ask=frozenset({"write"}))
    rig.run(call("write", path="a"), call("write", path="b"))
    assert len(rig.asked) == 2


@pytest.mark.parametrize(("ask", "asked"), [
    (frozenset[str](), []),
    (frozenset({"read"}), ["look", "silent"]),
    (frozenset({"write"}), ["write", "silent"]),
    (frozenset({"execute"}), ["silent"]),
    (frozenset({"network"}), ["silent"]),
    (frozenset({"read", "write"}), ["look", "write", "silent"]),
])  # fmt: skip
def test_effects_decide_who_is_asked_about_and_unknown_ones_may_be_any(
    ask: frozenset[Any], asked: list[str]
) -> None:
    rig = Rig(approve=says("yes"), ask=ask)
    rig.run(call("look"), call("write"), call("silent"))
    assert [question.tool for question in rig.asked] == asked


@pytest.mark.parametrize(
    ("approval", "ask", "asks"), [(True, [], 1), (False, ["write"], 0), (None, ["write"], 1), (None, [], 0)]
)
def test_a_tools_own_word_overrides_the_policy(approval: bool | None, ask: list[Any], asks: int) -> None:
    rig = Rig(write.replace(approval=approval), approve=says("yes"), ask=frozenset(ask))
    assert rig.kinds(call("write")) == ["ok"]
    assert len(rig.asked) == asks


def test_nobody_is_asked_about_a_call_that_may_not_run_anyway() -> None:
    rig = Rig(
        write.replace(max_uses=0),
        look,
        approve=says("yes"),
        ask=frozenset({"write", "read"}),
        allow=frozenset({"write"}),
    )
    assert rig.kinds(call("write"), call("look"), call("write", path=[1]), call("unknown")) == [
        "limit",
        "not_allowed",
        "validation",
        "not_found",
    ]
    assert rig.asked == []


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_an_error_of_an_approver_is_raised_and_nothing_runs(flavour: str) -> None:
    def broken(question: ApprovalRequest) -> Any:
        raise LookupError("nobody at the rig")

    async def broken_async(question: ApprovalRequest) -> Any:
        raise LookupError("nobody at the rig")

    rig = Rig(look.replace(approval=True), approve=broken if flavour == "sync" else broken_async)
    with pytest.raises(LookupError, match="nobody at the rig"):
        rig.run(call("look"))
    assert rig.executor.host.policy.uses == {}


async def test_cancelled_while_somebody_is_asked_nothing_runs() -> None:
    asked = asyncio.Event()

    async def never(question: ApprovalRequest) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    runner = ToolExecutor(ToolRegistry([look.replace(approval=True)]), approve=never)
    task = asyncio.create_task(runner.run_all([call("look"), call("look")]))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert runner.host.policy.uses == {}


# ---- circles


def kinds_of_calls(rig: Rig, *calls: ToolCall) -> list[str]:
    """The outcomes of calls, one after the other."""
    return [kind for call in calls for kind in rig.kinds(call)]


def has_reminder(outcome: ToolOutcome) -> bool:
    return "\n\n[Reminder: this call was made " in outcome.result.text


def test_identical_calls_are_answered_with_a_reminder_and_then_broken_off() -> None:
    rig = Rig()
    outcomes = [rig.run(call("look", at="x"))[0] for _ in range(7)]
    assert [has_reminder(outcome) for outcome in outcomes] == [False] * 3 + [True] * 3 + [False]
    assert [outcome.ran for outcome in outcomes] == [True] * 6 + [False]
    assert outcomes[3].result.text.startswith(outcomes[0].result.text)
    assert (
        "[Reminder: this call was made 4 times with the same arguments and the same result before."
        in outcomes[4].result.text
    )
    (outcome,) = rig.run(call("look", at="x"))
    assert not outcome.ran
    assert "6 times" in outcome.result.text
    assert "the same" in outcome.result.text
    assert kinds_of_calls(rig, call("look", at="y")) == ["ok"], "something else may be done"


@pytest.mark.parametrize("repeats", [1, 2, 5, 30])
def test_how_many_is_configured(repeats: int) -> None:
    rig = Rig(max_repeats=repeats)
    assert (
        kinds_of_calls(rig, *[call("look", at="x")] * (2 * repeats + 2))
        == ["ok"] * 2 * repeats + ["limit"] * 2
    )


def test_none_means_never() -> None:
    rig = Rig(max_repeats=0)
    assert kinds_of_calls(rig, *[call("look", at="x")] * 60) == ["ok"] * 60
    assert not rig.executor.host.policy.is_exhausted


@pytest.mark.parametrize(
    "variants",
    [
        pytest.param([{"at": "Paris"}, {"at": "paris"}, {"at": "PARIS"}, {"at": "pARIS"}], id="case"),
        pytest.param([{"at": "a b"}, {"at": " a  b"}, {"at": "a\tb\n"}, {"at": "a b "}], id="white space"),
        pytest.param(
            [{"at": 1, "note": 2}, {"note": 2, "at": 1}, {"at": 1, "note": 2}, {"note": 2, "at": 1}],
            id="order of fields",
        ),
        pytest.param(
            [{"at": 1}, {"at": 1, "note": None}, {"at": 1}, {"note": None, "at": 1}], id="null fields"
        ),
        pytest.param(
            [
                {"at": {"a": ["X "], "b": None}},
                {"at": {"a": ["x"]}},
                {"at": {"a": [" x"]}},
                {"at": {"a": ["x"]}},
            ],
            id="inside",
        ),
    ],
)
def test_calls_that_are_all_but_identical_are_one(variants: list[dict[str, Any]]) -> None:
    rig = Rig()
    outcomes = [rig.run(call("look", **arguments))[0] for arguments in variants]
    assert [has_reminder(outcome) for outcome in outcomes] == [False, False, False, True]


@pytest.mark.parametrize(
    "values", [[1, 2, 3, 4], ["a", "b", "c", "d"], [[1, 2], [2, 1], [1], [2]], ["1", 1, [1], True]]
)
def test_calls_that_differ_are_not_one(values: list[Any]) -> None:
    rig = Rig()
    assert not any(has_reminder(outcome) for value in values for outcome in rig.run(call("look", at=value)))


def test_two_tools_with_the_same_arguments_are_not_one() -> None:
    rig = Rig(look, look.replace(name="look_again"))
    assert kinds_of_calls(rig, *[call("look", at=1), call("look_again", at=1)] * 3) == ["ok"] * 6


@pytest.mark.parametrize(("circle", "expected"), [
    ([call("look"), call("look", at="b")], ["ok"] * 12 + ["limit"] * 2),
    *(([call("look", at=n) for n in range(length)], ["ok"] * length * 6 + ["limit"] * length) for length in (3, 5, 8)),
    ([call("write", path="a", content="b")], ["ok"] * 6 + ["limit"]),
])  # fmt: skip
def test_repetitions_of_any_length_are_found(circle: list[ToolCall], expected: list[str]) -> None:
    assert kinds_of_calls(Rig(), *circle * 7) == expected


def test_calls_that_fail_loop_too() -> None:
    def fail() -> None:
        raise ValueError("no")

    rig = Rig(tool(inline=True)(fail))
    assert kinds_of_calls(rig, *[call("fail")] * 3) == ["execution"] * 3
    assert has_reminder(rig.run(call("fail"))[0])
    assert kinds_of_calls(rig, *[call("fail")] * 3) == ["execution"] * 2 + ["limit"]


@pytest.mark.parametrize("repeats", [3, 10])
def test_waiting_for_something_is_allowed_for_longer_but_not_for_ever(repeats: int) -> None:
    ticks = count()

    def status(job: int) -> str:
        return f"{next(ticks)} % done"

    rig = Rig(tool(inline=True)(status), max_repeats=repeats)
    assert (
        kinds_of_calls(rig, *[call("status", job=1)] * repeats * 5)
        == ["ok"] * repeats * 4 + ["limit"] * repeats
    )


def test_a_check_between_changes_is_not_a_repetition() -> None:
    """Change, check, change, check: the check fails in the same way until the last change is right."""

    def check() -> str:
        return "1 test failed"

    rig = Rig(write, tool(inline=True, effects="execute")(check))
    calls = [
        step for n in range(6) for step in (call("write", path="a", content=f"attempt {n}"), call("check"))
    ]
    assert kinds_of_calls(rig, *calls) == ["ok"] * 12


@pytest.mark.parametrize("reason", ["validation", "not_found", "not_allowed", "veto", "user"])
def test_calls_that_are_refused_loop_too(reason: str) -> None:
    """A model that makes the same bad call again and again does not get better by itself."""

    class No(Hooks):
        def before_tool(self, call: ToolCall) -> Veto | None:
            return Veto("never") if reason == "veto" else None

    config: dict[str, Any] = {"allow": frozenset({"look"})} if reason == "not_allowed" else {}
    if reason == "user":
        config = {"ask": frozenset({"write"}), "approve": says("no")}
    rig = Rig(hooks=(No(),) if reason == "veto" else (), **config)
    bad = {"validation": call("write", path=[1]), "not_found": call("wriet", path="a")}.get(
        reason, call("write", path="a")
    )
    outcomes = [rig.run(bad)[0] for _ in range(12)]
    assert not any(outcome.ran for outcome in outcomes)
    assert [has_reminder(outcome) for outcome in outcomes] == [False] * 3 + [True] * 3 + [False] * 6
    assert rig.executor.host.policy.is_exhausted


def test_a_model_that_does_not_listen_is_exhausting() -> None:
    rig = Rig()
    kinds_of_calls(rig, *[call("look", at="x")] * 6)
    exhausted: list[bool] = []
    for _ in range(4):
        kinds_of_calls(rig, call("look", at="x"))
        exhausted.append(rig.executor.host.policy.is_exhausted)
    assert exhausted == [False, False, True, True], "it is told first, and refused three times"


def test_a_model_that_listens_is_not() -> None:
    """Told twice, much later told once more: it did not go on."""
    rig = Rig()
    kinds_of_calls(rig, *[call("look", at="x")] * 8)
    kinds_of_calls(rig, *(call("look", at=n) for n in range(50)))
    kinds_of_calls(rig, *[call("look", at="z")] * 7)
    assert not rig.executor.host.policy.is_exhausted


def test_calls_of_one_turn_are_reported_once() -> None:
    """The model hears of it after the turn, however many calls that had."""
    rig = Rig()
    kinds_of_calls(rig, *[call("look", at="x")] * 6)
    assert rig.kinds(*[call("look", at="x")] * 4) == ["limit"] * 4
    assert not rig.executor.host.policy.is_exhausted


def test_repetitions_of_one_conversation_are_not_those_of_another() -> None:
    first, second = Rig(), Rig()
    kinds_of_calls(first, *[call("look", at="x")] * 3)
    assert kinds_of_calls(second, call("look", at="x")) == ["ok"]


def test_the_guard_does_not_grow() -> None:
    guard, caller = ToolPolicy(), make_caller(ToolConfig())
    limited = look.replace(rate=Rate(5, 1.0))
    for n in range(2000):
        tool_call = call("look", at=n)
        guard.check_limits(limited, "look", caller, n * 0.5)
        guard.record_start(limited, caller, n * 0.5)
        guard.record_result(tool_call, limited, (Text(str(n)),), 3)
    sizes = [len(value) for name in ToolPolicy.__slots__ if hasattr(value := getattr(guard, name), "__len__")]
    assert max(sizes) < 100
    assert len(guard._start_times["", "look"]) <= 5  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("field", "value", "message"), [
    ("tool_choice", 3, "tool_choice of ToolConfig: expected `str | ToolChoice | None`, got `int`"),
    ("ask", ["destroy"], "invalid enum value 'destroy'; known: read, write, execute, network"),
    ("on_error", "ignore", "on_error of ToolConfig: invalid enum value 'ignore'; known: continue, abort, "
                           "retry"),
    ("timeout", "3", "timeout of ToolConfig: expected `float | None`, got `str`"),
    ("max_parallel", 0, "max_parallel of ToolConfig: expected `int` >= 1"),
    ("rates", {"look": 3}, "rates of ToolConfig: expected `Rate`, got `int`"),
    ("retry", {"factor": 0.5}, "retry of ToolConfig: expected `float` >= 1.0"),
])  # fmt: skip
def test_a_wrong_value_is_refused_when_the_configuration_is_made(
    field: str, value: Any, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ToolConfig(**{field: value})
    assert message in str(caught.value)


def test_names_may_come_in_any_collection() -> None:
    config = ToolConfig(allow=["look"], ask={"write"})
    assert (config.allow, config.ask) == (frozenset({"look"}), frozenset({"write"}))
    fields: Any = {"rates": {"look": {"calls": 1, "seconds": 2}}, "retry": {"base": 1}}
    assert (ToolConfig(**fields).rates, ToolConfig(**fields).retry) == (
        {"look": Rate(1, 2)},
        RetryConfig(base=1),
    )
