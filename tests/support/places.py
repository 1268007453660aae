"""Where the tests keep what is read and written much and is gone afterwards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 2 << 30


def quick_folder() -> Path | None:
    """A folder in memory with room for databases, or None: then the usual one for temporary files has to do.

    To copy a database of ten megabytes takes 20 ms there, and up to 400 ms on a disk that others write to.
    """
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
    return _MEMORY if usable and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES else None
