"""The folder of an embedded PostgreSQL: what lies where, who holds it, and how others reach its server.

Normally ``<data folder>/postgres``. If the account that runs PostgreSQL cannot get there (root's home is closed
to everybody else), the folder is one under /var/lib, and ``<data folder>/postgres/elsewhere`` names it.
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

# initdb puts the path of its own program, which for root lies in this folder, in double quotes for a shell.
_SHELL_SPECIAL = set('"$`\\\n')
_ELSEWHERE = Path("/var/lib/threadkeep")
# sockaddr_un holds 108 bytes on Linux and 104 elsewhere, with the closing NUL and "/.s.PGSQL.5432.lock".
_LONGEST_SOCKET_FOLDER = 80


@dataclass(frozen=True)
class Access:
    """How to reach the server: the folder of its socket, the password, and the process that keeps it running."""

    socket: str
    password: str
    owner_pid: int

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
        """Become the one process that runs the server: a descriptor to close when it stops, or None."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
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
        """How others reach the server, as its last owner wrote it down."""
        try:
            return Access(**json.loads((self.folder / "access.json").read_text()))
        except FileNotFoundError:
            return None

    def claim_access(self) -> Access:
        """Write down how to reach the server that this process is about to start.

        Socket and password stay the same from owner to owner, so that open pools find the next server by themselves.
        """
        last = self.read_access()
        password = last.password if last else secrets.token_hex(32)
        socket = (
            last.socket
            if last and _make_socket_folder(Path(last.socket), self.account)
            else self._new_socket()
        )
        access = Access(socket, password, os.getpid())
        unfinished = self.folder / "access.json.new"
        unfinished.touch(0o600)
        unfinished.write_text(json.dumps(asdict(access)))
        unfinished.replace(self.folder / "access.json")
        return access

    def _new_socket(self) -> str:
        # Always in the folder for temporary files: the data folder's own path may be longer than a socket's may be.
        for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
            if len(os.fsencode(parent)) < _LONGEST_SOCKET_FOLDER - 20 and self.account.can_enter(
                Path(parent)
            ):
                folder = tempfile.mkdtemp(prefix="threadkeep-", dir=parent)
                self.account.own(Path(folder))
                return folder
        raise DatabaseError(
            "There is no folder with a short path for the socket of the database; set TMPDIR to one"
        )


def open_home(data_dir: Path) -> Home:
    """Find or make the folder for the database of ``data_dir``. Raises OSError, or DatabaseError if it is lost."""
    near = data_dir.resolve() / "postgres"
    _make_folders(near)
    pointer = near / "elsewhere"
    if pointer.exists():
        folder = Path(pointer.read_text())
        if not folder.is_dir():
            raise DatabaseError(
                f"The database of {data_dir} was in {folder}, which is gone; delete {pointer} to begin with an empty one"
            )
        return Home(folder, choose_account(folder / "cluster"))
    account = choose_account(near / "cluster")
    if account.can_enter(near) and (account.is_self or not _SHELL_SPECIAL & set(str(near))):
        return Home(near, account)
    far = _ELSEWHERE / hashlib.sha256(os.fsencode(near)).hexdigest()[:16]
    _make_folders(far)
    if not account.can_enter(far):
        raise DatabaseError(
            f"PostgreSQL does not run as root and its user can enter neither {near} nor {far}; choose another data folder"
        )
    unfinished = near / f"elsewhere.{os.getpid()}"
    unfinished.write_text(str(far))
    unfinished.replace(pointer)
    return Home(far, account)


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
        return (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == account.uid
            and stat.S_IMODE(found.st_mode) == 0o700
        )
    except OSError:
        return False
    return True
