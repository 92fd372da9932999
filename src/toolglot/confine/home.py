"""What commands see of the home directory: toolchains and package stores that builds need, and nothing else.

Credentials, histories, mail and other projects have no complete list of names, so everything is hidden that
is not listed here. Nothing of it is writable: programs of the user would later run what a command left in a
toolchain or a shared cache.
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from toolglot.common.redact import redact
from toolglot.confine.environment import safe_environment
from toolglot.confine.programs import find_program, is_outside, run_program, safe_search_path
from toolglot.confine.roots import Root

__all__ = [
    "CHECKED_IN_HOME",
    "VISIBLE_IN_HOME",
    "explain_hidden_paths",
    "find_hidden_paths",
    "find_visible_paths",
    "private_settings",
    "write_git_config",
]

# Below the home directory. Where a tool keeps credentials beside its packages, only the packages are listed.
# fmt: off
VISIBLE_IN_HOME: dict[str, tuple[str, ...]] = {
    "Programs": (
        ".local/bin", ".local/lib", ".local/libexec", ".local/include", ".local/opt", ".asdf", ".local/share/mise/installs",
        ".local/share/mise/shims", ".linuxbrew", ".nix-profile", ".local/state/nix/profiles", ".guix-profile", ".pixi/bin",
        ".pixi/envs",
    ),
    "Settings of tools": (
        ".config/git/ignore", ".config/git/attributes", ".gitignore", ".gitignore_global", ".gitattributes", ".editorconfig",
        ".eslintrc", ".eslintrc.js", ".eslintrc.json", ".prettierrc", ".flake8", ".pylintrc", ".clang-format", ".clang-tidy",
        ".rustfmt.toml", ".tool-versions", ".python-version", ".node-version", ".ruby-version", ".nvmrc",
    ),
    "Python": (
        ".pyenv", ".virtualenvs", ".local/share/virtualenvs", ".cache/pypoetry/virtualenvs", ".local/share/hatch/env",
        ".local/pipx", ".local/share/pipx", ".local/share/uv/python", ".local/share/uv/tools", ".rye/shims", ".rye/self",
        ".rye/py", ".rye/tools",
        ".conda/envs", ".conda/pkgs", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".local/share/mamba",
    ),
    "JavaScript": (
        ".nvm", ".fnm", ".local/share/fnm", ".volta", ".nodenv", ".npm-global/bin", ".npm-global/lib", ".local/share/pnpm",
        ".yarn/berry", ".yarn/bin", ".config/yarn/global", ".bun/bin", ".bun/install", ".deno/bin", ".cache/puppeteer",
    ),
    "Rust": (".cargo/bin", ".cargo/env", ".cargo/registry", ".cargo/git", ".rustup"),
    "Go": ("go/bin", "go/pkg", ".goenv", ".gvm"),
    "Java": (
        ".sdkman", ".jenv", ".jabba", ".jdks", ".m2/repository", ".m2/wrapper", ".gradle/caches", ".gradle/wrapper",
        ".gradle/jdks", ".ivy2/cache", ".ivy2/local", ".sbt/boot", ".cache/coursier", ".local/share/coursier", ".konan",
        "Android/Sdk",
    ),
    "Ruby, PHP, Perl, R": (
        ".rbenv", ".rvm", ".gem/ruby", ".local/share/gem", ".bundle/cache", ".phpenv", ".composer/vendor",
        ".config/composer/vendor", "perl5", ".plenv", "R",
    ),
    ".NET": (
        ".dotnet/dotnet", ".dotnet/host", ".dotnet/packs", ".dotnet/sdk", ".dotnet/sdk-manifests", ".dotnet/shared",
        ".dotnet/templates", ".dotnet/tools", ".nuget/packages",
    ),
    "C, Haskell, OCaml, Julia, Elixir, Dart, Nim, Lua": (
        ".conan/data", ".conan2/p", ".vcpkg", ".platformio/packages", ".platformio/platforms", ".platformio/penv", ".ghcup",
        ".cabal/bin", ".cabal/packages", ".cabal/store", ".stack/programs", ".stack/snapshots", ".stack/pantry", ".opam",
        ".juliaup", ".julia/artifacts", ".julia/compiled", ".julia/juliaup", ".julia/packages", ".julia/registries",
        ".mix/archives", ".mix/elixir", ".hex/packages", ".pub-cache/bin", ".pub-cache/hosted", ".nimble/bin", ".nimble/pkgs2",
        ".luarocks/bin", ".luarocks/lib", ".luarocks/share",
    ),
    "Fonts and TeX": (".fonts", ".local/share/fonts", ".config/fontconfig", "texmf"),
}
# fmt: on
# Settings that builds need, but that may have credentials in them: visible if nothing in them looks like one.
CHECKED_IN_HOME = (
    ".cargo/config.toml",
    ".cargo/config",
    ".config/go/env",
    ".config/uv/uv.toml",
    ".config/pypoetry/config.toml",
)
# Variables that name a toolchain, and what of it builds need.
_TOOLCHAIN_VARIABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "GOROOT", "RUSTUP_HOME", "JAVA_HOME"), ("",)
    ),
    **dict.fromkeys(("NODE_PATH", "PNPM_HOME", "GEM_HOME"), ("",)),
    "BUN_INSTALL": ("bin", "install"),
    "CARGO_HOME": ("bin", "env", "registry", "git"),
    "GOPATH": ("bin", "pkg"),
}
# Variables that name a file or directory with credentials, wherever it is.
_CREDENTIAL_VARIABLES = (
    *(
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AZURE_CONFIG_DIR",
        "CLOUDSDK_CONFIG",
        "DOCKER_CONFIG",
        "GNUPGHOME",
    ),
    *(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "KUBECONFIG",
        "NETRC",
        "NPM_CONFIG_USERCONFIG",
        "PGPASSFILE",
        "PIP_CONFIG_FILE",
    ),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
_SYSTEM_SECRETS = (
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/sudoers.d",
)
_SYSTEM_DIRECTORIES = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/nix", "/proc", "/sbin", "/sys", "/usr")
_MAX_SCANNED, _MAX_SETTINGS = 50_000, 100_000
# What git needs for a commit. Its other settings may have credentials in them, or name keys and programs that
# are hidden.
_GIT_KEY = re.compile(
    r"user\.(name|email)|init\.defaultbranch|safe\.directory|filter\.lfs\.\w+|(pull|rebase|merge|rerere|color|column)\.\w+"
    r"|core\.(autocrlf|eol|safecrlf|excludesfile|attributesfile|quotepath|whitespace)|diff\.(algorithm|renames|colormoved)"
)
_GIT_TIMEOUT = 5
_HIDDEN_ERRORS = ("No such file or directory", "Permission denied", "ENOENT", "EACCES")


def find_hidden_paths(roots: Sequence[Root], extra_paths: Iterable[str] = ()) -> list[str]:
    """Return the real paths that no command may read: home directories, credentials, and what only root can
    read.
    """
    root_paths = [str(root.path) for root in roots]
    paths = [*_list_credential_paths(root_paths), *extra_paths]
    for home in _find_homes():
        # A workspace at or above the home directory stays visible, and so do system directories, but not
        # their dot files.
        if _is_system_directory(home) or _is_below_any(home, root_paths):
            paths += _list_dot_files(home)
        else:
            paths.append(home)
    real_paths = {os.path.realpath(path) for path in paths if os.path.isabs(path)}
    system_paths = _find_root_only() or _SYSTEM_SECRETS
    real_paths.update(filter(_has_readable_content, system_paths))
    return sorted(filter(_is_file_or_directory, real_paths))


def _is_file_or_directory(path: str) -> bool:
    """Whether it is: everything else would block, or cannot be covered by a mount."""
    return os.path.isdir(path) or os.path.isfile(path)


def _list_credential_paths(root_paths: Collection[str]) -> list[str]:
    """Return what variables name, except what the user put into the workspace: that is visible."""
    paths = [os.environ.get(name, "") for name in _CREDENTIAL_VARIABLES]
    if cargo := os.environ.get("CARGO_HOME"):
        paths += [f"{cargo}/credentials", f"{cargo}/credentials.toml"]
    return [path for path in paths if not _is_below_any(os.path.realpath(path), root_paths)]


def _is_system_directory(home: str) -> bool:
    """Whether a home directory (of a service, say) is a system directory, or inside or above one."""
    return any(_is_below(home, path) or _is_below(path, home) for path in _SYSTEM_DIRECTORIES)


def _list_dot_files(home: str) -> list[str]:
    try:
        names = os.listdir(home)
    except OSError:
        return []
    return [os.path.join(home, name) for name in names if name.startswith(".")]


def _has_readable_content(path: str) -> bool:
    """Whether there is something to hide: each mount takes time, and what is empty or cannot be read needs
    none.
    """
    if not os.access(path, os.R_OK):
        return False
    if os.path.isdir(path):
        return bool(os.listdir(path))
    return os.path.getsize(path) > 0


def find_visible_paths(
    roots: Sequence[Root], hidden_paths: Collection[str], extra_paths: Collection[str] = ()
) -> list[str]:
    """Return the existing paths inside hidden ones that commands may read: the listed ones, and programs of
    the user.
    """
    homes = _find_homes()
    wanted_paths = _list_program_paths()
    for home in homes:
        wanted_paths += _list_home_paths(home, extra_paths)
    existing_paths = {
        os.path.normpath(path) for path in wanted_paths if os.path.isabs(path) and os.path.exists(path)
    }
    visible_paths: set[str] = set()
    for path in existing_paths:
        target = os.path.realpath(path)
        hidden = [place for place in (path, target) if _is_below_any(place, hidden_paths)]
        if hidden and _is_safe_to_show(path, target, homes, roots):
            visible_paths.update(hidden)
    return _drop_inner_paths(sorted(visible_paths))


def _is_safe_to_show(path: str, target: str, homes: Sequence[str], roots: Sequence[Root]) -> bool:
    """Whether what is at a path, and at the target of its links, is no home directory, and nothing that a
    command put there.
    """
    if _contains_any(target, homes):
        return False
    wide_roots = [root for root in roots if _contains_any(str(root.path), homes)]
    if wide_roots:
        # In a workspace at or above the home directory, only dot files of that are out of a command's reach.
        if path != target or not _is_dot_file(path, homes):
            return False
    # A command could put a link to anything into a root, so nothing is shown that is found through one.
    return is_outside(path, [root for root in roots if root not in wide_roots])


def _list_program_paths() -> list[str]:
    """Return where PATH, our own Python and the variables of toolchains say that programs are; some may not
    exist.
    """
    paths = [*os.environ.get("PATH", "").split(os.pathsep), sys.prefix, sys.base_prefix]
    for variable, parts in _TOOLCHAIN_VARIABLES.items():
        paths += [os.path.join(os.environ.get(variable, ""), part) for part in parts]
    return paths


def _list_home_paths(home: str, extra_paths: Iterable[str]) -> list[str]:
    """Return the listed paths of a home directory, and settings without credentials; some may not exist."""
    paths = [os.path.join(home, os.path.expanduser(path)) for path in extra_paths]
    settings = [os.path.join(home, name) for name in CHECKED_IN_HOME]
    paths += filter(_has_no_credentials, settings)
    try:
        top_names = set(os.listdir(home))  # most of the names are not there, which is found out at once
    except OSError:
        return paths
    for names in VISIBLE_IN_HOME.values():
        paths += [os.path.join(home, name) for name in names if name.partition("/")[0] in top_names]
    return paths


def _has_no_credentials(path: str) -> bool:
    """Whether a file of settings can be read to its end, and nothing in it looks like a credential."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_SETTINGS)
    except (OSError, UnicodeDecodeError):
        return False
    return len(text) < _MAX_SETTINGS and redact(text, by_name=True) == text


def _drop_inner_paths(paths: Iterable[str]) -> list[str]:
    """Return sorted paths without those inside others."""
    outer_paths: list[str] = []
    for path in paths:
        if not outer_paths or not _is_below(path, outer_paths[-1]):
            outer_paths.append(path)
    return outer_paths


def _is_below(path: str, directory: str) -> bool:
    """Return whether the path is the directory or inside it."""
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")


def _is_below_any(path: str, directories: Iterable[str]) -> bool:
    return any(_is_below(path, directory) for directory in directories)


def _is_dot_file(path: str, homes: Iterable[str]) -> bool:
    """Whether a path is an entry of a home directory whose name begins with a dot, or is in one."""
    return any(path.startswith(f"{home}/.") for home in homes)


def _contains_any(directory: str, paths: Iterable[str]) -> bool:
    return any(_is_below(path, directory) for path in paths)


def _find_homes() -> list[str]:
    """Return the home directory, and that of the user database if $HOME says another."""
    homes = [os.path.expanduser("~")]
    with suppress(ImportError, KeyError, AttributeError):  # not on Windows; a user without an entry
        import pwd

        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return list(
        dict.fromkeys(os.path.realpath(home) for home in homes if os.path.isabs(home) and os.path.isdir(home))
    )


@cache
def _find_root_only() -> tuple[str, ...]:
    """Return what others cannot read in /etc and /var: root's commands have no capabilities, but own these
    files.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return ()
    groups = {os.getegid(), *os.getgroups()}
    paths: list[str] = []
    pending = ["/etc", "/var"]
    for _ in range(_MAX_SCANNED):
        if not pending:
            break
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # it has gone
                    continue
                if _is_private(status.st_mode):
                    if status.st_uid == 0 or status.st_gid in groups:
                        paths.append(entry.path)
                elif stat.S_ISDIR(status.st_mode):
                    # The content of /var is large: what is private there is so from the top.
                    max_depth = 4 if entry.path.startswith("/var/") else 8
                    if entry.path.count("/") < max_depth:
                        pending.append(entry.path)
    return tuple(paths)


def _is_private(mode: int) -> bool:
    """Whether others cannot both list and enter a directory, or cannot read a file."""
    if stat.S_ISDIR(mode):
        return mode & 0o005 != 0o005
    return stat.S_ISREG(mode) and not mode & 0o004


def explain_hidden_paths(output: str, roots: Sequence[Root]) -> list[str]:
    """Return a note if a command failed to open what may be hidden."""
    failures = [line for line in output.splitlines() if any(error in line for error in _HIDDEN_ERRORS)]
    paths = re.findall(rf"{re.escape(os.path.expanduser('~'))}/[^\s'\":,]+", "\n".join(failures))
    root_paths = [str(root.path) for root in roots]
    if all(_is_below_any(path, root_paths) for path in paths):
        return []
    return ["the sandbox hides most of the home directory; builtin.visible can show more of it"]


def private_settings(scratch: str, visible_paths: Collection[str]) -> dict[str, str]:
    """Return variables for files of the conversation that replace those of the user, without which programs
    would fail.
    """
    names = {"GIT_CONFIG_GLOBAL": ".gitconfig", "NPM_CONFIG_USERCONFIG": ".npmrc", "NPM_CONFIG_CACHE": ".npm"}
    shown = {os.path.basename(path) for path in visible_paths}
    return {variable: f"{scratch}/{name}" for variable, name in names.items() if name not in shown}


def write_git_config(scratch: Path, roots: Sequence[Root]) -> None:
    """Write the user's git settings without credentials: they are the global ones of commands."""
    # Only --global is read, not the configuration of the repository, whose place matters for includeIf.
    variables = {
        name: os.environ[name] for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL") if name in os.environ
    }
    git = find_program("git", roots)
    with suppress(OSError, subprocess.SubprocessError):
        listing = run_program(
            [git, "config", "--global", "--includes", "--null", "--list"],
            roots=roots,
            cwd=str(roots[0].path),
            env={**safe_environment(), **variables, "PATH": safe_search_path(roots)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT,
        )
        settings = listing.stdout.decode(errors="replace").split("\0")
        (scratch / ".gitconfig").write_text("".join(map(_render_setting, settings)), encoding="utf-8")


def _render_setting(setting: str) -> str:
    """Return a line of git's listing as it is written in a file; "" if commands may not see it."""
    key, _, value = setting.partition("\n")
    if not _GIT_KEY.fullmatch(key):
        return ""
    if redact(f"{key}={value}", by_name=True) != f"{key}={value}":
        return ""
    section, _, name = key.rpartition(".")
    kind, dot, part = section.partition(".")
    header = f'[{kind} "{part}"]' if dot else f"[{kind}]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{header}\n\t{name} = "{escaped}"\n'
