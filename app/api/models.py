"""The configured chat models."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deps import Injected
from app.api.responses import Json

router = APIRouter(prefix="/models", tags=["models"])


@router.get("")
async def list_models(injected: Injected) -> Json:
    """Names, windows in tokens, and whether each can be used; never keys or addresses."""
    models = [
        {
            "name": model.name,
            "display_name": model.display_name,
            "description": model.description,
            "model": model.model,
            **{f"supports_{ability}": able for ability, able in model.supports.items()},
            "context_window": model.context_window,
            "available": model.available,
            "reason": model.reason,
            "default": model.name == injected.models.default,
        }
        for model in injected.models.describe()
    ]
    return Json({"models": models, "token_usage": {"enabled": True}})
