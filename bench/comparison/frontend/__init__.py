"""A tool whose answers come from the user's browser, after a restart."""

from pathlib import Path

from bench.comparison.definition import Comparison, Mistake

_START, _DATE = "", '{"call_000002": "2026-12-24"}\n'

FRONTEND = Comparison(
    directory=Path(__file__).resolve().parent,
    libraries=("toolglot", "pydantic_ai"),
    mistakes=(
        Mistake(
            "unknown",
            "An answer to a call that is unknown",
            starts=(_START, '{"call_999999": "2026-12-24"}\n'),
        ),
        Mistake(
            "kind",
            "A decision instead of an answer",
            {
                "toolglot": ("call_id: Answer(value)", "call_id: True"),
                "pydantic_ai": ("calls=answers", "approvals=dict.fromkeys(answers, True)"),
            },
        ),
        Mistake("schema", "An answer that is no date", starts=(_START, '{"call_000002": ["soon"]}\n')),
        Mistake(
            "arguments",
            "The model calls the tool with arguments of a wrong type",
            dict.fromkeys(("toolglot", "pydantic_ai"), ('{"title": "Delivery"}', '{"titel": ["Delivery"]}')),
            starts=(_START,),
        ),
        Mistake(
            "prompt",
            "The user writes something else instead of answering",
            {
                "toolglot": (
                    "agent.resume_sync({call_id: Answer(value) for call_id, value in answers.items()})",
                    'agent.run_sync("say Never mind.")',
                ),
                "pydantic_ai": (
                    "agent.run_sync(conversation=conversation, deferred_tool_results=results)",
                    'agent.run_sync("say Never mind.", conversation=conversation)',
                ),
            },
        ),
        Mistake("twice", "The answer comes again, after the run has ended", starts=(_START, _DATE, _DATE)),
    ),
    starts=(_START, _DATE),
)
