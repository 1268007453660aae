"""Secrets in text: what they look like, and how they are replaced by placeholders."""

from app.redaction.redactor import PLACEHOLDER, Redactor
from app.redaction.shape import Kind, Shape
from app.redaction.shapes import SHAPES

__all__ = ["PLACEHOLDER", "SHAPES", "Kind", "Redactor", "Shape"]
