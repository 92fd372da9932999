"""A facade: `--facade pirate`, `facade = "pirate"`, or `Agent(facade="pirate")`."""

from toolglot import Case, Facade, Field, View

__all__ = ["PIRATE"]

_READ = Case(
    base="read",
    fields=(Field(native="scroll", base="path"),),
    result=lambda context: (
        f"Arr, {context.native['scroll']} says:\n{''.join(context.data['lines'])}"
    ),
)
PIRATE = Facade(
    id="pirate",
    title="Pirate",
    views=(
        View(
            name="unroll",
            description="Unroll a scroll, that is, read a file.",
            parameters={
                "type": "object",
                "properties": {"scroll": {"type": "string", "description": "Path of the scroll."}},
                "required": ["scroll"],
            },
            cases={"": _READ},
        ),
    ),
    note="Speak like a pirate. Read files with unroll.",
)
