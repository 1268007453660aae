"""``python -m app keys``: the keys that people show when ``auth.type`` is ``api_key``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from app.config import Settings
from app.persistence.accounts import AccountStore, KeyRecord
from app.persistence.prepared import prepared_database
from app.services.accounts.service import KeyAccounts

_COLUMNS = ("KEY ID", "OWNER", "ADMIN", "CREATED", "EXPIRES", "REVOKED", "LAST USED")


async def keys(settings: Settings, arguments: argparse.Namespace) -> None:
    """Raises DatabaseError, InvalidInput (owner) and NotFound (id)."""
    async with prepared_database(settings) as database:
        accounts = KeyAccounts(AccountStore(database.pool))
        match arguments.action:
            case "create":
                key, record = await accounts.create(
                    arguments.owner, admin=arguments.admin, expires_at=arguments.expires
                )
                # The key alone on stdout, so that a script can take it.
                sys.stderr.write(f"{_described(record)} It is shown this once and kept nowhere:\n")
                sys.stdout.write(f"{key}\n")
            case "list":
                sys.stdout.write(table(await accounts.listed(arguments.owner)))
            case _:
                record = await accounts.revoke(arguments.key_id)
                sys.stdout.write(f"Key {record.key_id} of {record.owner!r} is revoked.\n")


def table(records: Sequence[KeyRecord]) -> str:
    """The records in columns, for people."""
    rows = [_COLUMNS, *map(_row, records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _row(record: KeyRecord) -> tuple[str, ...]:
    times = (record.created_at, record.expires_at, record.revoked_at, record.last_used_at)
    return (record.key_id, record.owner or "''", "yes" if record.admin else "no", *map(_shown, times))


def _shown(time: datetime | None) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if time else "-"


def _described(record: KeyRecord) -> str:
    kind = "An administrator's key" if record.admin else "A key"
    until = f"until {_shown(record.expires_at)} UTC" if record.expires_at else "until it is revoked"
    return f"{kind} for {record.owner!r}, {until}, with the id {record.key_id}."
