"""A virtual environment for each peer, created when first needed and kept.

A peer that cannot be installed is skipped.
"""

import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).resolve().parent.parent / "peers.txt"
DIRECTORY = Path.home() / ".cache" / "toolglot-bench"
INSTALL_TIMEOUT = 900  # seconds for one environment


def read_pins() -> dict[str, list[str]]:
    """Names and versions, by peer."""
    pins_by_peer: dict[str, list[str]] = {}
    wanted: list[str] = []
    for line in PINS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            wanted = pins_by_peer[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            wanted.append(line)
    return pins_by_peer


def find_python(peer: str, directory: Path) -> str | None:
    """The Python of a peer's environment; None where it cannot be made."""
    environment, wanted = directory / peer, read_pins()[peer]
    python, mark, text = environment / "bin" / "python", environment / "pins.txt", "\n".join(wanted)
    if mark.is_file() and mark.read_text() == text and python.exists():
        return str(python)
    print(f"installing {peer} into {environment} …", file=sys.stderr, flush=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", str(environment)],
            check=True,
            capture_output=True,
            timeout=INSTALL_TIMEOUT,
        )
        subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_TIMEOUT)
    except (subprocess.SubprocessError, OSError) as error:
        output = getattr(error, "stderr", b"") or b""
        print(
            f"{peer} is not installed: {error} {output[-500:].decode(errors='replace')}",
            file=sys.stderr,
            flush=True,
        )
        return None
    mark.write_text(text)
    return str(python)
