"""Kill a process that changes files: `python -m tests.attack.kills --kills N [--user ID]`.

At a random moment, with SIGKILL. Then each file has to be the old one or the new one; after the next start
all of them are old or all new, and nothing of ours is left. Prints one line of JSON for each scenario:
{"name", "tries", "leaks"}."""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from file_kit import fork, read_tree
from tests.builtin.files.test_workspace_crashes import OLD, SCENARIOS, Tree, fill

from toolglot.builtin.files.workspace import Workspace


def kill_midway(top: Path, scenario: str, seconds: float) -> tuple[bool, bool]:
    """Return whether the process was killed, and whether its work was torn."""
    changes, new = SCENARIOS[scenario]
    root, backups = top / "work", top / "backups"
    fill(root)
    shutil.rmtree(backups, ignore_errors=True)
    workspace = Workspace(root, backup_dir=backups)
    child = fork()
    if not child:
        workspace.apply_changes(changes)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    was_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    workspace.close()
    is_torn = any(
        data not in (OLD.get(name), new.get(name)) for name, data in _without_ours(read_tree(root)).items()
    )
    Workspace(root, backup_dir=backups).close()
    is_torn |= read_tree(root) not in (OLD, new)
    is_torn |= any(path.suffix in (".journal", ".part") for path in backups.glob("*"))
    return was_killed, is_torn


def _without_ours(tree: Tree) -> Tree:
    return {name: data for name, data in tree.items() if not name.endswith((".new", ".old"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each scenario")
    parser.add_argument("--user", type=int, default=os.getuid())
    options = parser.parse_args()
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as directory:
        kill_midway(Path(directory), "several files", 0.1)  # imports everything
    if options.user != os.getuid():
        os.setgroups([])
        os.setgid(options.user)
        os.setuid(options.user)
    failed = 0
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory(dir=fast) as directory:
            kills = torn = 0
            longest = 0.004
            while kills < options.kills:
                was_killed, is_torn = kill_midway(Path(directory), scenario, random.uniform(0, longest))
                kills, torn = kills + was_killed, torn + is_torn
                longest *= 1.1 if was_killed else 0.8  # about half of the processes come to their end
        failed += torn
        print(json.dumps({"name": f"kill: {scenario}", "tries": kills, "leaks": torn}), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
