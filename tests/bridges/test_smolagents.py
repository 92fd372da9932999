"""smolagents: tools both ways, with the real package."""

from io import BytesIO
from typing import Any, ClassVar

import pytest

pytest.importorskip("smolagents", reason="pip install smolagents")

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingParameterType=false, reportUnknownParameterType=false
from PIL import Image
from smolagents import CodeAgent, Model, ToolCallingAgent
from smolagents import Tool as SmolTool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from toolglot import Agent, Media, Tool, ToolError, UsageError, tool, tool_from_schema
from toolglot.bridges.smolagents import export_tools, import_tools

from .kit import TOOLS, transport


class Area(SmolTool):
    name = "area"
    description = "Compute an area."
    inputs: ClassVar[Any] = {
        "width": {"type": "integer", "description": "The width."},
        "height": {"type": "integer", "description": "The height.", "nullable": True},
    }
    output_type = "integer"

    def forward(self, width: int, height: int | None = None) -> int:
        if width < 0:
            raise ValueError("the width is negative")
        return width * (height or 2)


class Draw(SmolTool):
    name = "draw"
    description = "Draw a picture."
    inputs: ClassVar[Any] = {}
    output_type = "image"

    def forward(self) -> Any:
        return Image.new("RGB", (2, 2))


class Plan(Model):
    """A model of smolagents that says what it is told."""

    def __init__(self, *turns: Any) -> None:
        super().__init__()
        self.turns, self.prompts = list(turns), list[str]()

    def generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatMessage:
        self.prompts.append(str(messages))
        turn = self.turns.pop(0)
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
        name, arguments = turn
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(self.prompts)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def test_their_tools_run_in_our_agent() -> None:
    tools = import_tools([Area(), Draw()], effects="read")
    assert (tools[0].definition.parameters or {})["required"] == ["width"]
    script = ['call area {"width": 3}', 'call area {"width": -1}', "call draw {}", "say ok"]
    results = [
        outcome.result for outcome in Agent(transport=transport(*script), tools=tools).run_sync("?").outcomes
    ]
    assert (results[0].text, results[1].text) == ("6", "ValueError: the width is negative")
    (picture,) = results[2].content
    assert isinstance(picture, Media)
    assert picture.media_type == "image/png"


def test_our_tools_run_in_their_tool_calling_agent() -> None:
    model = Plan(
        ("add", {"a": 1, "b": 2}), ("fail", {}), ("add", {"a": 1}), ("final_answer", {"answer": "3"})
    )
    agent = ToolCallingAgent(tools=export_tools(TOOLS), model=model, verbosity_level=0)
    assert agent.run("go") == "3"
    assert "'text': 'Observation:\\n3'" in model.prompts[1]
    assert "ValueError: broken" in model.prompts[2]


def test_our_tools_run_in_their_code_agent() -> None:
    code = "<code>\nfinal_answer(int(add(1, 2)) + int(add(a=3, b=4)))\n</code>"
    agent = CodeAgent(tools=export_tools(TOOLS), model=Plan(code), verbosity_level=0)
    assert agent.run("go") == 10


def test_results_errors_and_approvals() -> None:
    tools: dict[str, Any] = {
        exported.name: exported
        for exported in export_tools(TOOLS, approve=lambda request: request.arguments["path"] == "x")
    }
    assert tools["add"](a="1", b=2) == "3"
    assert tools["look"]() == "a picture\n[image left out: smolagents accepts only text here]"
    assert tools["remove"](path="x") == "removed x"
    for name, arguments, message in (
        ("remove", {"path": "y"}, "did not approve"), ("fail", {}, "ValueError: broken"), ("add", {"a": 1}, "b: is missing")
    ):  # fmt: skip
        with pytest.raises(ToolError, match=message):
            tools[name](**arguments)
    (refused,) = [exported for exported in export_tools(TOOLS) if exported.name == "remove"]
    with pytest.raises(ToolError, match="needs approval, but no approver is available"):
        refused(path="x")


def test_arguments_are_never_dropped() -> None:
    tools: dict[str, Any] = {tool.name: tool for tool in export_tools(TOOLS)}
    with pytest.raises(ToolError, match="add takes 2 arguments but was given 3"):
        tools["add"](1, 2, 3)
    assert tools["add"](1, b=2) == "3"


def test_names_that_smolagents_cannot_have_are_refused() -> None:
    def named(name: str) -> Tool:
        return tool_from_schema(name, "Do it.", {"type": "object", "properties": {}}, lambda: "done")

    with pytest.raises(UsageError, match="two tools would be named 'a_b' in smolagents"):
        export_tools([named("a-b"), named("a_b")])
    with pytest.raises(
        UsageError,
        match="the tool 'class' cannot be used in smolagents: its name must be a Python identifier",
    ):
        export_tools([named("class")])


def test_one_picture_is_a_picture() -> None:
    buffer = BytesIO()
    Image.new("RGB", (2, 2)).save(buffer, "PNG")

    @tool
    def show() -> Media:
        """Show."""
        return Media.from_bytes(buffer.getvalue())

    (exported, *_) = export_tools([show])
    assert isinstance(exported(), Image.Image)


def test_schemas_have_one_level() -> None:
    @tool
    def order(
        items: list[dict[str, int]], note: str | None = None, size: int | str = 3, name: str = "x"
    ) -> str:
        """Order."""
        return f"{items} {note} {size} {name}"

    (exported, *_) = export_tools([order])
    kinds = {name: (entry["type"], entry.get("nullable", False)) for name, entry in exported.inputs.items()}
    assert kinds == {
        "items": ("array", False),
        "note": ("string", True),
        "size": ("any", True),
        "name": ("string", True),
    }
    assert '"additionalProperties":{"type":"integer"}' in str(exported.inputs["items"]["description"])
    assert exported([{"a": 1}]) == "[{'a': 1}] None 3 x"
    assert exported([{"a": 1}], None, 4) == "[{'a': 1}] None 4 x"
