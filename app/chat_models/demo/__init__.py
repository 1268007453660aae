"""The demo model: offline, scripted, honest about having no language model behind it."""

from app.chat_models.demo.model import DemoChatModel

__all__ = ["DemoChatModel"]
