"""The patch language that many models write: parsing it, locating its chunks in a file, applying them. Touches no file."""

from toolglot.builtin.edit.patch.apply import apply_placements
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
    "PatchOp",
    "PatchOperation",
    "Placement",
    "UpdateFile",
    "apply_placements",
    "locate_chunks",
    "operation_to_ops",
    "parse_patch",
    "render_patch",
]
