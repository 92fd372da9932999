"""Every way out of each sandbox, for root and others: attempted inside, and observed from outside."""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell_kit import Kit, find_processes, unavailable_reason
from shell_runner import python

from toolglot.confine import sandbox
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import describe_weakness, probe_level
from toolglot.confine.seccomp import MACHINES, METADATA_CALLS

HERE = Path(__file__).parent
ALLOWED = (
    *(
        "write in the workspace",
        "git init in a directory",
        "run programs",
        "pair of streams",
        "temporary file",
    ),
    *("change modes in the workspace", "change times in the workspace", "read what builds need"),
)
NOBODY = 65534
# Where programs keep credentials, histories and mail below the home directory.
# fmt: off
SECRETS = (
    ".ssh/id", ".netrc", ".aws/credentials", ".azure/msal_token_cache.json", ".gnupg/private-keys-v1.d/k.key", ".kube/config",
    ".pgpass", ".my.cnf", ".boto", ".vault-token", ".npmrc", ".pypirc", ".git-credentials", ".gitconfig", ".docker/config.json",
    ".cargo/credentials.toml", ".cargo/config.toml", ".gem/credentials", ".bundle/config", ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db", ".config/git/credentials", ".config/op/config", ".config/rclone/rclone.conf",
    ".config/google-chrome/Default/Cookies", ".config/chromium/Default/Cookies", ".config/BraveSoftware/Brave-Browser/Cookies",
    ".config/microsoft-edge/Default/Cookies", ".config/vivaldi/Default/Cookies", ".mozilla/firefox/x/logins.json",
    ".thunderbird/x/logins.json", ".password-store/x.gpg", ".local/share/keyrings/login.keyring",
    ".local/share/kwalletd/kdewallet.kwl", ".terraform.d/credentials.tfrc.json", ".claude/.credentials.json", ".claude.json",
    ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json", ".kimi/credentials/x.json",
    ".local/share/opencode/auth.json", ".config/github-copilot/hosts.json", ".config/github-copilot/apps.json",
    ".cache/huggingface/token", ".config/containers/auth.json", ".m2/settings.xml", ".gradle/gradle.properties",
    ".config/pip/pip.conf", ".pip/pip.conf", ".config/sops/age/keys.txt", ".config/solana/id.json", ".bash_history",
    ".zsh_history", ".python_history", ".local/share/fish/fish_history", ".psql_history", ".mysql_history",
    ".node_repl_history", ".s3cfg", ".oci/config", ".fly/config.yml", ".databrickscfg", ".kaggle/kaggle.json",
    ".pulumi/credentials.json", ".env", ".bashrc", ".profile", ".nuget/NuGet/NuGet.Config", ".rye/credentials",
    ".pub-cache/credentials.json", ".local/share/uv/credentials/x", ".npm-global/etc/npmrc",
    ".hex/hex.config", ".dotnet/corefx/cryptography/x509stores/my/x.pfx", ".cabal/config",
    ".stack/config.yaml", ".config/composer/auth.json", ".config/pypoetry/auth.toml", ".config/uv/uv.toml", ".jupyter/x.json",
    ".local/share/jupyter/runtime/kernel.json", ".config/toolglot/config.toml", ".local/share/toolglot/trust.json",
    ".local/state/toolglot/audit.jsonl", "Documents/tax.txt", "other-project/.env", "mbox",
)
VISIBLE = (
    ".cargo/bin/x", ".cargo/registry/x", ".rustup/toolchains/x", ".pyenv/versions/x", ".nvm/versions/x", ".local/bin/x",
    ".local/lib/x", ".m2/repository/x", ".gradle/caches/x", "go/pkg/mod/x", ".config/git/ignore", "miniconda3/x",
    ".special/bin/x", "shown/file",
)
# fmt: on
LEVELS = {"bwrap": 2, "landlock": 1}
USERS = {"root": 0, "user": NOBODY}


def _list_attempts() -> list[str]:
    """The names in the table of the script, which itself can only be run in a sandbox."""
    text = (HERE / "shell_attacks.py").read_text()
    table = text[text.index("ATTEMPTS:") : text.index("\n}\n")]
    return [line.split('"')[1] for line in table.splitlines() if line.startswith('    "')]


class World:
    """What a command may try to reach: files, sockets and ports of the host."""

    def __init__(self, base: Path, user: int) -> None:
        self.base, self.user = base, user
        for name in ("work/.git/hooks", "outside", "reading", "state"):
            (base / name).mkdir(parents=True)
        for name in ("outside/file", "work/.git/config", *(f"home/{name}" for name in (*SECRETS, *VISIBLE))):
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text('token = "as it was"\n')
        self.tcp, self.udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        self.stream, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sockets = (self.tcp, self.udp, self.stream, self.abstract, self.datagram)
        self.tcp.bind(("127.0.0.1", 0))
        self.udp.bind(("127.0.0.1", 0))
        self.stream.bind(str(base / "outside" / "stream"))
        self.datagram.bind(str(base / "outside" / "datagram"))
        self.abstract.bind(f"\0toolglot-{os.getpid()}-{base.name}")
        for listener in (self.tcp, self.stream, self.abstract):
            listener.listen()
        for each in self.sockets:
            each.setblocking(False)
        if os.getuid() == 0:
            for path in (base, *base.rglob("*")):
                os.chown(path, user, user)
        self.before = self.outside()

    def outside(self) -> dict[str, tuple[str, int, int]]:
        """Everything that must stay as it is, with its mode and time."""
        paths = [
            path
            for name in ("outside", "home", "reading", "work/.git")
            for path in (self.base / name).rglob("*")
        ]
        states: dict[str, tuple[str, int, int]] = {}
        for path in paths:
            # what is restored is newer
            status, is_restored = path.stat(), path.is_relative_to(self.base / "work")
            text = path.read_text() if path.is_file() else ""
            states[str(path)] = (
                text,
                status.st_mode,
                0 if is_restored or path.is_dir() else status.st_mtime_ns,
            )
        return states

    def plan(self, level: int) -> dict[str, Any]:
        folders = {name: str(self.base / name) for name in ("work", "outside", "home", "reading", "state")}
        return {
            **folders,
            "secrets": SECRETS,
            "visible": VISIBLE,
            "base": str(self.base),
            "level": level,
            "user": self.user,
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "stream": str(self.base / "outside" / "stream"),
            "datagram": str(self.base / "outside" / "datagram"),
            "abstract": f"\0toolglot-{os.getpid()}-{self.base.name}",
        }

    def received_messages(self) -> list[str]:
        """What came to the host's sockets."""
        names: list[str] = []
        for name in ("tcp", "stream", "abstract", "udp", "datagram"):
            with suppress(BlockingIOError):
                if name in ("udp", "datagram"):
                    getattr(self, name).recv(100)
                else:
                    getattr(self, name).accept()[0].close()
                names.append(name)
        return names

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        shutil.rmtree(self.base)


def _visible_directory() -> str:
    """A directory that the sandbox shows: in the usual ones for temporary files, which it hides, nothing
    could be proved.
    """
    return next(path for path in ("/srv", "/opt", os.path.expanduser("~")) if os.access(path, os.W_OK))


@cache
def attack(level: int, user: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the command says, and what is seen from outside."""
    base = Path(tempfile.mkdtemp(prefix="toolglot-world-", dir=_visible_directory()))
    base.chmod(0o755)
    world = World(base, user)
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "shell_runner.py"), json.dumps(world.plan(level))],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            return {"broken": done.stderr}, {}
        seen = {
            "arrived": world.received_messages(),
            "outside": world.outside() == world.before,
            "envrc": (base / "work/.envrc").exists(),
        }
        seen["roots"] = sorted(path.name for path in base.iterdir())
        return json.loads(done.stdout.splitlines()[-1]), seen
    finally:
        world.close()


@pytest.fixture(params=[(level, user) for level in LEVELS for user in USERS], ids="-".join)
def attack_report(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], dict[str, Any]]:
    level, user = request.param
    if os.getuid() != 0 and user == "root":
        pytest.skip("this needs root")
    report, seen = attack(LEVELS[level], USERS[user] if os.getuid() == 0 else os.getuid())
    assert "broken" not in report, report["broken"]
    if "skip" in report:
        pytest.skip(f"{level} does not work here: {report['skip']}")
    return level, report, seen


Attacked = tuple[str, dict[str, Any], dict[str, Any]]


@pytest.mark.parametrize("name", _list_attempts())
def test_a_command_can_do_its_work_and_nothing_else(attack_report: Attacked, name: str) -> None:
    _, report, _ = attack_report
    successes: dict[str, bool] = json.loads(report["attack"]["output"].splitlines()[-1])
    assert successes[name] is (name in ALLOWED), [
        line for line in report["attack"]["output"].splitlines() if "readable" in line
    ]


def test_no_variation_succeeds(attack_report: Attacked) -> None:
    """What is not in the table is made from lists: files, devices, system calls, signals, sockets."""
    _, report, _ = attack_report
    successes: dict[str, bool] = json.loads(report["attack"]["output"].splitlines()[-1])
    assert len(successes) > 300
    assert [name for name, done in successes.items() if done and name not in ALLOWED] == []


def test_nothing_outside_is_touched(attack_report: Attacked) -> None:
    _, report, seen = attack_report
    assert seen["outside"] is True
    assert seen["roots"] == ["home", "outside", "reading", "state", "work"]
    assert report["victim lives"] is True


def test_nothing_arrives_at_sockets_of_the_host(attack_report: Attacked) -> None:
    assert attack_report[2]["arrived"] == []


def test_nothing_that_git_would_run_is_left_behind(attack_report: Attacked) -> None:
    level, report, seen = attack_report
    assert seen["outside"] is True  # also .git/config and .git/hooks
    assert seen["envrc"] is False
    expected = {".envrc"} if level == "bwrap" else {".envrc", ".git/config", ".git/hooks/post-commit"}
    assert set(report["hook"]["protected"]) == expected


def test_a_fork_bomb_is_contained(attack_report: Attacked) -> None:
    _, report, _ = attack_report
    bomb = report["bomb"]
    if bomb["processes"] == "not limited":
        pytest.skip("root cannot create cgroups here, and the result says so")
    last = bomb["output"].split()[-1:] or ["0"]
    assert bomb["exit_code"] != 0 or int(last[0]) < 200
    assert bomb["seconds"] < 3


def test_memory_and_disk_are_limited(attack_report: Attacked) -> None:
    assert attack_report[1]["hog"]["output"] == ""


def test_results_name_the_sandbox(attack_report: Attacked) -> None:
    level, report, _ = attack_report
    assert report["attack"]["sandbox"] == f"{level}+seccomp"
    assert report["attack"]["network"] is False


# Pointers that lead nowhere or to the end of the memory, and times that no clock has, for every call that the
# supervisor makes.
BAD_ARGUMENTS = """
import ctypes, json, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
path = ctypes.create_string_buffer(os.path.abspath("file").encode())
times = ctypes.create_string_buffer(struct.pack("=4q", *[2**63 - 1] * 4))
pointers = [2**64 - 1, 2**63, 1, start + mmap.PAGESIZE - 8, ctypes.addressof(path), ctypes.addressof(times)]
for number in json.loads(sys.argv[1]):
    for first in (*pointers, 0, 2**64 - 100):
        for second in pointers:
            for third in pointers:
                libc.syscall(number, *map(ctypes.c_ulong, (first, second, third, 0, 0)))
os.chmod("file", 0o640)
print("answered")
"""


@pytest.mark.skipif(bool(unavailable_reason(SandboxLevel.LANDLOCK)), reason="Landlock does not work here")
async def test_arguments_without_sense_do_not_stop_the_supervisor(tmp_path: Path) -> None:
    kit = Kit(tmp_path, SandboxLevel.LANDLOCK)
    (kit.work / "file").touch()
    calls = [number for name, number in MACHINES[platform.machine()][1].items() if name in METADATA_CALLS]
    data = await kit.shell(argv=[python(), "-I", "-c", BAD_ARGUMENTS, json.dumps(calls)], timeout=60)
    kit.close()
    assert (data["exit_code"], data["output"]) == (0, "answered\n")
    assert (kit.work / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
async def test_a_command_does_not_outlive_a_supervisor_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(sandbox.__file__).with_name("supervisor.py").read_text() + "\n_supervise = None\n"
    monkeypatch.setattr(sandbox, "_compile_supervisor", lambda: compile(source, "supervisor", "exec"))
    kit = Kit(tmp_path, SandboxLevel.NONE)
    data = await kit.shell(command="sleep 987.6 & sleep 987.6")
    kit.close()
    assert data["exit_code"] == 137
    assert find_processes("987.6") == []


@pytest.mark.skipif(bool(unavailable_reason(SandboxLevel.LANDLOCK)), reason="Landlock does not work here")
def test_landlock_is_not_used_where_the_supervisor_cannot_read_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where ptrace is forbidden: every git, cp -p and tar would fail."""
    source = (
        Path(sandbox.__file__)
        .with_name("supervisor.py")
        .read_text()
        .replace("/proc/{pid}/mem", "/proc/{pid}/nothing")
    )
    monkeypatch.setattr(sandbox, "_compile_supervisor", lambda: compile(source, "supervisor", "exec"))
    reason = probe_level.__wrapped__(SandboxLevel.LANDLOCK)
    assert reason.startswith(
        "modes and times of files in the workspace cannot be changed from inside: chmod: "
    )


def test_a_weaker_sandbox_that_was_asked_for_is_no_failure() -> None:
    text = describe_weakness([], SandboxLevel.LANDLOCK)
    assert text == "commands run in a weaker sandbox (Landlock), as you asked for"
