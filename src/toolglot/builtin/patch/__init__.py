"""The patch language of many models: read it, find its places in a file, make the new file. No file is touched here."""

from toolglot.builtin.patch.apply import Document, Edit, edited, read_document, unified
from toolglot.builtin.patch.locate import Spot, locate
from toolglot.builtin.patch.parse import (
    AddFile,
    Chunk,
    DeleteFile,
    Op,
    Operation,
    UpdateFile,
    operation_to_ops,
    parse_patch,
    rendered,
)

__all__ = [
    "AddFile",
    "Chunk",
    "DeleteFile",
    "Document",
    "Edit",
    "Op",
    "Operation",
    "Spot",
    "UpdateFile",
    "edited",
    "locate",
    "operation_to_ops",
    "parse_patch",
    "read_document",
    "rendered",
    "unified",
]
