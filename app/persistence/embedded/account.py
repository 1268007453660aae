"""The operating system account that PostgreSQL runs as: ours, or another for root, which it refuses."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import DatabaseError

_UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class Account:
    """A user and group id, and whether they are those of this process."""

    uid: int
    gid: int
    is_self: bool

    @property
    def popen(self) -> dict[str, Any]:
        """Arguments for ``subprocess`` that start a program as this account."""
        return {} if self.is_self else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, folder: Path) -> bool:
        """Whether this account may traverse every folder down to and including ``folder``."""
        if self.is_self:
            return os.access(folder, os.X_OK)
        # Asked of the kernel by trying: access lists and mount options make mode bits tell half the truth.
        command = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
        try:
            done = subprocess.run(command, cwd="/", stderr=subprocess.DEVNULL, check=False, **self.popen)
        except OSError as error:
            raise DatabaseError(
                f"PostgreSQL does not run as root, and this root may not run it as another user ({error.strerror}); "
                "start Threadkeep as a normal user or set DATABASE_URL"
            ) from None
        return done.returncode == 0

    def own(self, path: Path) -> None:
        """Make this account the owner of ``path``."""
        if not self.is_self:
            os.chown(path, self.uid, self.gid)


def choose_account(cluster: Path) -> Account:
    """The account for the files in ``cluster``: their owner if we are root, else that of this process."""
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        return Account(uid, gid, is_self=True)
    if cluster.is_dir() and (found := cluster.stat()).st_uid != 0:
        return Account(found.st_uid, found.st_gid, is_self=False)
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise DatabaseError(
            f"PostgreSQL does not run as root and this system has no user {_UNPRIVILEGED}; "
            "start Threadkeep as a normal user or set DATABASE_URL"
        ) from None
    return Account(entry.pw_uid, entry.pw_gid, is_self=False)
