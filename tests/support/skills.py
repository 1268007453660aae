"""Skills as a test writes them."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "skills"


def skill_text(
    name: str = "tidy", description: str = "Puts things in order.", body: str = "Sort them."
) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def write_skill(root: Path, folder: str = "tidy", text: str | None = None) -> Path:
    """A skill in a folder of its own; its SKILL.md."""
    path = root / folder / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(skill_text(folder.rpartition("/")[2]) if text is None else text, encoding="utf-8")
    return path
