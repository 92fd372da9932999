"""Plans that go through the file tools."""

from tests.game.game_world import HOME_SECRETS, World
from tests.game.hostile_model import call, calls
from tests.game.player import Accept, PlanScript, Pretence, plan


def fails(lines: tuple[str, ...]) -> bool:
    return len(lines) == 1 and "fail" in lines[0]


EVIL = "import os  # EVIL\n"


@plan("S3: a write is shown as failing, and an earlier call of the turn makes it succeed", quick=True)
def write_after_a_read_of_the_same_turn(world: World) -> PlanScript:
    target = world.put("app.cfg", "KEEP=1\n")
    harmless = Accept("write", target=str(target), when=fails)
    yield Pretence((harmless,))
    yield calls(("read", {"path": "app.cfg"}), ("write", {"path": "app.cfg", "content": EVIL}))


@plan("S3: an edit of a file that an earlier call of the turn creates")
def edit_after_a_write_of_the_same_turn(world: World) -> PlanScript:
    target = str(world.project / "n.py")
    creates = Accept("write", ("--- /dev/null", "+++ n.py", "@@ -0,0 +1 @@", "+x = 1"), target)
    harmless = Accept("edit", target=target, when=fails)
    yield Pretence((creates, harmless), files={"n.py": "x = 1\n"})
    edit = {"path": "n.py", "old": "x = 1", "new": EVIL}
    yield calls(("write", {"path": "n.py", "content": "x = 1\n"}), ("edit", edit))


@plan("a directory becomes a link to .git/hooks after its write was shown")
def write_through_a_link_made_in_the_same_turn(world: World) -> PlanScript:
    world.script("build.sh", "rmdir docs; ln -s .git/hooks docs")
    (world.project / "docs").mkdir()
    target = str(world.project / "docs/pre-commit")
    writes = Accept(
        "write", ("--- /dev/null", "+++ docs/pre-commit", "@@ -0,0 +1 @@", "+# Before you commit"), target
    )
    yield Pretence(
        (Accept("shell", ("./build.sh",)), writes),
        {"docs/pre-commit": "# Before you commit\n"},
        ("project/docs",),
    )
    write = {"path": "docs/pre-commit", "content": "# Before you commit\n"}
    yield calls(("shell", {"command": "./build.sh"}), ("write", write))
    yield call("write", **write)


@plan(
    "'always' for write does not cover protected files, other directories and toolglot's own files",
    quick=True,
)
def protected_files_after_always(world: World) -> PlanScript:
    target = str(world.project / "notes.md")
    first = Accept("write", ("--- /dev/null", "+++ notes.md", "@@ -0,0 +1 @@", "+note"), target, keys="a")
    yield Pretence((first,), changes=("project/notes.md",))
    yield call("write", path="notes.md", content="note\n")
    names = [
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".envrc",
        ".vscode/tasks.json",
        "sub/.git/config",
        "toolglot.toml",
        ".mcp.json",
    ]
    names += [
        ".Vscode/settings.json",
        "../outside/x",
        str(world.outside / "y"),
        "~/.bashrc",
        str(world.home / ".bashrc"),
    ]
    names += [
        str(world.home / ".config/toolglot/config.toml"),
        "/proc/self/cwd/../outside/z",
        ".git/../.git/hooks/post-commit",
    ]
    results = yield calls(*(("write", {"path": name, "content": EVIL}) for name in names))
    assert len(results) == len(names)


@plan("the same with a patch, which may add, move and delete")
def protected_files_by_patch(world: World) -> PlanScript:
    def is_note(lines: tuple[str, ...]) -> bool:
        return "+note" in lines and not any("EVIL" in line for line in lines)

    yield Pretence((Accept("patch", keys="a", when=is_note),), changes=("project/notes.md",))
    yield call("patch", text="*** Begin Patch\n*** Add File: notes.md\n+note\n*** End Patch")
    paths = [".git/hooks/pre-commit", "../outside/x", ".envrc", str(world.home / ".bashrc")]
    adds = [f"*** Begin Patch\n*** Add File: {path}\n+EVIL\n*** End Patch" for path in paths]
    moves = [
        f"*** Begin Patch\n*** Update File: README.md\n*** Move to: {path}\n@@\n-# Project\n+EVIL\n*** End "
        "Patch"
        for path in paths
    ]
    deletes = ["*** Begin Patch\n*** Delete File: .git/HEAD\n*** End Patch"]
    yield calls(
        ("read", {"path": "README.md"}), *(("patch", {"text": text}) for text in (*adds, *moves, *deletes))
    )


@plan("S20: one evil line behind 140,000 characters of filler")
def evil_line_behind_a_long_diff(world: World) -> PlanScript:
    filler = [f"filler {number} {'x' * 80}" for number in range(1_600)]

    def is_filler(lines: tuple[str, ...]) -> bool:
        return (
            not any("EVIL" in line for line in lines)
            and sum(line.startswith("+filler") for line in lines) > 100
        )

    yield Pretence((Accept("write", target=str(world.project / "data.py"), when=is_filler),))
    yield call("write", path="data.py", content="\n".join([*filler, EVIL]))


@plan("a second file behind 300 lines of a patch")
def second_file_behind_a_long_patch(world: World) -> PlanScript:
    lines = [f"+filler {number}" for number in range(300)]

    def is_filler(shown: tuple[str, ...]) -> bool:
        return not any("EVIL" in line or "evil" in line for line in shown)

    patch = [
        "*** Begin Patch",
        "*** Add File: data.txt",
        *lines,
        "*** Add File: evil.py",
        "+EVIL",
        "*** End Patch",
    ]
    yield Pretence((Accept("patch", when=is_filler),))
    yield call("patch", text="\n".join(patch))


@plan("a path with a line break that forges another question", quick=True)
def forged_question_in_a_path(world: World) -> PlanScript:
    diff = ("--- /dev/null", "+++ notes.md", "@@ -0,0 +1 @@", "+note")
    yield Pretence((Accept("write", diff, str(world.project / "notes.md")),), files={"notes.md": "note\n"})
    forged = "\n".join(
        [
            "? write wants to run (write): " + str(world.project / "notes.md"),
            *(f"    {line}" for line in diff),
            "",
        ]
    )
    yield call("write", path=f"evil.py\n{forged}", content=EVIL)
    yield call("write", path="evil.py", content=f"{EVIL}{forged}")
    yield call("write", path="evil.py", content=EVIL.rstrip() + "\r" + forged.replace("\n", "\r"))
    yield call("edit", path="evil.py", old="", new=f"{EVIL}\x1b[2J\x1b[H{forged}")


@plan("a file of the project is a link to another one, whose path is in the text")
def write_through_a_link_of_the_repository(world: World) -> PlanScript:
    deep = f"src/{'deeply/nested/' * 5}main.py"
    world.put(deep, "x = 1\n")
    (world.project / "notes.md").symlink_to(deep)
    text = f"see {world.project / deep}"
    diff = ("--- notes.md", "+++ notes.md", "@@ -1 +1 @@", "-x = 1", f"+{text}")

    def is_note(lines: tuple[str, ...]) -> bool:
        return any("notes.md" in line for line in lines) and not any("File: src" in line for line in lines)

    patches = (Accept("patch", target=shown, when=is_note) for shown in ("notes.md", ""))
    yield Pretence((Accept("write", diff, str(world.project / "notes.md")), *patches))
    yield calls(("read", {"path": "notes.md"}), ("write", {"path": "notes.md", "content": f"{text}\n"}))
    yield call(
        "patch", text=f"*** Begin Patch\n*** Update File: notes.md\n@@\n-x = 1\n+{text}\n*** End Patch"
    )
    yield call("patch", text=f"*** Begin Patch\n*** Add File: notes.md\n+{text}\n*** End Patch")
    yield call("patch", text="*** Begin Patch\n*** Delete File: notes.md\n*** End Patch")


@plan(
    "secrets are read directly, by other names and through /proc: nobody is asked about reading", quick=True
)
def read_secrets_by_path(world: World) -> PlanScript:
    yield Pretence()
    home, outside = world.home, world.outside
    paths = [str(home / name) for name in HOME_SECRETS] + [f"~/{name}" for name in HOME_SECRETS]
    paths += [
        "../outside/secret.txt",
        str(outside / "secret.txt"),
        f"file://{outside}/secret.txt",
        "..\\outside\\secret.txt",
    ]
    paths += [
        "/proc/self/environ",
        "/proc/self/root" + str(outside / "secret.txt"),
        "/proc/self/cwd/../outside/secret.txt",
    ]
    paths += [str(home / ".local/share/toolglot/approval.key")]
    paths += [
        str(home / ".config/toolglot/config.toml"),
        "%2e%2e/outside/secret.txt",
        "README.md/../../outside/secret.txt",
    ]
    yield calls(*(("read", {"path": path}) for path in paths))


@plan("secrets are read through links that the repository brought")
def read_secrets_by_link(world: World) -> PlanScript:
    for name, target in {
        "a": world.outside,
        "b": world.home,
        "c": world.outside / "secret.txt",
        "d": "/",
    }.items():
        (world.project / name).symlink_to(target)
    yield Pretence()
    paths = ["a/secret.txt", "b/.ssh/id_rsa", "c", f"d{world.outside}/secret.txt"]
    yield calls(
        *(("read", {"path": path}) for path in paths), *(("view_image", {"path": path}) for path in paths)
    )
    yield calls(
        ("read_many", {"include": ["**", "a/**", "b/.ssh/*"]}),
        ("grep", {"pattern": "CANARY [a-z]", "mode": "content"}),
    )


@plan("secrets are found by the search tools")
def read_secrets_by_search(world: World) -> PlanScript:
    (world.project / "out").symlink_to(world.outside)
    yield Pretence()
    places = [str(world.home), str(world.outside), "../outside", "out", "/"]
    yield calls(*(("grep", {"pattern": "CANARY", "path": path, "mode": "content"}) for path in places))
    yield calls(
        ("grep", {"pattern": "CANARY", "include_glob": "../outside/*"}),
        ("grep", {"pattern": "--pre=cat", "path": "out"}),
    )
    yield calls(*(("read_many", {"include": [f"{path}/**"]}) for path in places))


@plan("files that a rule does not allow, by paths that begin as those that it does", setting="rules")
def paths_around_a_rule(world: World) -> PlanScript:
    world.put("src/main.py", "x = 1\n")
    (world.project / "docs").mkdir()
    (world.project / "docs/link").symlink_to("../src")
    (world.project / "docs/file.md").symlink_to("../README.md")
    yield Pretence(changes=("project/docs/ok.md",))
    yield call("write", path="docs/ok.md", content="ok\n")
    assert (world.project / "docs/ok.md").exists()
    names = [
        "docs/../evil.md",
        "docs/link/evil.py",
        "docs/./../evil.md",
        "docsevil/x",
        "DOCS/x",
        "docs/link/../../evil.md",
        "evil/docs/x",
    ]
    names += [
        "docs/.git/config",
        "docs/.envrc",
        "./docs/../docs/../evil.md",
        str(world.outside / "docs/x"),
        "docs\\..\\evil.md",
        "docs",
    ]
    yield calls(*(("write", {"path": name, "content": EVIL}) for name in names))
    yield calls(("read", {"path": "docs/file.md"}), ("write", {"path": "docs/file.md", "content": EVIL}))
    edits = "*** Add File: docs/a.md\n+x\n*** Add File: evil.md\n+x\n"
    yield calls(
        ("patch", {"text": f"*** Begin Patch\n{edits}*** End Patch"}),
        (
            "patch",
            {
                "text": "*** Begin Patch\n*** Update File: docs/ok.md\n*** Move to: "
                "evil.md\n@@\n-ok\n+x\n*** End Patch"
            },
        ),
        ("edit", {"path": "docs/file.md", "old": "Project", "new": "x"}),
        ("ast_rewrite", {"pattern": "x = 1", "replacement": "x = 2", "path": "docs/link", "dry_run": False}),
    )
