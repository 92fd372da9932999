"""DATA: our own names: for models whose harness is not known. Most base tools are shown as they are."""

from msgspec import UNSET

from toolglot.facades.mapping import simple_view
from toolglot.facades.parameters import integer, object_schema, string
from toolglot.facades.view import Arguments, Facade, Field, RenderContext
from toolglot.jsontext import dumps_text

__all__ = ["TABLES"]

_PATH = string("Path of the file, absolute or relative to the workspace.")
_MAX_FILES = 1000


def render_files(context: RenderContext) -> str:
    return dumps_text([file["path"] for file in context.data["files"]])


def list_to_base(native: Arguments) -> Arguments:
    return {"path": native.get("path") or ".", "pattern": native.get("pattern") or "**/*"}


def list_from_base(base: Arguments) -> Arguments:
    native = {"path": base.get("path") or ".", "pattern": base.get("pattern", "**/*")}
    return {name: value for name, value in native.items() if value not in (".", "**/*")}


_VIEWS = (
    simple_view(
        "read_file",
        "Read a file. Text is returned as numbered lines; images and PDF documents are attached.",
        object_schema(
            "path",
            path=_PATH,
            start_line=integer("First line to read, counted from 1 (default 1).", minimum=1),
            end_line=integer("Last line to read, inclusive (default: at most 2000 lines from start_line).", minimum=1),
            pages=string('Pages of a PDF document, such as "3" or "1-5" (at most 20).'),
        ),
        "read",
        ("path", "start_line", "end_line", "pages", "max_lines", "tail_lines", "allow_large"),
        aliases=("read",),
        accepts={"max_lines": integer(), "tail_lines": integer(), "allow_large": {"type": "boolean"}},
    ),
    simple_view(
        "write_file",
        "Write a text file, creating parent directories. An existing file must have been read before it is overwritten. "
        "To change part of a file, use edit.",
        object_schema(
            "path content",
            path=_PATH,
            content=string("The complete content, or the text to append."),
            mode=string("overwrite replaces the file (default); append adds to its end.", enum=["overwrite", "append"]),
        ),
        "write",
        (*("path", "content"), Field("mode", "mode", from_base=lambda mode: UNSET if mode == "create_only" else mode)),
        aliases=("write",),
        accepts={"mode": string(enum=["overwrite", "append", "create_only"])},
    ),
    simple_view(
        "list_files",
        "List files as a JSON array of paths, newest first, at most 1000. To search file contents, use grep.",
        object_schema(
            path=string("Directory to list, with everything below it (default: the workspace)."),
            pattern=string("Glob relative to the directory, such as '*.py' or 'src/**/*.ts' (default: all files)."),
        ),
        "glob",
        to_base=list_to_base,
        from_base=list_from_base,
        fixed={"max_results": _MAX_FILES, "order": "mtime"},
        result=render_files,
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
            "Read files with read_file, find them with list_files and grep, change them with edit, run commands with shell. "
            "Read a file before you change it."
        ),
    ),
)
