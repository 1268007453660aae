"""``python -m app migrate``: the database is brought up to date, and nothing else happens."""

from __future__ import annotations

import argparse

from app.commands.say import say
from app.config import Settings
from app.persistence.prepared import prepared_database


async def migrations(settings: Settings, arguments: argparse.Namespace) -> None:
    """Bring the database up to date and stop. Raises DatabaseError."""
    async with prepared_database(settings) as database:
        say(f"Database is up to date: {database.label}")
