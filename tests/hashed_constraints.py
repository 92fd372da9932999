"""Write constraints-hashed.txt: what toolglot requires, with the hash of every wheel that fits a supported
Python.

`make hashes` runs this after constraints.txt has changed. The hashes come from the package index that pip
uses (PIP_INDEX_URL, or else the public one); the index is trusted once, here, and whoever installs with the
file trusts it no more. Wheels only: a source archive would run code before anybody has compared anything.
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from html import unescape
from importlib import metadata
from pathlib import Path
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "constraints-hashed.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # PyYAML has no wheels for 3.15 yet
_SYSTEMS = (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
_HEADER = """\
# Generated from constraints.txt by 'make hashes': what toolglot requires without extras, with the hashes of the wheels for
# Python 3.11 to 3.14. To install them, and nothing that is not listed here (then toolglot's own wheel with --no-deps):
# pip install --only-binary :all: --require-hashes -r constraints-hashed.txt
"""
_LINK = re.compile(r'<a [^>]*href="[^"#]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+\.whl)</a>')


def read_pins(text: str) -> dict[NormalizedName, tuple[str, str]]:
    """Return the name and the version of each pinned package."""
    pins = re.findall(r"^([\w.-]+)==([\w.!+-]+)", text, re.MULTILINE)
    return {canonicalize_name(name): (name, version) for name, version in pins}


def list_environments() -> Iterator[dict[str, str]]:
    """Yield what markers can ask, for every supported Python on every system."""
    for python in PYTHONS:
        for sys_platform, platform_system, os_name in _SYSTEMS:
            yield {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "sys_platform": sys_platform,
                "platform_system": platform_system,
                "os_name": os_name,
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "extra": "",
            }


def applies(requirement: Requirement) -> bool:
    """Return whether a requirement applies in any of these environments."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate(environment) for environment in list_environments())


def find_required() -> set[NormalizedName]:
    """Return the packages that toolglot requires without extras, and those that these require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, required = [Requirement(line) for line in project["dependencies"]], set[NormalizedName]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in required or not applies(requirement):
            continue
        required.add(name)
        try:
            waiting += [Requirement(line) for line in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:  # for another system only
            print(f"{name} is not installed here: what it requires is not known", file=sys.stderr)
    return required


def find_hashes(name: NormalizedName, version: str, index: str) -> list[str]:
    """Return the hashes of the wheels of a version that fit a supported Python, sorted."""
    with urlopen(f"{index.rstrip('/')}/{name}/") as response:
        page = response.read().decode()
    interpreters = {"py3", *(f"cp{python.replace('.', '')}" for python in PYTHONS)}
    hashes = set[str]()
    for sha256, file in _LINK.findall(page):
        if f"-{version}-" not in unescape(file):
            continue
        _, wheel_version, _, tags = parse_wheel_filename(unescape(file))
        if str(wheel_version) == version and any(
            tag.interpreter in interpreters or tag.abi == "abi3" for tag in tags
        ):
            hashes.add(sha256)
    if not hashes:
        raise SystemExit(f"the index has no wheel of {name} {version}")
    return sorted(hashes)


def main() -> None:
    """Write the file."""
    index = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    pins = read_pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    required = sorted(find_required())
    if missing := [name for name in required if name not in pins]:
        raise SystemExit(f"constraints.txt does not pin {', '.join(missing)}")
    entries = list[str]()
    for name in required:
        hashes = find_hashes(name, pins[name][1], index)
        lines = [f"{pins[name][0]}=={pins[name][1]}", *(f"    --hash=sha256:{sha256}" for sha256 in hashes)]
        entries.append(" \\\n".join(lines))
    FILE.write_text(_HEADER + "\n".join(entries) + "\n", encoding="utf-8")
    print(f"wrote {FILE.name}: {len(required)} packages")


if __name__ == "__main__":
    main()
