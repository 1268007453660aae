"""An embedded PostgreSQL for those who bring none: ``embedded_postgres(data_dir)`` and nothing else."""

from app.persistence.embedded.supervisor import embedded_postgres

__all__ = ["embedded_postgres"]
