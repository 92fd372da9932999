"""Run the tests of what SECURITY.md promises: `python -m tests.promises [NAME…]`, with the names of
docs/security-tests.md.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def read_tests() -> dict[str, list[str]]:
    """Return the tests of each promise, by its name."""
    groups = tomllib.loads((ROOT / "tests" / "promises.toml").read_text(encoding="utf-8"))["groups"]
    return {promise["id"]: promise["tests"] for group in groups for promise in group["promises"]}


def main() -> int:
    """Run pytest; return its exit code."""
    promises = read_tests()
    if unknown := [name for name in sys.argv[1:] if name not in promises]:
        print(f"there is no promise {', '.join(unknown)}: see docs/security-tests.md", file=sys.stderr)
        return 2
    tests = dict.fromkeys(test for name in sys.argv[1:] or promises for test in promises[name])
    return subprocess.call([sys.executable, "-m", "pytest", *tests], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
