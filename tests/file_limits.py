"""A disk that is full, as far as files of this process are concerned."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def limit_file_size(size: int) -> Generator[None]:
    """Let no file grow beyond this size: a write stops there, in the middle, and the next one fails."""
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
