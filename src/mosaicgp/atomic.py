"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BESIDE = ".part"  # ending of files that are being written


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside to write to, moved into place at the end, removed if anything goes wrong."""
    beside = path.with_name(path.name + BESIDE)
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
