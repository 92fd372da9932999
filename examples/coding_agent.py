"""An agent that works on files, with a person who sees every change before it is made.

Here the person is a function.
"""

import tempfile
from pathlib import Path

from toolglot import Agent, ApprovalRequest, ToolConfig, coding_tools

directory = Path(tempfile.mkdtemp())
(directory / "greet.py").write_text('print("Helo")\n')


def approve(request: ApprovalRequest) -> bool:
    """Show the change, and allow it unless it runs a command."""
    if "execute" not in request.effects:
        lines = request.preview.splitlines()
        print("\n".join(line for line in lines if line.startswith(("+", "-"))))
    return "execute" not in request.effects


agent = Agent(
    "simulator",
    tools=coding_tools(directory, state_dir=directory / ".state"),
    facade="neutral",  # leave it out: then each model sees the tools that it was trained on
    config=ToolConfig(ask={"write", "execute", "network"}),
    approve=approve,
)
result = agent.run_sync("""
call read_file {"path": "greet.py"}
then call edit {"path": "greet.py", "old": "Helo", "new": "Hello"}
then call shell {"command": "rm greet.py"}
""")
print([(outcome.call.name, outcome.ran) for outcome in result.outcomes])
print((directory / "greet.py").read_text().strip())

# Output:
# --- greet.py
# +++ greet.py
# -print("Helo")
# +print("Hello")
# [('read', True), ('edit', True), ('shell', False)]
# print("Hello")
