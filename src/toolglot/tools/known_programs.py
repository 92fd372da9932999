"""DATA: programs that start other programs, and the arguments by which they do; for rules about commands.

An option of a program that is not listed is harmless. No list is complete: build tools run whatever the files
of a project say.
"""

__all__ = [
    "BEFORE_SUBCOMMAND",
    "LONG_WITH_ONE_DASH",
    "RENAMING",
    "RISKY_ARGUMENTS",
    "SHELLS",
    "SYNONYMS",
    "TEXT_PROGRAMS",
    "find_inner_program",
    "is_runner",
    "launches_program",
    "program_name",
    "runs_code",
]

# They run a command or a script given in their own words: a rule that allows them covers only the words it
# has.
_RUNNERS = frozenset(
    {
        *(
            ".",
            "ash",
            "bash",
            "builtin",
            "busybox",
            "command",
            "csh",
            "dash",
            "doas",
            "env",
            "eval",
            "exec",
            "fish",
            "ksh",
        ),
        *(
            "sh",
            "source",
            "su",
            "sudo",
            "tcsh",
            "trap",
            "zsh",
            "chroot",
            "chrt",
            "entr",
            "flock",
            "gdb",
            "ionice",
            "ltrace",
        ),
        *(
            "nice",
            "nohup",
            "nsenter",
            "parallel",
            "perf",
            "proot",
            "script",
            "setarch",
            "setpriv",
            "setsid",
            "ssh",
            "stdbuf",
        ),
        *(
            "strace",
            "systemd-run",
            "taskset",
            "time",
            "timeout",
            "unshare",
            "valgrind",
            "watch",
            "xargs",
            "bwrap",
        ),
        *(
            "at",
            "batch",
            "capsh",
            "catchsegv",
            "cgexec",
            "chpst",
            "daemonize",
            "dbus-launch",
            "dbus-run-session",
            "eatmydata",
        ),
        *(
            "expect",
            "faketime",
            "fakeroot",
            "firejail",
            "hyperfine",
            "linux32",
            "linux64",
            "mosh",
            "newgrp",
            "numactl",
            "pkexec",
        ),
        *(
            "prlimit",
            "proxychains",
            "rlwrap",
            "rsh",
            "run-parts",
            "runcon",
            "runuser",
            "screen",
            "setuidgid",
            "sg",
            "socat",
        ),
        *(
            "softlimit",
            "ssh-agent",
            "start-stop-daemon",
            "startx",
            "tmux",
            "torsocks",
            "toybox",
            "unbuffer",
            "watchexec",
        ),
        *("xinit", "xvfb-run", "chronic", "cpulimit", "run0", "sshpass", "tsp"),
        # Their scripts can start programs.
        *(
            "awk",
            "ed",
            "emacs",
            "ex",
            "gawk",
            "less",
            "man",
            "mawk",
            "more",
            "nano",
            "nvim",
            "sed",
            "vi",
            "view",
            "vim",
        ),
    }
)
# start the program that they are given; their names go on
_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64.so")
# They run the program that is named in their words after these: a rule that allows them with this name is a
# rule for it.
_LAUNCHERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "asdf": (("exec",),),
    "bun": (("run",), ("x",)),
    "bundle": (("exec",),),
    "bunx": ((),),
    "npm": (("exec",), ("x",)),
    "npx": ((),),
    "pdm": (("run",),),
    "pipenv": (("run",),),
    "pipx": (("run",),),
    "pnpm": (("dlx",), ("exec",)),
    "pnpx": ((),),
    "poetry": (("run",),),
    "pyenv": (("exec",),),
    "python": (("-m",),),
    "python3": (("-m",),),
    "rbenv": (("exec",),),
    "rye": (("run",),),
    "uv": (("run",), ("tool", "run")),
    "uvx": ((),),
    "yarn": (("dlx",), ("exec",), ("run",)),
}
_MODULE_LAUNCHERS = frozenset({"python", "python3"})  # what they run is no program
_LAUNCHER_FLAGS = frozenset({"-q", "-y", "--", "--frozen", "--no-install", "--no-sync", "--quiet", "--yes"})
# They run a program that is somewhere in their words after these. RISKY_ARGUMENTS has these words, too.
_PLACES: dict[str, tuple[str, ...]] = {
    "conda": ("run",),
    "direnv": ("exec",),
    "docker": ("compose", "container", "exec", "run"),
    "docker-compose": ("exec", "run"),
    "flatpak": ("run",),
    "hatch": ("run",),
    "kubectl": ("debug", "exec", "run"),
    "mamba": ("run",),
    "micromamba": ("run",),
    "mise": ("exec", "x"),
    "nerdctl": ("exec", "run"),
    "nix": ("develop", "run", "shell"),
    "nix-shell": ("--command", "--run"),
    "pixi": ("run",),
    "podman": ("container", "exec", "run"),
    "rustup": ("run",),
    "toolbox": ("run",),
}
# They run what they read as their input, unless they are given a file.
SHELLS = frozenset({".", "ash", "bash", "csh", "dash", "fish", "ksh", "sh", "source", "tcsh", "zsh"})
# They give a program another name.
RENAMING = frozenset({"alias", "cp", "hash", "install", "ln", "mv"})
# Their arguments are text or names of files, whatever they look like.
TEXT_PROGRAMS = frozenset(
    {
        *(
            "[",
            "ack",
            "ag",
            "basename",
            "cat",
            "cd",
            "cp",
            "curl",
            "diff",
            "dirname",
            "echo",
            "egrep",
            "false",
            "fd",
            "fgrep",
        ),
        *(
            "file",
            "find",
            "git",
            "grep",
            "head",
            "jq",
            "ls",
            "mkdir",
            "mv",
            "printf",
            "pwd",
            "rg",
            "rm",
            "sort",
            "stat",
            "tail",
        ),
        *("tail", "test", "touch", "true", "wc", "wget", "which"),
    }
)
# Subcommands that do what another one does.
SYNONYMS: dict[str, dict[str, str]] = {
    "git": {"fetch-pack": "fetch", "http-fetch": "fetch", "http-push": "push", "send-pack": "push"},
}
_MAKE = ("-C", "-E", "-I", "-f", "--directory", "--eval", "--file", "--include-dir", "--makefile")
_CONTAINER = (
    *("exec", "-c", "-H", "--build-arg", "--config", "--context", "--entrypoint", "--host", "--volume"),
    *("-v", "--mount", "--privileged", "run"),
)
_NODE_MANAGER = (
    *(
        "create",
        "dlx",
        "exec",
        "explore",
        "init",
        "set",
        "x",
        "-C",
        "--browser",
        "--cwd",
        "--dir",
        "--editor",
        "--git",
    ),
    *(
        "--globalconfig",
        "--init-module",
        "--node-options",
        "--prefix",
        "--script-shell",
        "--shell",
        "--use-yarnrc",
    ),
    *("--userconfig", "--viewer"),
)
_GRADLE = (
    *(
        "-D",
        "-I",
        "-P",
        "-b",
        "-c",
        "-g",
        "-p",
        "--build-file",
        "--gradle-user-home",
        "--include-build",
        "--init-script",
    ),
    *("--project-dir", "--project-prop", "--settings-file", "--system-prop"),
)
_MAVEN = (
    "*:*",
    "-D",
    "-f",
    "-s",
    "-gs",
    "-t",
    "--define",
    "--file",
    "--global-settings",
    "--settings",
    "--toolchains",
)
_PYTEST = (
    "-W",
    "-c",
    "-o",
    "-p",
    "--config-file",
    "--confcutdir",
    "--override-ini",
    "--pdbcls",
    "--pythonwarnings",
    "--rootdir",
)
# Arguments by which other programs start programs, read commands from a file or write files, by program or by
# program and
# subcommand: options, and patterns of words. No wildcard covers these, nor what abbreviates or contains them.
RISKY_ARGUMENTS: dict[str, tuple[str, ...]] = {
    **{
        program: words
        for program, words in _PLACES.items()
        if not program.startswith(("docker", "nerdctl", "podman"))
    },
    "ack": ("--pager",),
    "ag": ("--pager",),
    "ant": ("-D", "-f", "-buildfile", "-file", "-lib", "-propertyfile"),
    "bat": ("--pager",),
    "bazel": ("--run_under", "run"),
    "cargo": ("+*", "-C", "-Z", "--config", "--manifest-path"),
    "cmake": ("-C", "-D", "-E", "-P", "--toolchain"),
    "ctest": ("-S", "--build-and-test", "--script", "--test-command"),
    "curl": (
        *(
            "-c",
            "-D",
            "-K",
            "-o",
            "-O",
            "--alt-svc",
            "--config",
            "--cookie-jar",
            "--dump-header",
            "--etag-save",
            "--hsts",
        ),
        *(
            "--libcurl",
            "--output",
            "--remote-name",
            "--remote-name-all",
            "--stderr",
            "--trace",
            "--trace-ascii",
        ),
    ),
    "docker": _CONTAINER,
    "docker-compose": ("exec", "run", "-f", "--file"),
    "dotnet": ("exec",),
    "eslint": (
        "-c",
        "--config",
        "--format",
        "--parser",
        "--plugin",
        "--resolve-plugins-relative-to",
        "--rulesdir",
    ),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "gcc": ("-fplugin", "-wrapper", "-B", "-specs"),
    "git": (
        *(
            "--config-env",
            "--exec-path",
            "--exec",
            "--ext-diff",
            "--output",
            "--upload-pack",
            "--receive-pack",
            "--textconv",
        ),
        *("ext::*", "fd::*", "*=ext::*", "*=fd::*"),  # addresses that are commands
    ),
    "git archive": ("-o", "--remote"),
    "git bisect": ("run",),
    "git clone": ("-c", "-u", "--config", "--template"),
    "git config": ("config",),
    "git difftool": ("-t", "-x", "--extcmd", "--tool"),
    "git filter-branch": ("filter-branch",),
    "git for-each-repo": ("for-each-repo",),
    "git grep": ("-O", "--open-files-in-pager"),
    "git hook": ("run",),
    "git init": ("--template",),
    "git instaweb": ("instaweb",),
    "git mergetool": ("-t", "--tool"),
    "git rebase": ("-x",),
    "git remote-ext": ("remote-ext",),
    "git remote-fd": ("remote-fd",),
    "git send-email": ("send-email",),
    "git shell": ("shell",),
    "git submodule": ("foreach",),
    "git web--browse": ("web--browse",),
    "gmake": _MAKE,
    "go": (
        "-exec",
        "-toolexec",
        "--exec",
        "--toolexec",
        "-vettool",
        "--vettool",
        "-C",
        "-ldflags",
        "--ldflags",
        "-overlay",
    ),
    "go env": ("-w",),
    "gradle": _GRADLE,
    "gradlew": _GRADLE,
    "hg": ("--config",),
    "jest": (
        "-c",
        "--config",
        "--globalSetup",
        "--globalTeardown",
        "--rootDir",
        "--runner",
        "--setupFiles",
        "--testRunner",
    ),
    "just": (
        "-c",
        "-d",
        "-f",
        "--command",
        "--justfile",
        "--set",
        "--shell",
        "--shell-arg",
        "--working-directory",
    ),
    "make": _MAKE,
    "mvn": _MAVEN,
    "mvnw": _MAVEN,
    "mypy": ("--config-file", "--python-executable"),
    "nerdctl": _CONTAINER,
    "ninja": ("-C", "-f", "-t"),
    "nox": ("-f", "--noxfile"),
    "npm": _NODE_MANAGER,
    "npm exec": ("-c", "-p", "--call", "--package"),
    "npm x": ("-c", "-p", "--call", "--package"),
    "pip": ("--python", "--config-settings"),
    "pip3": ("--python", "--config-settings"),
    "pnpm": _NODE_MANAGER,
    "podman": _CONTAINER,
    "py.test": _PYTEST,
    "pytest": _PYTEST,
    "rake": (
        "-I",
        "-R",
        "-e",
        "-f",
        "-r",
        "-p",
        "--execute",
        "--execute-continue",
        "--execute-print",
        "--rakefile",
        "--require",
    ),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-o"),
    "sort": ("-o", "--output", "--compress-program"),
    "split": ("--filter",),
    "svn": ("--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"),
    "tar": (
        *("-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--rsh-command"),
        *("--info-script", "--new-volume-script", "--rmt-command"),
    ),
    "tox": ("-c", "-x", "--conf", "--override", "exec"),
    "tree": ("-o",),
    "wget": ("-O", "-o", "-e", "--execute", "--output-document", "--use-askpass"),
    "yarn": _NODE_MANAGER,
    "zip": ("-T", "--unzip-command"),
}
# Options before their subcommand can change what it does (git -c core.pager=…), so that a wildcard covers
# none of them. Of the programs that have such: the options whose value is the next word.
BEFORE_SUBCOMMAND: dict[str, tuple[str, ...]] = {
    "cargo": ("-C", "-Z", "--color", "--config"),
    "docker": ("-H", "-c", "-l", "--config", "--context", "--host", "--log-level"),
    "git": (
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--attr-source",
    ),
    "hg": ("-R", "--repository", "--cwd", "--config", "--config-file"),
    "npm": ("-C", "-w", "--loglevel", "--prefix", "--script-shell", "--userconfig", "--workspace"),
    "pnpm": ("-C", "--dir", "--filter", "-F"),
    "podman": ("-c", "--connection", "--log-level", "--root", "--url"),
    "poetry": ("-C", "-P", "--directory", "--project"),
    "svn": ("--config-dir", "--config-option", "--username", "--password"),
    "uv": ("--color", "--config-file", "--directory", "--project"),
    "yarn": ("--cwd",),
}
LONG_WITH_ONE_DASH = frozenset({"ant", "find", "gcc", "go", "mvn", "mvnw"})


def program_name(word: str) -> str:
    """Return the name of a program without its directory."""
    return word.rpartition("/")[2]


def is_runner(words: tuple[str, ...]) -> bool:
    """Return whether a program runs a command or a script given in its own words, wherever in them."""
    program = program_name(words[0])
    return program in _RUNNERS or program.startswith(_LOADERS)


def runs_code(program: str) -> bool:
    """Return whether a program is known to run other programs, or the files of a project."""
    tables = (_LAUNCHERS, _PLACES, RISKY_ARGUMENTS)
    return is_runner((program,)) or any(program in table for table in tables)


def find_inner_program(words: tuple[str, ...], subcommand: int) -> int | None:
    """Return the index of the program that a launcher runs, or the end if that is unclear; None if it is no
    launcher.

    `subcommand`: the index of its first word that is no option.
    """
    program = program_name(words[0])
    for arguments in _LAUNCHERS.get(program, ()):
        start = 1 if program in _MODULE_LAUNCHERS or not arguments else subcommand
        index = start + len(arguments)
        if words[start:index] != arguments:
            continue
        while index < len(words) and words[index] in _LAUNCHER_FLAGS:
            index += 1
        is_clear = index < len(words) and not words[index].startswith("-")
        return index if is_clear else len(words)
    return None


def launches_program(words: tuple[str, ...], subcommand: int) -> bool:
    """Return whether a program runs another one that is named somewhere in its words."""
    program = program_name(words[0])
    if program in _MODULE_LAUNCHERS:
        return False
    return find_inner_program(words, subcommand) is not None or not {*words}.isdisjoint(
        _PLACES.get(program, ())
    )
