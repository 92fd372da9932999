"""What `import` costs in a new process, beyond a bare interpreter."""

from importlib.util import find_spec
from statistics import median

from bench.measure import Figure, Table, child_cpu

MAX_MILLISECONDS = 100.0
ALL_WIRES = """
from toolglot.wire.codec import create_reader, load_request_encoder
from toolglot.wire.spec import WIRES
for wire in WIRES: create_reader(wire), load_request_encoder(wire)
"""
IMPORTS = {
    "toolglot": "import toolglot",
    "toolglot with its five wires": ALL_WIRES,
    "openai": "import openai",
    "anthropic": "import anthropic",
    "google.genai": "import google.genai",
    "ollama": "import ollama",
}


def startup_table(*, quick: bool) -> Table:
    """`import toolglot` loads names when they are first used; the second row loads everything that encodes
    and decodes.
    """
    imports = {
        name: code
        for name, code in IMPORTS.items()
        if "toolglot" in name or find_spec(name.partition(".")[0])
    }
    took: dict[str, list[float]] = {name: [] for name in imports}
    for name, code in imports.items():
        if not quick or name.startswith("toolglot"):
            child_cpu(["-c", code])  # warm-up: byte code and file cache
    for _ in range(1 if quick else 3):
        for name, code in imports.items():
            bare = child_cpu(["-c", "pass"])[0]
            took[name].append(1e3 * (child_cpu(["-c", code])[0] - bare))
    each = {name: max(0.1, median(times)) for name, times in took.items()}
    table = Table("Import: CPU ms beyond a bare interpreter", "ratio: against toolglot with its five wires")
    for name, ms in each.items():
        is_ours = name.startswith("toolglot")
        ratio = None if is_ours else Figure(ms / each["toolglot with its five wires"])
        table.rows.append(
            {
                "": f"import {name}",
                "÷ toolglot": ratio,
                "ms": Figure(ms, " ms", maximum=MAX_MILLISECONDS) if is_ours else ms,
            }
        )
    return table
