"""The patch language of many models: read it, find its places in a file, make the new file. No file is touched here."""

from toolglot.builtin.edit.patch.apply import LineEdit, PatchDocument, apply_placements, read_document, render_diff
from toolglot.builtin.edit.patch.locate import Placement, locate_chunks
from toolglot.builtin.edit.patch.parse import (
    AddFile,
    Chunk,
    DeleteFile,
    PatchOp,
    PatchOperation,
    UpdateFile,
    operation_to_ops,
    parse_patch,
    render_patch,
)

__all__ = [
    "AddFile",
    "Chunk",
    "DeleteFile",
    "LineEdit",
    "PatchDocument",
    "PatchOp",
    "PatchOperation",
    "Placement",
    "UpdateFile",
    "apply_placements",
    "locate_chunks",
    "operation_to_ops",
    "parse_patch",
    "read_document",
    "render_diff",
    "render_patch",
]
