"""The documentation runs: every Python block is executed, every generated part is current."""

import contextlib
import html
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import toolglot
import toolglot.bridges
import toolglot.mcp
from toolglot.cli.main import app
from toolglot.engine.signin.environment import KEY_VARIABLES

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_block_runs_and_prints_what_its_comments_say(block: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "<documentation>", "exec"), {})
    promised = re.findall(r"^ *print\(.*?\)  # (.*)$", block, re.MULTILINE)
    assert out.getvalue().splitlines() == promised
    assert not re.search(
        r"^ *(from|import) toolglot\.(?!mcp import|bridges|plugins import)", block, re.MULTILINE
    ), "only public names"


@pytest.mark.parametrize("name", [
    "ToolChoice", "data=", "Context", "Media", "create_engine", "Request", "base_url=", "PartialArguments", "ContextPolicy",
    "summarize=", "resume_stream", "Timeouts", "RetryConfig", "ToolRegistry", "ToolExecutor", "Hooks", "Script",
    "recorded_transport", "output_type=", "fallbacks=", "approve=", "from_config", "PromptContext",
])  # fmt: skip
def test_what_people_ask_for_is_shown_in_an_example(name: str) -> None:
    assert any(re.search(rf"\b{name}", str(block.values[0])) for block in BLOCKS)


# The column of the site has room for 115 characters in a window of 1400 pixels, and for 100 in one of 1280.
CODE_COLUMNS = 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_not_wider_than_its_column(page: Path) -> None:
    blocks = re.findall(
        r"^ *```\w*.*?\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert [line for block in blocks for line in block.splitlines() if len(line) > CODE_COLUMNS] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_that_need_other_libraries_compile(page: Path) -> None:
    for block in re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        compile(block, str(page), "exec")


def list_examples() -> Iterator[tuple[str, str]]:
    """Yield the Python blocks of all pages, each with a file name that says where it stands."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```py(?:thon)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start(1))
            yield f"{page.relative_to(ROOT)} line {line}.py".replace("/", "."), block[1]


@pytest.mark.untraced
@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_examples_pass_pyright_strict(tmp_path: Path) -> None:
    """Every block that uses toolglot, and every program in examples/, as users have them in their editors."""
    for name, block in list_examples():
        if "toolglot" in block:  # else it is a program of another library, to compare with
            (tmp_path / name).write_text(block, encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--warnings", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(find_spec("ruff") is None, reason="ruff is not installed")
def test_imports_in_examples_are_sorted(tmp_path: Path) -> None:
    for name, block in list_examples():
        (tmp_path / name).write_text(block, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select=I",
        "--line-length=128",
    ]
    settings = ("--config", 'lint.isort.known-first-party = ["toolglot"]', "--output-format=concise")
    done = subprocess.run([*command, *settings], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in re.findall(r"\btoolglot [a-z].*", "\n".join(blocks).replace("\\\n", " ")):
        words = shlex.split(line.partition(" | ")[0], comments=True)[1:]
        command: click.Command = app
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            subcommand = command.get_command(click.Context(command), words.pop(0))
            assert subcommand is not None, line
            command = subcommand
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        } | {"--help"}
        assert {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known, line


@pytest.mark.untraced
def test_the_commands_of_the_readme_run_in_a_checkout(tmp_path: Path) -> None:
    _, block = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .split("These commands run as they are in a checkout:")
    )
    lines = [line for line in block.split("```")[1].splitlines()[1:] if line and not line.startswith("#")]
    files = [word for line in lines for word in line.split() if word.startswith("examples/")]
    assert len(files) >= 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "COLUMNS": "100",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    env = {
        name: value
        for name, value in env.items()
        if not name.startswith("TOOLGLOT_") and name not in KEY_VARIABLES
    }
    servers = ("toolglot simulate", "toolglot mcp serve", "toolglot acp")
    for line in (line for line in lines if not line.startswith(servers)):
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=env, input="", capture_output=True, text=True
        )
        assert done.returncode == 0, (line, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stdout or "chat" in line


def test_the_lines_of_a_batch_are_as_documented(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```sh\n(echo .*?)```", page, re.DOTALL)
    [result] = re.findall(r"^\| `toolglot convert .*\| `(\{.*?\})` \|$", page, re.MULTILINE)
    script = script.replace("toolglot", f"{sys.executable} -m toolglot")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(json.loads(done.stdout)) == re.findall(r'"(\w+)"', result)


@pytest.mark.untraced
def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def list_installed_by_make_docs() -> set[str]:
    """The packages that `make docs` installs in a fresh clone, with all that they require."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^\$\(DOCS_READY\):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (group,) = re.findall(r"--group (\w+)", recipe)
    extras = [
        extra for names in re.findall(r"--editable '\.\[([\w,]+)\]'", recipe) for extra in names.split(",")
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    published = project["project"]
    lines = [*published["dependencies"], *project["dependency-groups"][group]]
    lines += [line for extra in extras for line in published["optional-dependencies"][extra]]
    packages, waiting = {"pip", "toolglot"}, [Requirement(line) for line in lines]
    while waiting:
        requirement = waiting.pop()
        applies = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        name = canonicalize_name(requirement.name)
        if not applies or name in packages:
            continue
        packages.add(name)
        extras = [*extras, *requirement.extras]
        # what nothing else needs may be missing here
        with contextlib.suppress(metadata.PackageNotFoundError):
            waiting += map(Requirement, metadata.requires(name) or ())
    return packages


@pytest.mark.untraced
def test_make_docs_installs_what_the_generator_imports() -> None:
    """In a fresh clone there is nothing else, so the modules of all other packages are taken away."""
    installed = list_installed_by_make_docs()
    others = [
        module
        for module, packages in metadata.packages_distributions().items()
        if installed.isdisjoint(map(canonicalize_name, packages))
    ]
    assert {"pytest", "acp", "mini_racer"} & {*others}, "nothing was taken away"
    code = """if True:
        import runpy, sys
        script, *modules = sys.argv[1:]
        sys.modules.update({name: None for name in modules if name not in sys.modules})  # as if they were not installed
        sys.path.insert(0, script.rpartition("/")[0])
        sys.argv = [script, "--check"]
        runpy.run_path(script, run_name="__main__")
    """
    command = [sys.executable, "-c", code, str(ROOT / "docs" / "generate.py"), *others]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("make") or not shutil.which("git"), reason="make or git is not installed"
)
def test_make_docs_works_in_a_fresh_clone(tmp_path: Path) -> None:
    """With an environment of its own, which pip fills: this needs a package index."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    before = {page: page.read_bytes() for page in (tmp_path / "docs").rglob("*.md")}
    environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    command = ["make", "docs", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert {page: page.read_bytes() for page in (tmp_path / "docs").rglob("*.md")} == before, (
        "they are not the same as here"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_page_and_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)(?:#([^)\s]+))?\)", without_code(page.read_text(encoding="utf-8")))
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    dead = [
        (target, anchor)
        for target, anchor in targets
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert dead == []


def test_the_changelog_stays_short() -> None:
    """What a version can do, in as many lines as people read; its details are in the guides."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    assert versions
    for version in versions:
        assert len(version.splitlines()) <= 120, version.partition("\n")[0]
        points = re.findall(r"^- .*\n(?:  .*\n)*", version, re.MULTILINE)
        assert [point for point in points if point.count("\n") > 3] == []
    assert all(len(line) <= 120 for line in text.splitlines())


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]+`", lambda code: "" if code[0].startswith("```") else code[0].strip("`"), text,
                  flags=re.DOTALL | re.MULTILINE)  # fmt: skip


def anchors(page: Path) -> set[str]:
    """What a page's headings and API entries are called in links."""
    text = without_code(page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def test_the_site_has_every_page_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    pages = sorted(
        str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")
    )
    assert sorted(pages_of(site["nav"])) == pages


def test_the_sidebar_folds() -> None:
    """Nobody looks through seventy entries: groups open one at a time, and none is long."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert {"navigation.sections", "navigation.expand"}.isdisjoint(site["theme"]["features"])
    assert len(site["nav"]) <= 15
    assert max(len(pages_of([group])) for group in site["nav"]) <= 13


def pages_of(nav: list[dict[str, Any]]) -> list[str]:
    entries = [entry for item in nav for entry in item.values()]
    return [page for entry in entries for page in ([entry] if isinstance(entry, str) else pages_of(entry))]


def test_the_reference_describes_every_public_name() -> None:
    entries = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: toolglot\.(\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    packages = {"mcp": toolglot.mcp, "bridges": toolglot.bridges}
    names = [f"{package}.{name}" for package, module in packages.items() for name in module.__all__]
    assert sorted(entries) == sorted([*toolglot.__all__, *names])
    index = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[`[\w.]+`\]\(\S+\) \|\s*\|$", index, re.MULTILINE) == [], (
        "a public name without a docstring"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    pytest.importorskip("zensical", reason="make docs installs the site generator")
    directory = tmp_path_factory.mktemp("docs")
    shutil.copy(ROOT / "zensical.toml", directory)
    shutil.copytree(ROOT / "docs", directory / "docs")
    (directory / "src").symlink_to(ROOT / "src")
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "site"


@pytest.mark.untraced
def test_the_site_builds_without_a_warning(site: Path) -> None:
    page = (site / "reference" / "agents.html").read_text(encoding="utf-8")
    assert 'id="toolglot.Agent.run_sync"' in page
    tools = (site / "reference" / "tools.html").read_text(encoding="utf-8")
    assert 'id="toolglot.ApprovalRequest.effects"' in tools, "fields without a docstring are missing"
    signatures = list(list_signatures(site))
    assert {"approved: bool", "data: Data", "max_result: int | None"} <= {*signatures}
    assert [text for text in signatures if re.match(r"[a-z]\w*( = .*)?$", text, re.DOTALL)] == [], "no type"
    code = re.compile(r"\bself\.|\b(cast|blocking|Accepts)\(|^\w+: _|: _[A-Z]\w{2}|= _[A-Z]")
    assert [text for text in signatures if code.search(text)] == [], "not a type or a default, but code"
    assert "https://fonts" not in page
    assert "Agent" in (site / "search.json").read_text(encoding="utf-8")
    assert list(dead_links(site)) == []


_WIDER_THAN_ITS_PLACE = """() => [
    ...[...document.querySelectorAll(".md-content pre > code, .md-typeset__scrollwrap")]
        .filter(place => place.scrollWidth > place.clientWidth + 1)
        .map(place => place.innerText.slice(0, 200)),
    ...(document.scrollingElement.scrollWidth > innerWidth ? ["the page"] : []),
]"""


@pytest.mark.untraced
@pytest.mark.parametrize("width", [1400, 500])
def test_nothing_is_wider_than_its_place(site: Path, width: int) -> None:
    """In a window of a usual width; on a phone, code and tables scroll, but not the page."""
    api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("there is no Chromium")
    wide: dict[str, list[str]] = {}
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 900})
        for page in sorted(site.rglob("*.html")):
            tab.goto(page.as_uri())
            places = tab.evaluate(_WIDER_THAN_ITS_PLACE)
            wide[str(page.relative_to(site))] = [
                place for place in places if width > 1000 or place == "the page"
            ]
        browser.close()
    assert len(wide) > 60
    assert {page: places for page, places in wide.items() if places} == {}


def test_every_public_attribute_has_a_type() -> None:
    """The reference would show only its name: the site's generator reads the code, and infers little."""
    griffe = pytest.importorskip("griffe", reason="make docs installs it")
    extensions = griffe.load_extensions(str(ROOT / "docs" / "griffe_signatures.py"))
    package = griffe.load("toolglot", search_paths=[str(ROOT / "src")], extensions=extensions)
    untyped: list[str] = []
    for public in (getattr(toolglot, name) for name in toolglot.__all__):
        if isinstance(public, type):
            path = f"{public.__module__.removeprefix('toolglot.')}.{public.__name__}"
            members: dict[str, Any] = package[path].members
            untyped += [
                f"{path}.{name}: annotate it where it is assigned"
                for name, member in members.items()
                if not name.startswith("_") and member.is_attribute and member.annotation is None
            ]
    assert untyped == []


def list_signatures(site: Path) -> Iterator[str]:
    """The signatures that the API reference of a built site shows."""
    for page in (site / "reference").glob("*.html"):
        blocks = re.findall(
            r"<div class=\"?[\w -]*doc-signature.*?<code>(.*?)</code>",
            page.read_text(encoding="utf-8"),
            re.DOTALL,
        )
        yield from (html.unescape(re.sub(r"<[^>]+>", "", block)).strip() for block in blocks)


def dead_links(site: Path) -> Iterator[tuple[str, str]]:
    """The links of a built site that lead nowhere."""
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    ids = {page: set(re.findall(r'\bid="?([^"\s>]+)', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for link in re.findall(r'href="([^":]+)"', text) if page.name != "404.html" else ():
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and anchor not in ids.get(target, {anchor})):
                yield page.name, link


def test_every_requirement_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    state = r"(yes|partly: [^|]+|open) \|([^|]*)\|"
    # the last column: payloads
    rows = re.findall(rf"^\| ([A-Z]\d+) \| [^|]+ \| {state}[^|]*\|$", text, re.MULTILINE)
    counts = {"F": 13, "A": 10, "P": 10, "G": 9, "E": 20}
    parts = [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]
    assert [name for name, _, _ in rows] == parts
    features = re.findall(rf"^\| ([^|]+) \| {state}$", text.partition("## Further features")[2], re.MULTILINE)
    assert len(features) == 10
    rows += features
    assert not [name for name, state, _ in rows if state != "yes"]
    for name, state, shown in rows:
        tests = re.findall(r"`([\w/.]+)(?:::(\w+))?`", shown)
        assert bool(tests) == (state != "open"), name
        for path, function in tests:
            file = ROOT / path
            assert file.is_file(), path
            assert not function or f"def {function}(" in file.read_text(encoding="utf-8"), (
                f"{path}::{function}"
            )
