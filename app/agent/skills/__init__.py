"""Skills: folders with a SKILL.md that the operator installs and agents read when a task calls for one."""

from app.agent.skills.capture import SkillCapture
from app.agent.skills.catalogue import Skill, SkillCatalogue
from app.agent.skills.view import AgentSkills

__all__ = ["AgentSkills", "Skill", "SkillCapture", "SkillCatalogue"]
