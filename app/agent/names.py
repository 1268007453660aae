"""What clients call the hosted graphs: by name, by alias, or by a stable id."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from app.config import AGENT_ALIASES
from app.errors import InvalidInput, NotFound

NAMESPACE = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")


def assistant_id(name: str) -> str:
    """The stable id of the assistant that stands for a graph."""
    return str(uuid.uuid5(NAMESPACE, name))


def resolve_name(names: Sequence[str], assistant_id_or_name: str) -> str:
    """The one of ``names`` that is meant. Raises InvalidInput for an unknown name, NotFound for an unknown uuid."""
    for name in names:
        if assistant_id_or_name in (name, assistant_id(name)):
            return name
    alias = AGENT_ALIASES.get(assistant_id_or_name)
    if alias in names:
        return str(alias)
    if is_uuid(assistant_id_or_name):
        raise NotFound(f"There is no assistant {assistant_id_or_name}")
    known = ", ".join(names)
    raise InvalidInput(f"assistant_id: there is no assistant {assistant_id_or_name!r}; known: {known}")


def is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
