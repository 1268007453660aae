"""``python -m app keys``: the keys that people show when ``auth.type`` is ``api_key``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from app.config import Settings
from app.main import prepared_database
from app.persistence.accounts import AccountStore, KeyRecord
from app.services.accounts.service import KeyAccounts

_SPAN = re.compile(r"([1-9]\d{0,4})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_COLUMNS = ("KEY ID", "OWNER", "ADMIN", "CREATED", "EXPIRES", "REVOKED", "LAST USED")


def add_keys(commands: Any, common: argparse.ArgumentParser) -> None:
    """The subcommand ``keys``; ``common`` are the options of every command."""
    parser = commands.add_parser("keys", help="makes, lists and revokes the keys of people")
    actions = parser.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", parents=[common], help="makes a key and prints it, this once")
    create.add_argument(
        "--owner", required=True, help="whose threads it opens; '' owns what was there before accounts"
    )
    create.add_argument("--admin", action="store_true", help="may act for every owner")
    create.add_argument(
        "--expires", type=_expiry, metavar="WHEN", help="12h, 30d, 8w or 2027-12-31 (UTC); never without it"
    )
    listing = actions.add_parser("list", parents=[common], help="lists keys, without the keys themselves")
    listing.add_argument("--owner", help="only those of this owner")
    revoke = actions.add_parser("revoke", parents=[common], help="makes a key worthless")
    revoke.add_argument("key_id", metavar="ID", help="the key's id, as the list shows it")


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


def _expiry(text: str) -> datetime:
    now = datetime.now(UTC)
    try:
        span = _SPAN.fullmatch(text)
        end = now + int(span[1]) * _UNITS[span[2]] if span else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 12h, 30d, 8w nor a date") from None
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    if end <= now:
        raise argparse.ArgumentTypeError(f"{text!r} is over already")
    return end
