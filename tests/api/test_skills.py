"""The skills of a service over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.gateway import serving
from tests.support.skills import SHIPPED, skill_text, write_skill


async def test_skills_are_listed_with_what_is_wrong_and_changes_are_seen(
    tmp_path: Path, database_url: str
) -> None:
    root = tmp_path / "skills"
    write_skill(root, "tidy", skill_text(body="Secret sauce."))
    broken = write_skill(root, "broken", "nothing")
    async with serving(tmp_path, database_url, work=False) as gateway, gateway.http() as http:
        response = await http.get("/skills")
        assert response.status_code == 200
        assert response.json() == {
            "data": [
                {
                    "name": "broken",
                    "description": "",
                    "path": "/mnt/skills/broken/SKILL.md",
                    "error": 'it must begin with front matter: a line "---", name and description, a line "---"',
                },
                {"name": "tidy", "description": "Puts things in order.", "path": "/mnt/skills/tidy/SKILL.md"},
            ]
        }
        assert str(tmp_path) not in response.text
        broken.write_text(skill_text("mended"))
        listed = (await http.get("/skills")).json()["data"]
        assert [(skill["name"], "error" in skill) for skill in listed] == [("mended", False), ("tidy", False)]


async def test_a_service_without_skills_lists_none(http: httpx.AsyncClient) -> None:
    assert (await http.get("/skills")).json() == {"data": []}


async def test_where_skills_are_and_where_agents_see_them_is_configured(
    tmp_path: Path, database_url: str
) -> None:
    sections = {"skills": {"path": str(SHIPPED), "container_path": "/srv/how-to/"}}
    async with serving(tmp_path, database_url, sections, work=False) as gateway, gateway.http() as http:
        listed = (await http.get("/skills")).json()["data"]
    assert [skill["path"] for skill in listed] == [
        "/srv/how-to/code-review/SKILL.md",
        "/srv/how-to/research-report/SKILL.md",
    ]
