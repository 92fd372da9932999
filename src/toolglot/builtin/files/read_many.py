"""The tool `read_many`: read many text files at once."""

import re
from pathlib import Path
from typing import Any

from toolglot.builtin.files.descriptors import read_all
from toolglot.builtin.scopes import include_scope
from toolglot.builtin.search.glob import GlobSearch, split_absolute_glob
from toolglot.builtin.search.list_dir import MAX_PATTERNS, build_excludes
from toolglot.builtin.search.search_scope import open_search_root, start_deadline
from toolglot.builtin.search.walk import has_early_nul
from toolglot.builtin.tool_state import ToolState
from toolglot.common.textutil import pluralize
from toolglot.confine.roots import decode_escaped_bytes
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["read_many_tools"]

MAX_FILES = 200
MAX_FILE_BYTES = 256 << 10
MAX_TOTAL_BYTES = 1 << 20
MAX_SKIPPED = 50
_WILDCARD = re.compile(r"[*?\[{\\]")
DEFAULT_EXCLUDES = (
    *(
        "node_modules",
        "bower_components",
        "vendor",
        "dist",
        "build",
        "target",
        "coverage",
        "__pycache__",
        ".venv",
        "venv",
    ),
    *(
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".cache",
        ".gradle",
        ".idea",
        ".vscode",
        "*.egg-info",
    ),
    *(
        "*.pyc",
        "*.pyo",
        "*.o",
        "*.so",
        "*.a",
        "*.dylib",
        "*.dll",
        "*.exe",
        "*.class",
        "*.jar",
        "*.min.js",
        "*.map",
    ),
    ".DS_Store",
)
"""Dependencies, builds and caches, which nobody wants to read."""


def read_many_tools(state: ToolState) -> list[Tool]:
    """Return the tool `read_many`."""

    @tool(
        name="read_many",
        effects="read",
        idempotent=True,
        action="read",
        verb="Read",
        scope=include_scope(state),
        target=lambda arguments: ", ".join(map(str, arguments.get("include") or ())),
        examples=[
            {"include": ["README.md", "docs/*.md"]},
            {"include": ["src/**/*.py"], "exclude": ["*_test.py"]},
        ],
    )
    def read_many(  # noqa: D417
        include: list[str],
        exclude: list[str] | None = None,
        default_excludes: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Read several text files at once, each after a line with its path. Binary files are only named.

        Use it to get an overview of related files; at most 200 files, 256 KB each and 1 MB in total are read.

        Args:
            include: Paths of files or directories, or globs such as 'src/**/*.py'.
            exclude: Globs of names or paths to leave out (default none).
            default_excludes: Leave out ignored files, dependencies, builds and caches (default true).
        """
        if not include or len(include) > MAX_PATTERNS:
            raise invalid_argument("include", f"has {len(include)} patterns; give 1 to {MAX_PATTERNS}")
        paths, missing = _select_files(state, include, exclude or [], default_excludes, context)
        if not paths:
            message = f"no file matches {', '.join(map(repr, include))[:200]}"
            if missing:
                message += f"; {missing[0]!r}: there is no such file"
            raise ToolError(message, kind="not_found", code="path_not_found")
        return _read_files(state, paths, missing, context)

    return [read_many]


def _select_files(
    state: ToolState, include: list[str], exclude: list[str], default_excludes: bool, context: Context | None
) -> tuple[list[str], list[str]]:
    """Return the real paths of the files that patterns select, in the order in which they are found, and what
    is missing.

    A file that is named itself is excluded only by `exclude`, not by ignore files or default excludes.
    """
    named_filter, should_stop = build_excludes(exclude), start_deadline(context)
    search_filter = build_excludes([*DEFAULT_EXCLUDES, *exclude]) if default_excludes else named_filter
    prefix = str(state.workspace.root).rstrip("/") + "/"
    paths: dict[str, None] = {}
    missing: list[str] = []
    for item in map(decode_escaped_bytes, include):
        path, pattern = ".", item
        if item.startswith("/"):
            path, pattern = split_absolute_glob(state, item)
        if _WILDCARD.search(item) is None:
            path, pattern = item, "**"
            entry = state.workspace.inspect(item)
            if entry is None:
                missing.append(escape_surrogates(item))
                continue
            if not entry.is_directory:
                if named_filter.admits(entry.absolute_path.removeprefix(prefix)):
                    paths.setdefault(entry.absolute_path)
                continue
        search = GlobSearch(pattern or "**", gitignore=default_excludes, extra_ignore=default_excludes)
        with open_search_root(state, path) as root:
            search.run(root, should_stop, with_times=False)
        matches = (f"{root.root_path}/{match}" for match in search.rank_files("name"))
        paths |= dict.fromkeys(match for match in matches if search_filter.admits(match.removeprefix(prefix)))
    return list(paths), missing


def _read_files(
    state: ToolState, paths: list[str], missing: list[str], context: Context | None
) -> ToolOutput:
    files, parts, remaining, done = list[dict[str, Any]](), list[str](), MAX_TOTAL_BYTES, 0
    skipped = [{"path": path, "reason": "there is no such file"} for path in missing]
    for path in paths[:MAX_FILES]:
        if remaining <= 0 or (context is not None and context.is_cancelled):
            break
        done += 1
        name, limit = escape_surrogates(state.display_path(Path(path))), min(MAX_FILE_BYTES, remaining)
        try:
            with state.workspace.open_file(path) as opened:
                data, size = read_all(opened.fd, limit + 1), opened.status.st_size
        except ToolError as e:
            skipped.append({"path": name, "reason": str(e)})
            continue
        if has_early_nul(data):
            skipped.append({"path": name, "reason": f"a binary file of {pluralize(size, 'byte')}"})
            continue
        text, truncated, note = data[:limit].decode("utf-8", "replace"), len(data) > limit, ""
        if truncated:
            note = (
                f"\n[showing the first {len(text)} characters of {pluralize(size, 'byte')}; read the "
                "file "
                "for more]"
            )
        else:  # seen as a whole, so it may be edited
            state.mark_seen(opened.path, opened.version)
        files.append({"path": name, "size": size, "text": text, "truncated": truncated})
        parts.append(f"--- {name} ---\n\n{text.rstrip(chr(10))}{note}\n")
        remaining -= len(text)
    skipped, left_out = skipped[:MAX_SKIPPED], len(paths) - done
    parts += [f"[{file['path']} was not read: {file['reason']}]" for file in skipped]
    if left_out:
        parts.append(f"[{left_out} more files match; include fewer to read them]")
    text = "\n".join([*parts, "--- End of content ---"])
    return ToolOutput(text, {"files": files, "skipped": skipped, "left_out": left_out})
