"""`toolglot` with a weaker sandbox than this machine has: `python start_chat.py LEVEL WORDS…`; the level is a
SandboxLevel.
"""

import sys

from toolglot.cli.entry import main
from toolglot.confine import sandbox_probe
from toolglot.confine.sandbox import SandboxLevel

best, probe = int(sys.argv.pop(1)), sandbox_probe.probe_level


def probe_weaker(level: SandboxLevel, *words: object, **options: object) -> str:
    return "it is switched off for this test" if level > best else probe(level, *words, **options)  # pyright: ignore[reportArgumentType]


sandbox_probe.probe_level = probe_weaker  # pyright: ignore[reportAttributeAccessIssue]
sys.argv[0] = "toolglot"
main()
