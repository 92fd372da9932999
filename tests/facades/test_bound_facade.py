"""A facade in use: calls are understood, results are worded, other tools are left alone, and nothing makes it
fall over.
"""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, find_facade, list_facades
from toolglot.facades.parameters import string
from toolglot.facades.table import make_view
from toolglot.facades.view import Facade, RenderContext
from toolglot.values.losses import Loss
from toolglot.values.messages import BaseCall, Media, Message, Text, ToolCall, ToolResult, assistant, user

from .meaning import Meaning, meaning_of, render
from .sample_facades import ACME, BASES, BASH, BRAVO, READ

Arguments = dict[str, Any]
acme, bravo = BoundFacade(ACME, "acme-1", BASES), BoundFacade(BRAVO, "bravo-1", BASES)


def call(
    name: str, arguments: Arguments | None = None, *, raw: str | None = None, namespace: str = ""
) -> ToolCall:
    return ToolCall("c1", name, arguments, raw, namespace=namespace)


def interpret(facade: BoundFacade, name: str, **arguments: Any) -> ToolCall:
    """A call with what it means, as a conversation keeps it."""
    return facade.interpret(call(name, arguments)).call


def base_call_of(facade: BoundFacade, tool_call: ToolCall) -> tuple[str, Arguments]:
    meaning = meaning_of(facade, tool_call)
    assert meaning is not None
    return meaning.tool, meaning.arguments


# ---- what a model sees


class TestWhatAModelSees:
    def test_only_views_of_registered_base_tools_are_visible(self) -> None:
        assert [definition.name for definition in acme.definitions] == ["Read", "Write", "Edit", "Bash"]
        assert [definition.name for definition in BoundFacade(ACME, "m", ["read", "shell"]).definitions] == [
            "Read",
            "Bash",
        ]
        assert BoundFacade(ACME, "m", []).definitions == ()

    def test_a_view_with_commands_while_one_of_its_tools_is_there(self) -> None:
        assert [definition.name for definition in BoundFacade(BRAVO, "m", ["write"]).definitions] == [
            "editor"
        ]

    @pytest.mark.parametrize("facade_id", [facade.id for facade in list_facades("anthropic")])
    @pytest.mark.parametrize("name", ["web_search", "LS", "ls"])
    def test_a_form_that_is_not_shown_is_understood(self, facade_id: str, name: str) -> None:
        everything = BoundFacade(find_facade(facade_id), "claude-opus-5", BASE_TOOLS)
        without_search = BoundFacade(find_facade(facade_id), "claude-opus-5", BASE_TOOLS - {"web_search"})
        is_shown = name == "web_search" and not facade_id.startswith("claude-code")
        assert (name in everything.names) == is_shown
        assert name not in without_search.names
        arguments = (
            {"action": {"type": "open_page", "url": "https://a.test/"}}
            if name == "web_search"
            else {"path": "a"}
        )
        base = "web_open" if name == "web_search" else "list_dir"
        for bound in (everything, without_search):  # only the action `search` needs a search service
            assert base_call_of(bound, call(name, arguments))[0] == base

    def test_a_reserved_name_stays_with_its_tool(self) -> None:
        first, second = (
            BoundFacade(facade, "m", BASES, reserved_names=["Bash", "View", "run"])
            for facade in (ACME, BRAVO)
        )
        assert [definition.name for definition in first.definitions] == ["Read", "Write", "Edit"]
        assert meaning_of(first, call("Bash", {"command": "ls"})) is None
        assert meaning_of(first, call("View", {"file_path": "a"})) is None  # an alias of Read, elsewhere
        assert meaning_of(second, call("run", {"argv": ["ls"]})) is None
        assert "term.run" in [view.qualified_name for view in second.views]

    @pytest.mark.parametrize(
        ("model", "seen"),
        [
            ("acme-1", True),
            ("router/acme-1", True),
            ("acme-2", False),
            ("us.anthropic.claude-1", False),
            ("ACME-1", True),
        ],
    )
    def test_some_views_are_for_some_models(self, model: str, seen: bool) -> None:
        facade = replace(ACME, views=(replace(READ, models="^acme-1"),))
        assert bool(BoundFacade(facade, model, BASES).views) is seen

    def test_some_base_tools_are_shown_as_they_are(self) -> None:
        assert "ast_search" in acme.visible_base_tools
        assert "read" not in acme.visible_base_tools
        assert meaning_of(acme, call("ast_search", {"pattern": "x"})) is None

    def test_it_has_names_for_the_tools_that_it_shows(self) -> None:
        assert acme.names == ("Read", "Write", "Edit", "Bash", "ast_search")
        assert bravo.names == ("editor", "apply_patch", "term.run", "ast_search")
        names = (acme.native_names("shell"), bravo.native_names("write"), acme.native_names("patch"))
        assert names == (("Bash",), ("editor",), ("patch",))

    def test_a_hidden_view_is_interpreted_and_never_shown(self) -> None:
        older = replace(ACME.views[0], name="View", aliases=("Look",), hidden=True)
        facade = BoundFacade(replace(ACME, views=(*ACME.views, older)), "m", BASES)
        assert "View" not in (*facade.names, *(definition.name for definition in facade.definitions))
        for name in ("View", "Look"):
            assert base_call_of(facade, call(name, {"file_path": "a"}))[0] == "read"
        shown = facade.render_message(
            Message(
                "assistant", (ToolCall("c", "x", {}, base_call=BaseCall("read", {"path": "a"}, "other")),)
            ),
            is_own=False,
        )
        assert [call.name for call in shown.calls] == ["Read"]

    def test_a_visible_name_wins_over_a_hidden_one(self) -> None:
        older = replace(ACME.views[0], name="Edit", aliases=("ast_search", "Write"), hidden=True)
        facade = BoundFacade(replace(ACME, views=(older, *ACME.views)), "m", BASES)
        assert (
            base_call_of(facade, call("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}))[0]
            == "edit"
        )
        assert base_call_of(facade, call("Write", {"file_path": "a", "content": "x"}))[0] == "write"
        assert meaning_of(facade, call("ast_search", {"pattern": "x"})) is None

    def test_its_note_names_only_tools_that_are_there(self) -> None:
        files = "Read files with Read. Change them with Edit, and read them before."
        tests = "Run tests with Bash or make."
        facade = replace(ACME, note=f"{files} {tests} Be brief.")
        assert BoundFacade(facade, "m", BASES).note == facade.note
        assert BoundFacade(facade, "m", ["read", "edit"]).note == f"{files} Be brief."
        assert BoundFacade(facade, "m", ["read"], reserved_names=["Read"]).note == "Be brief."

    def test_a_view_hides_the_base_tool_of_the_same_name(self) -> None:
        facade = replace(ACME, views=(replace(READ, name="read"),))
        assert "read" not in BoundFacade(facade, "m", BASES).visible_base_tools

    def test_a_visible_base_tool_wins_over_an_alias(self) -> None:
        facade = replace(ACME, views=(replace(READ, aliases=("ast_search",)),))
        assert meaning_of(BoundFacade(facade, "m", BASES), call("ast_search", {"pattern": "x"})) is None


# ---- calls


class TestCalls:
    @pytest.mark.parametrize(("facade", "tool_call", "tool", "arguments"), [
        (acme, call("Read", {"file_path": "a", "limit": 2}), "read", {"path": "a", "end_line": 2}),
        (acme, call("Cat", {"file_path": "a"}), "read", {"path": "a"}),
        (bravo, call("apply_patch", raw="*** Begin"), "patch", {"text": "*** Begin"}),
        (bravo, call("apply_patch", {"input": "*** Begin"}), "patch", {"text": "*** Begin"}),
        (bravo, call("apply_patch"), "patch", {"text": ""}),
        (bravo, call("run", {"argv": ["ls"]}, namespace="term"), "shell", {"command": "ls"}),
        (bravo, call("run", {"argv": ["ls"]}), "shell", {"command": "ls"}),
        (acme, call("Bash", raw="{'command': 'ls',}"), "shell", {"command": "ls"}),
    ])  # fmt: skip
    def test_a_call_is_interpreted(
        self, facade: BoundFacade, tool_call: ToolCall, tool: str, arguments: Arguments
    ) -> None:
        assert base_call_of(facade, tool_call) == (tool, arguments)
        assert facade.interpret(tool_call).call.base_call == BaseCall(tool, arguments, facade.facade.id)

    @pytest.mark.parametrize(("arguments", "base", "subject"), [
        ({"command": "ls", "timeout": "2500"}, {"command": "ls", "timeout": 2.5}, "arguments"),
        ({"Command": "ls"}, {"command": "ls"}, "arguments"),
        ({"command": "ls", "colour": True}, {"command": "ls"}, "parameter 'colour'"),
    ])  # fmt: skip
    def test_clear_mistakes_are_repaired_and_reported(
        self, arguments: Arguments, base: Arguments, subject: str
    ) -> None:
        meaning = meaning_of(acme, call("Bash", arguments))
        assert meaning is not None
        assert (meaning.tool, meaning.arguments) == ("shell", base)
        assert [(repair.subject, repair.where) for repair in meaning.repairs] == [(subject, "Bash")]

    def test_an_ignored_parameter_is_accepted_silently(self) -> None:
        assert meaning_of(acme, call("Bash", {"command": "ls", "description": "Lists."})) == Meaning(
            "shell", {"command": "ls"}
        )

    @pytest.mark.parametrize(("tool_call", "words"), [
        (call("Read", {}), ("Read", "file_path")),
        (call("Read", {"file_path": "a", "limit": 0}), ("Read", "limit")),
        (call("Edit", {"file_path": ["a"], "old_string": "x", "new_string": "y"}), ("Edit", "file_path")),
        (call("Bash", raw="not JSON at all"), ("Bash", "not valid JSON")),
        (call("Bash", raw="[1]"), ("Bash", "object")),
    ])  # fmt: skip
    def test_mistakes_are_explained_in_native_terms(
        self, tool_call: ToolCall, words: tuple[str, ...]
    ) -> None:
        with pytest.raises(ToolError) as error:
            meaning_of(acme, tool_call)
        assert error.value.kind == "validation"
        assert error.value.tool == tool_call.name
        assert all(word in str(error.value) for word in words)
        assert not any(base in str(error.value) for base in ("start_line", "'path'", "shell"))
        assert acme.interpret(tool_call).call is tool_call

    def test_an_error_of_a_tool_with_commands_names_no_base_tool(self) -> None:
        tool_call = call("editor", {"command": "undo", "path": "a"})
        with pytest.raises(ToolError, match="command") as error:
            meaning_of(bravo, tool_call)
        assert error.value.tool == bravo.interpret(tool_call).base.name == "editor"

    def test_other_tools_are_not_touched(self) -> None:
        tool_call = call("get_weather", {"city": "Paris"})
        assert meaning_of(acme, tool_call) is None
        assert acme.interpret(tool_call).call is tool_call

    def test_a_base_tool_under_its_own_name_is_its_own_base_call(self) -> None:
        tool_call = interpret(acme, "ast_search", pattern="x")
        assert tool_call.base_call == BaseCall("ast_search", {"pattern": "x"}, "acme")
        assert meaning_of(acme, tool_call) is None
        assert acme.interpret(call("ast_search", raw="{")).call.base_call is None
        assert (
            interpret(BoundFacade(ACME, "m", BASES, reserved_names=["ast_search"]), "ast_search").base_call
            is None
        )

    def test_a_call_of_another_facade_keeps_its_base_call(self) -> None:
        tool_call = interpret(acme, "Bash", command="ls", timeout=1000)
        assert base_call_of(bravo, tool_call) == ("shell", {"command": "ls", "timeout": 1.0})

    def test_a_tables_function_may_refuse_a_call_itself(self) -> None:
        def refuse(native: Arguments) -> Arguments:
            raise ToolError(f"X: a must not be {native['a']!r}", kind="validation")

        picky = make_view("X", "", "shell", {"a": string()}, to_base=refuse)
        with pytest.raises(ToolError, match="X: a must not be 'b'") as error:
            meaning_of(
                BoundFacade(Facade(id="f", title="", views=(picky,)), "m", BASES), call("X", {"a": "b"})
            )
        assert error.value.tool == "X"

    def test_a_failing_table_function_is_an_error_for_the_model(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = make_view("X", "", "shell", {}, to_base=lambda native: {"command": native["gone"]})
        facade = BoundFacade(Facade(id="f", title="", views=(broken,)), "m", BASES)
        with caplog.at_level(logging.WARNING), pytest.raises(ToolError, match="X did not run") as error:
            meaning_of(facade, call("X", {}))
        assert (error.value.kind, error.value.tool) == ("validation", "X")
        assert "KeyError" in caplog.text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["file_path", "offset", "limit", "command", "timeout", "argv", "input", "path", "to", "text", "x"]
)


@given(
    facade=st.sampled_from([acme, bravo]),
    name=st.sampled_from(["Read", "Write", "Edit", "Bash", "editor", "apply_patch", "run", "nothing"]),
    arguments=st.none() | st.dictionaries(NAMES, JSON, max_size=4),
    raw=st.none() | st.text(max_size=10),
)
def test_any_call_is_interpreted_or_explained(
    facade: BoundFacade, name: str, arguments: Arguments | None, raw: str | None
) -> None:
    tool_call = call(name, arguments, raw=raw)
    result = ToolResult("c1", (Text("fine"),))
    try:
        meaning = meaning_of(facade, tool_call)
    except ToolError as e:
        meaning, result = None, replace(result, content=(Text(str(e)),), is_error=True, error_kind=e.kind)
    worded = render(facade, tool_call, meaning.arguments if meaning else {}, result)
    assert worded.name == name
    assert worded.text
    again = facade.render_message(Message("assistant", (facade.interpret(tool_call).call,)), is_own=False)
    assert len(again.calls) == 1


# ---- results


def result(words: str = "one\ntwo", data: Any = None, **options: Any) -> ToolResult:
    return ToolResult("c1", (Text(words),), "base", data, **options)


GONE = result("gone", is_error=True, error_kind="not_found")


class TestResults:
    @pytest.mark.parametrize(("facade", "tool_call", "outcome", "text"), [
        (acme, call("Read", {"file_path": "a"}), result(data={"lines": ["one", "two"], "first": 1}), "1\tone\n2\ttwo"),
        # it has no renderer
        (acme, call("Write", {"file_path": "a", "content": ""}), result("wrote a"), "wrote a"),
        (acme, call("Read", {"file_path": "a"}), GONE, "<error kind=not_found>gone</error>"),  # of the facade
        (acme, call("Bash", {"command": "ls"}), GONE, "Exit: gone"),  # of the case
        (acme, call("get_weather", {}), GONE, "gone"),
        (acme, call("Read", {"file_path": "a"}), result("x", is_error=True), "<error kind=execution>x</error>"),
        (bravo, call("editor", {"command": "undo"}), GONE, "gone"),  # there is no such command
        (bravo, interpret(acme, "Bash", command="ls"), result(), "one\ntwo"),  # a call of another facade
    ])  # fmt: skip
    def test_a_result_is_rendered_as_in_the_harness(
        self, facade: BoundFacade, tool_call: ToolCall, outcome: ToolResult, text: str
    ) -> None:
        rendered = render(facade, tool_call, {"path": "a"}, outcome)
        assert (rendered.text, rendered.name) == (text, tool_call.name)
        assert (rendered.is_error, rendered.error_kind) == (outcome.is_error, outcome.error_kind)

    def test_renderers_get_repaired_arguments(self) -> None:
        seen: list[RenderContext] = []

        def heard(context: RenderContext) -> str:
            seen.append(context)
            return "fine"

        bash = replace(BASH, cases={"": replace(BASH.cases[""], result=heard)})
        facade = BoundFacade(replace(ACME, views=(bash,)), "m", BASES)
        tool_call = call("Bash", {"command": "ls", "timeout": "2000", "description": "Lists."})
        render(facade, tool_call, {"command": "ls", "timeout": 2.0}, result())
        assert seen[0].native == {"command": "ls", "timeout": 2000, "description": "Lists."}
        assert seen[0].base == {"command": "ls", "timeout": 2.0}

    def test_a_renderer_gets_the_details_of_a_failure(self) -> None:
        def near(context: RenderContext) -> str:
            return f"near: {context.details['near']}"

        facade = BoundFacade(replace(ACME, failure=near), "m", BASES)
        tool_call = call("Read", {"file_path": "a"})
        assert render(facade, tool_call, {}, result(is_error=True), {"near": ["b"]}).text == "near: ['b']"

    def test_media_stay_beside_the_text(self) -> None:
        picture = Media("image", "image/png", "aGk=")
        result = render(
            acme,
            call("Bash", {"command": "ls"}),
            {},
            ToolResult("c1", (Text("a"), picture, Text("b")), data=None),
        )
        assert result.content == (Text("ab\n[ls]"), picture)

    def test_an_invalid_call_may_lack_anything(self, caplog: pytest.LogCaptureFixture) -> None:
        def command(context: RenderContext) -> str:
            return context.native["command"]

        bash = replace(BASH, cases={"": replace(BASH.cases[""], failure=command)})
        facade = BoundFacade(replace(ACME, views=(bash,)), "m", BASES)
        wrong = result("no command", is_error=True, error_kind="validation")
        with caplog.at_level(logging.WARNING):
            assert render(facade, call("Bash", {}), {}, wrong).text == "no command"
            assert render(facade, call("Bash", raw="{"), {}, wrong).text == "no command"
        assert caplog.text == ""


# ---- history


def reply_with(*calls: ToolCall) -> Message:
    return assistant([Text("Let me see."), *calls])


neutral = BoundFacade(Facade(id="neutral", title="", views=()), "m", BASES)


class TestHistory:
    @pytest.mark.parametrize(("writer", "tool_call", "reader", "expected"), [
        (acme, call("Bash", {"command": "ls -l"}), bravo, call("run", {"argv": ["ls", "-l"]}, namespace="term")),
        (acme, call("Read", {"file_path": "a"}), bravo, call("editor", {"command": "view", "path": "a"})),
        (neutral, call("patch", {"text": "*** Begin"}), bravo, ToolCall("c1", "apply_patch", None, "*** Begin", freeform=True)),
        (neutral, call("read", {"path": "a"}), acme, call("Read", {"file_path": "a"})),
        (acme, call("Read", {"file_path": "a", "limit": 3}), neutral, call("read", {"path": "a", "end_line": 3})),
        (acme, call("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}), bravo,
            call("edit", {"path": "a", "old": "x", "new": "y"})),  # no view can express it
    ])  # fmt: skip
    def test_a_call_is_shown_as_its_reader_would_make_it(
        self, writer: BoundFacade, tool_call: ToolCall, reader: BoundFacade, expected: ToolCall
    ) -> None:
        before = reply_with(writer.interpret(tool_call).call)
        after = reader.render_message(before, is_own=False)
        assert replace(after.calls[0], base_call=None) == expected
        assert after.calls[0].base_call == before.calls[0].base_call
        assert writer.render_message(after, is_own=False).calls[0].arguments == tool_call.arguments

    @pytest.mark.parametrize(("facade", "message", "is_own"), [
        (acme, reply_with(interpret(acme, "Read", file_path="a")), False),
        (neutral, reply_with(interpret(neutral, "read", path="a")), False),
        (bravo, reply_with(interpret(acme, "Bash", command="ls")), True),
        # both show it under its own name
        (bravo, reply_with(interpret(acme, "ast_search", pattern="x")), False),
        (bravo, reply_with(call("get_weather", {"city": "Paris"})), False),
        (bravo, reply_with(acme.interpret(call("Bash", raw="{")).call), False),
        (bravo, reply_with(interpret(acme, "Read")), False),
        (bravo, user("Bash"), False),
        (bravo, assistant("Bash"), False),
    ])  # fmt: skip
    def test_other_messages_stay_as_they_are(
        self, facade: BoundFacade, message: Message, is_own: bool
    ) -> None:
        assert facade.render_message(message, is_own=is_own) is message

    def test_the_view_that_loses_least_is_used(self) -> None:
        narrow = make_view("Peek", "", "read", {"path": string()})
        facade = BoundFacade(Facade(id="f", title="", views=(narrow, READ)), "m", BASES)
        before = reply_with(
            ToolCall("c1", "r", {}, base_call=BaseCall("read", {"path": "a", "end_line": 2}, "other"))
        )
        lost: dict[Loss, None] = {}
        assert facade.render_message(before, is_own=False, losses=lost).calls[0].name == "Read"
        assert lost == {}

    def test_losses_are_reported(self) -> None:
        lost: dict[Loss, None] = {}
        bravo.render_message(
            reply_with(interpret(acme, "Bash", command="ls", timeout=1000)), is_own=False, losses=lost
        )
        assert [str(loss) for loss in lost] == [
            "parameter 'timeout' at run: this model's tool cannot express it"
        ]

    def test_a_saved_call_that_makes_no_sense_has_our_name(self, caplog: pytest.LogCaptureFixture) -> None:
        before = reply_with(ToolCall("c1", "Bash", {}, base_call=BaseCall("shell", {"nothing": 1}, "acme")))
        with caplog.at_level(logging.WARNING):
            shown = bravo.render_message(before, is_own=False).calls[0]
        assert (shown.name, shown.arguments) == ("shell", {"nothing": 1})
        assert "shell" in caplog.text

    def test_opaque_state_is_not_handed_to_another_model(self) -> None:
        tool_call = replace(interpret(acme, "Bash", command="ls"), opaque={"thoughtSignature": "s"})
        assert bravo.render_message(reply_with(tool_call), is_own=False).calls[0].opaque is None
