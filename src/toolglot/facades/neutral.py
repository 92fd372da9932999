"""DATA: our own names: for models whose harness is not known. Most base tools are shown as they are."""

from msgspec import UNSET

from toolglot.common.jsontext import dumps_text
from toolglot.facades import rows
from toolglot.facades.parameters import boolean, integer, string
from toolglot.facades.table import field, make_view, unmapped
from toolglot.facades.view import Facade, RenderContext

__all__ = ["TABLES"]

_MAX_FILES = 1000


_ANY_DEPTH = "**/"


def pattern_to_base(pattern: str) -> str:
    """Return a glob that compares whole paths: one without a slash matches at any depth, as in ripgrep and
    .gitignore.
    """
    return pattern if "/" in pattern else _ANY_DEPTH + pattern


def pattern_from_base(pattern: str) -> str:
    """Return the shortest form of a glob, with `./` for a name at the top only."""
    name = pattern.removeprefix(_ANY_DEPTH)
    if "/" in name:
        return pattern
    return name if name != pattern and name else f"./{pattern}"


def list_paths(context: RenderContext) -> list[str]:
    return [file["path"] for file in context.data_list("files")]


_VIEWS = (
    make_view(
        "read_file",
        "Read a file. Text is returned as numbered lines; images and PDF documents are attached.",
        "read",
        {
            "path!": rows.FILE,
            "start_line": integer("First line to read, counted from 1 (default 1).", minimum=1),
            "end_line": integer(
                "Last line to read, inclusive (default: at most 2000 lines from start_line).", minimum=1
            ),
            "pages": rows.PDF_PAGES,
        },
        aliases=("read",),
        accepts={"max_lines": integer(), "tail_lines": integer(), "allow_large": boolean()},
    ),
    make_view(
        "write_file",
        "Write a text file, creating parent directories. An existing file must have been read before it is "
        "overwritten. "
        "To change part of a file, use edit.",
        "write",
        {
            "path!": rows.FILE,
            "content!": rows.CONTENT_OR_APPENDIX,
            "mode": string(
                "overwrite replaces the file (default); append adds to its end.", enum=["overwrite", "append"]
            ),
        },
        aliases=("write",),
        accepts={"mode": unmapped(string(enum=["overwrite", "append", "create_only"]))},
    ),
    make_view(
        "list_files",
        "List files as a JSON array of paths, newest first, at most 1000. To search file contents, use grep.",
        "glob",
        {
            "path": field(
                "path",
                string("Directory to list, with everything below it (default: the workspace)."),
                lambda path: path or ".",
                lambda path: UNSET if path in ("", ".") else path,
                default=".",
            ),
            "pattern": field(
                "pattern",
                string(
                    "Glob: '*.py' matches names in all directories; with a slash it is relative to the "
                    "directory, such as "
                    "'src/**/*.ts' or './*.py' (default: all files)."
                ),
                lambda pattern: pattern_to_base(pattern or "*"),
                lambda pattern: UNSET if pattern in ("", "**/*") else pattern_from_base(pattern),
                default="*",
            ),
        },
        fixed={"max_results": _MAX_FILES, "order": "mtime"},
        result=lambda context: dumps_text(list_paths(context)),
        native_data=list_paths,  # Gemini gets an array, not the text of one
    ),
)
TABLES = (
    Facade(
        id="neutral",
        title="Neutral names",
        views=_VIEWS,
        # One tool to edit with: models that were not trained on patches fail at them too often.
        hides=frozenset({"patch", "insert", "web"}),
        note=(
            "Read files with read_file, find them with list_files and grep, list directories with list_dir. "
            "Change files with "
            "edit, several places at once with multi_edit; use write_file only for new files and complete "
            "rewrites. Read a "
            "file before you change it. Run commands with shell."
        ),
    ),
)
