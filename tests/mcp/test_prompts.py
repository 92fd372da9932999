"""Prompts of MCP servers as slash commands: their names, and what is typed after them."""

import pytest

from toolglot.errors import UsageError
from toolglot.mcp.client.listing import McpPrompt, McpPromptArgument

PROMPT = McpPrompt(
    "git", "review", arguments=(McpPromptArgument("branch", required=True), McpPromptArgument("focus"))
)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("main", {"branch": "main"}),
        ("main tests", {"branch": "main", "focus": "tests"}),
        ("main the tests, please", {"branch": "main", "focus": "the tests, please"}),
        ("focus=tests main", {"branch": "main", "focus": "tests"}),
        ("focus=tests focus", {"branch": "focus", "focus": "tests"}),
        ("a=b", {"branch": "a=b"}),
        ("main mode=fast", {"branch": "main", "focus": "mode=fast"}),
        ("'my branch' tests", {"branch": "my branch", "focus": "tests"}),
        ("it's late", {"branch": "it's", "focus": "late"}),
    ],
)
def test_arguments_are_read_from_a_line(text: str, arguments: dict[str, str]) -> None:
    assert PROMPT.command == "git:review"
    assert PROMPT.parse_arguments(text) == arguments


@pytest.mark.parametrize(
    ("prompt", "text", "message"),
    [
        (PROMPT, "", "the prompt needs 'branch': /git:review branch [focus]"),
        (PROMPT, "branch=a focus=b c", "the prompt git:review takes 2 arguments: 'c' is one too many"),
        (McpPrompt("git", "log"), "main", "the prompt git:log takes no arguments: 'main' is one too many"),
    ],
)
def test_wrong_arguments_are_one_sentence(prompt: McpPrompt, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        prompt.parse_arguments(text)
    assert str(error.value) == message
