"""The folder of an embedded PostgreSQL: what lies where, who holds it, and how others reach its server.

Normally ``<data folder>/postgres``. If the account that runs PostgreSQL cannot get there (root's home is
closed to everybody else), it is one under /var/lib, and ``<data folder>/postgres/elsewhere`` names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from app.errors import DatabaseError
from app.persistence.embedded.account import Account, choose_account

USER = "threadkeep"
DATABASE = "threadkeep"

_ELSEWHERE = Path("/var/lib/threadkeep")
# initdb puts the path of its own program, which for root lies in this folder, in double quotes for a shell.
_SHELL_SPECIAL = set('"$`\\\n')
# A socket's address holds 104 bytes on some systems, with the names that follow the folder's.
_LONGEST_TEMPORARY_FOLDER = 60


@dataclass(frozen=True)
class Access:
    """How to reach the server of ``home``: its socket's folder, the password, and the process that keeps it."""

    home: str
    socket: str
    password: str
    keeper_pid: int

    def url(self, database: str = DATABASE) -> str:
        # The port is named because libpq would otherwise take it from PGPORT.
        return f"postgresql://{USER}:{self.password}@/{database}?host={quote(self.socket, safe='')}&port=5432"


@dataclass(frozen=True)
class Home:
    """The places inside the folder, and the account whose server lives there."""

    folder: Path
    account: Account

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def try_lock(self) -> int | None:
        """Become the one process that keeps the server: a descriptor to close when it stops, or None."""
        path = self.folder / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.share(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def read_access(self) -> Access | None:
        """How others reach the server, as its last keeper wrote it down. None if that is missing or damaged."""
        try:
            return Access(**json.loads((self.folder / "access.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def claim_access(self) -> Access:
        """Write down how to reach the server that this process is about to start.

        Socket and password stay the same from keeper to keeper, so that open pools find the next server.
        """
        last = self.read_access()
        password = last.password if last else secrets.token_hex(32)
        access = Access(str(self.folder), self._socket_like(last), password, os.getpid())
        unfinished = self.folder / "access.json.new"
        unfinished.touch(0o600)
        with unfinished.open("w") as file:
            json.dump(asdict(access), file)
            file.flush()
            os.fsync(file.fileno())
        self.share(unfinished)
        unfinished.replace(self.folder / "access.json")
        return access

    def share(self, path: Path) -> None:
        """Give ``path`` to the folder's owner, so that one start as root does not lock a normal user out."""
        if os.geteuid() == 0:
            owner = self.folder.stat()
            os.chown(path, owner.st_uid, owner.st_gid)

    def _socket_like(self, last: Access | None) -> str:
        # In the copy of a data folder, what is written down belongs to the server of the original.
        if last is None or last.home != str(self.folder):
            return self._new_socket()
        return last.socket if _make_socket_folder(Path(last.socket), self.account) else self._new_socket()

    def _new_socket(self) -> str:
        # Not in the data folder, whose path may be longer than the address of a socket may be.
        for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
            if len(os.fsencode(parent)) <= _LONGEST_TEMPORARY_FOLDER and self.account.can_enter(Path(parent)):
                folder = tempfile.mkdtemp(prefix="threadkeep-", dir=parent)
                self.account.own(Path(folder))
                return folder
        raise DatabaseError(
            "No temporary folder is fit for the socket of the database; set TMPDIR to a short path"
        )


def open_home(data_dir: Path) -> Home:
    """Find or make the folder for the database of ``data_dir``.

    Raises OSError if that cannot be done, DatabaseError if the database is lost or nobody could run it.
    """
    near = data_dir.resolve() / "postgres"
    _make_folders(near)
    pointer = near / "elsewhere"
    if pointer.exists():
        return _open_elsewhere(pointer)
    account = choose_account(near / "cluster")
    if account.can_enter(near) and (account.is_self or not _SHELL_SPECIAL & set(str(near))):
        return Home(near, account)
    far = _ELSEWHERE / hashlib.sha256(os.fsencode(near)).hexdigest()[:16]
    _make_folders(far)
    if not account.can_enter(far):
        raise DatabaseError(
            f"PostgreSQL does not run as root, and its account can enter neither {near} nor {far}; "
            "choose another data folder"
        )
    unfinished = near / f"elsewhere.{os.getpid()}"
    unfinished.write_text(str(far))
    unfinished.replace(pointer)
    return Home(far, account)


def _open_elsewhere(pointer: Path) -> Home:
    folder = Path(pointer.read_text())
    if not folder.is_dir():
        raise DatabaseError(
            f"The database of this data folder was in {folder}, which is gone; "
            f"delete {pointer} to begin with an empty one"
        )
    return Home(folder, choose_account(folder / "cluster"))


def _make_folders(folder: Path) -> None:
    # Only folders made here get a mode: they are ours, and another account's server must get through.
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)


def _make_socket_folder(folder: Path, account: Account) -> bool:
    try:
        folder.mkdir(0o700)
        account.own(folder)
    except FileExistsError:
        # Somebody else may have made a folder of this name in the public folder for temporary files.
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and found.st_mode & 0o077 == 0
    except OSError:
        return False
    return True
