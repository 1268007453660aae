"""Our own tables, by Alembic: imported only when a database is not up to date."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool, create_engine


def upgrade(url: str, folder: Path) -> None:
    """Apply the migrations in ``folder`` that the database at ``url`` does not have, each in a transaction."""
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    # libpq parses the URL, not SQLAlchemy: sockets, options and odd passwords then mean the same everywhere.
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
