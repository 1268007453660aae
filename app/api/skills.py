"""The skills that agents of this service have."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from app.agent.skills import Skill
from app.api.deps import Injected
from app.api.responses import Json

router = APIRouter(prefix="/skills", tags=["skills"])


@router.get("")
async def list_skills(injected: Injected) -> Json:
    """Names, descriptions and paths as agents see them; for a broken one ``error`` says why it is not used."""
    return Json({"data": [_shown(skill) for skill in injected.skills.listed()]})


def _shown(skill: Skill) -> dict[str, Any]:
    shown = {"name": skill.name, "description": skill.description, "path": skill.path}
    return {**shown, "error": skill.error} if skill.error else shown
