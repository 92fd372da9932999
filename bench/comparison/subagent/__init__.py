"""A boss, an agent that works for it, and a payment in there that a person approves after a restart."""

from pathlib import Path

from bench.comparison.definition import Comparison, Mistake

_ID = "call_000002/call_000005"  # of the payment; the simulator counts
_START, _YES = "", f"{_ID} yes\n"

SUBAGENT = Comparison(
    directory=Path(__file__).resolve().parent,
    libraries=("toolglot", "pydantic_ai"),
    mistakes=(
        Mistake("no", "The person refuses", starts=(_START, f"{_ID} no\n")),
        Mistake(
            "unknown",
            "A decision on a call that is unknown",
            starts=(_START, "call_000002/call_999999 yes\n"),
        ),
        Mistake(
            "kind",
            "An answer instead of a decision",
            {
                "toolglot": (
                    'result = boss.resume_sync({call_id: decision == "yes"})',
                    "from toolglot import Answer\n\n"
                    '    result = boss.resume_sync({call_id: Answer("Paid.")})',
                ),
                "pydantic_ai": (
                    "build_results(approvals=approvals)",
                    'build_results(calls=dict.fromkeys(approvals, "Paid."))',
                ),
            },
        ),
        Mistake("twice", "The decision comes again, after the run has ended", starts=(_START, _YES, _YES)),
        Mistake(
            "old",
            "The decision comes twice, and the old state is loaded twice",
            {
                "toolglot": ("STATE.write_bytes(", "STATE.exists() or STATE.write_bytes("),
                "pydantic_ai": ("STATE.write_bytes(", "STATE.exists() or STATE.write_bytes("),
            },
            starts=(_START, _YES, _YES),
        ),
        Mistake(
            "amount",
            "Somebody edits the amount in the stored state",
            dict.fromkeys(
                ("toolglot", "pydantic_ai"),
                (
                    "call_id, decision = input().split()",
                    'STATE.write_text(STATE.read_text().replace("90", "99"))\n'
                    "    call_id, decision = input().split()",
                ),
            ),
        ),
        Mistake(
            "two",
            "Two payments in one task; a decision on the first",
            dict.fromkeys(
                ("toolglot", "pydantic_ai"),
                (r'{\"amount\": 90}"}', r'{\"amount\": 90}\ncall pay {\"amount\": 10}"}'),
            ),
        ),
    ),
    starts=(_START, _YES),
)
