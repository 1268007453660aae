"""Skills are found in their folder; what is broken is reported and stops nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.skills import Skill, SkillCatalogue
from app.agent.skills.document import MAX_SKILL_BYTES, RESERVED_NAMES, BrokenSkill, parse_skill
from app.chat_models.demo.commands import parse_commands
from tests.support.skills import SHIPPED, skill_text, write_skill


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "skills"


@pytest.fixture
def catalogue(root: Path) -> SkillCatalogue:
    return SkillCatalogue(root, "/mnt/skills")


def errors(catalogue: SkillCatalogue) -> dict[str, str | None]:
    return {skill.name: skill.error for skill in catalogue.listed()}


# A SKILL.md


def test_front_matter_names_a_skill_and_the_rest_is_its_instructions() -> None:
    document = parse_skill(
        "---\r\nname: tidy-up\r\ndescription: >\r\n  Puts things\r\n  in order.\r\nlicense: MIT\r\n"
        "---\r\n\r\n# Do\r\n\r\n---\r\nx\r\n"
    )
    assert (document.name, document.description) == ("tidy-up", "Puts things in order.")
    assert document.instructions == "# Do\n\n---\nx"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with front matter"),
        ("# Tidy\n", "must begin with front matter"),
        ("---\nname: a\ndescription: b\n", "must begin with front matter"),
        ("\n---\nname: a\ndescription: b\n---\nx", "must begin with front matter"),
        ("---\n---\nx", "must be a mapping"),
        ("---\njust words\n---\nx", "must be a mapping"),
        ("---\n- name: a\n---\nx", "must be a mapping"),
        ("---\nname: a\ndescription: use it: always\n---\nx", "not valid YAML (line 3)"),
        ("---\nname: [a\n---\nx", "not valid YAML"),
        ("---\nname: *nowhere\n---\nx", "not valid YAML"),
        ("---\n" + "[" * 5_000 + "\n---\nx", "not valid YAML"),
        ("---\ndescription: b\n---\nx", "has no name"),
        ("---\nname:\ndescription: b\n---\nx", "has no name"),
        ("---\nname: {a: b}\ndescription: b\n---\nx", "has no name"),
        ("---\nname: a\n---\nx", "has no description"),
        ("---\nname: a\ndescription: '  '\n---\nx", "has no description"),
        ("---\nname: a\ndescription: [b]\n---\nx", "has no description"),
        (f"---\nname: a\ndescription: {'b' * 1025}\n---\nx", "1025 characters, at most 1024"),
        ("---\nname: a\ndescription: b\n---", "no instructions"),
        ("---\nname: a\ndescription: b\n---\n\n  \n", "no instructions"),
        (skill_text("Tidy"), "'Tidy' is not allowed"),
        (skill_text("tidy_up"), "not allowed"),
        (skill_text("-tidy"), "not allowed"),
        (skill_text("tidy--up"), "not allowed"),
        (skill_text("../tidy"), "not allowed"),
        (skill_text("x" * 65), "not allowed"),
        (skill_text("tool"), "/tool is a command"),
        (skill_text("compact"), "/compact is a command"),
    ],
)
def test_a_wrong_skill_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BrokenSkill) as caught:
        parse_skill(text)
    assert reason in caught.value.detail


@pytest.mark.parametrize("name", ["2024-13-99", "null", "true", "1e5"])
def test_a_name_that_looks_like_something_else_is_a_name(name: str) -> None:
    assert parse_skill(skill_text(name)).name == name


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_does_anything_but_parse_or_be_refused(head: str, body: str) -> None:
    for text in (head, f"---\n{head}\n---\n{body}"):
        try:
            document = parse_skill(text)
        except BrokenSkill:
            continue
        assert document.name
        assert document.description
        assert document.instructions


def test_the_commands_of_the_demo_model_are_reserved() -> None:
    words = {"tool", "then", "slow", "error", "think"}
    assert words <= RESERVED_NAMES
    for name in ("tidy", "thinking", "tools", "slow-down"):
        assert parse_commands(f"/{name} up") == parse_commands("nothing")


# The folder


def test_without_a_folder_there_are_no_skills(catalogue: SkillCatalogue) -> None:
    assert catalogue.listed() == []
    assert catalogue.stamp("/mnt/skills/tidy/SKILL.md") == {}


def test_the_skills_that_ship_are_fine() -> None:
    shipped = SkillCatalogue(SHIPPED, "/mnt/skills").listed()
    assert [(skill.name, skill.error) for skill in shipped] == [
        ("code-review", None),
        ("research-report", None),
    ]
    for skill in shipped:
        named = SHIPPED / skill.name
        assert all(
            f"`{path.name}`" in skill.instructions for path in named.iterdir() if path.name != "SKILL.md"
        )


def test_skills_are_found_in_folders_and_in_folders_of_folders(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "tidy")
    write_skill(root, "public/team/review")
    write_skill(root, "a/b/c/d/too-deep")
    write_skill(root, ".git/hidden")
    write_skill(root, "tidy/inner")
    (root / "README.md").write_text("No skill.")
    assert [(skill.name, skill.path) for skill in catalogue.listed()] == [
        ("review", "/mnt/skills/public/team/review/SKILL.md"),
        ("tidy", "/mnt/skills/tidy/SKILL.md"),
    ]


def test_a_broken_skill_is_listed_with_its_error_and_the_others_are_used(
    root: Path, catalogue: SkillCatalogue, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(root, "good")
    write_skill(root, "bad", "no front matter")
    (root / "binary").mkdir()
    (root / "binary" / "SKILL.md").write_bytes(b"---\0")
    write_skill(root, "huge", skill_text("huge", body="x" * MAX_SKILL_BYTES))
    (root / "folder" / "SKILL.md").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        listed = catalogue.listed()
        catalogue.listed()
    assert [skill.name for skill in catalogue.usable()] == ["good"]
    assert {skill.name: skill.error for skill in listed if skill.error} == {
        "bad": 'it must begin with front matter: a line "---", name and description, a line "---"',
        "binary": "'/mnt/skills/binary/SKILL.md' is not UTF-8 text (4 bytes), so it cannot be shown or edited.",
        "folder": "'/mnt/skills/folder/SKILL.md' is a folder, not a file.",
        "huge": f"'/mnt/skills/huge/SKILL.md' is too large: {MAX_SKILL_BYTES + 56} bytes, at most {MAX_SKILL_BYTES}.",
    }
    assert len(caplog.records) == 4
    assert "/mnt/skills/bad/SKILL.md" in caplog.text
    assert str(root) not in caplog.text


def test_links_are_reported_and_not_followed(root: Path, tmp_path: Path, catalogue: SkillCatalogue) -> None:
    outside = write_skill(tmp_path / "elsewhere", "outside").parent
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "inner").mkdir()
    (root / "inner" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (root / "NOTES.md").symlink_to(outside / "SKILL.md")
    assert list(errors(catalogue)) == ["inner", "linked"]
    assert all("links are not followed" in str(error) for error in errors(catalogue).values())
    assert catalogue.usable() == []


def test_a_folder_of_skills_that_is_a_link_is_followed_where_it_is_configured(tmp_path: Path) -> None:
    """The operator may name a link; ``SkillsSettings.folder`` resolves it, so that nobody can move it later."""
    write_skill(tmp_path / "real", "tidy")
    (tmp_path / "skills").symlink_to(tmp_path / "real")
    (broken,) = SkillCatalogue(tmp_path / "skills", "/mnt/skills").listed()
    assert (broken.name, broken.path) == ("skills", "/mnt/skills")
    assert "links are not followed" in str(broken.error)
    resolved = SkillCatalogue((tmp_path / "skills").resolve(), "/mnt/skills")
    assert [skill.name for skill in resolved.usable()] == ["tidy"]


def test_of_two_skills_with_one_name_the_first_is_used(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "b", skill_text("tidy", "The second."))
    write_skill(root, "a", skill_text("tidy", "The first."))
    first, second = catalogue.listed()
    assert (first.description, first.error) == ("The first.", None)
    assert second.error == "the name tidy is taken by /mnt/skills/a/SKILL.md"
    assert catalogue.stamp("/mnt/skills/b/SKILL.md") == {}


def test_a_skill_file_beside_the_folders_is_reported(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "tidy")
    (root / "SKILL.md").write_text(skill_text("stray"))
    assert errors(catalogue) == {"skills": "a skill needs a folder of its own", "tidy": None}


def test_a_path_that_nothing_could_keep_is_reported(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, f"{'a' * 200}/{'b' * 100}", skill_text("deep"))
    (broken,) = catalogue.listed()
    assert broken.error == "its path has 322 characters, at most 300"


def test_changes_are_seen_without_a_restart(root: Path, catalogue: SkillCatalogue) -> None:
    path = write_skill(root, "tidy", "broken")
    assert [skill.error is None for skill in catalogue.listed()] == [False]
    path.write_text(skill_text("tidy", "One."))
    assert [skill.description for skill in catalogue.usable()] == ["One."]
    path.write_text(skill_text("tidy", "Two."))
    assert [skill.description for skill in catalogue.usable()] == ["Two."]
    write_skill(root, "more")
    assert [skill.name for skill in catalogue.usable()] == ["more", "tidy"]
    path.unlink()
    assert [skill.name for skill in catalogue.usable()] == ["more"]


def test_what_did_not_change_is_not_read_again(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "tidy")
    (first,), (second,) = catalogue.listed(), catalogue.listed()
    assert first is second


def test_a_skill_says_nothing_of_its_text_when_it_is_printed(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "tidy", skill_text(body="Secret sauce."))
    (skill,) = catalogue.listed()
    assert isinstance(skill, Skill)
    assert "Secret sauce" in skill.instructions
    assert "Secret sauce" not in repr(skill)


def test_the_stamp_is_for_the_skill_file_alone(root: Path, catalogue: SkillCatalogue) -> None:
    write_skill(root, "tidy")
    (root / "tidy" / "more.md").write_text("More.")
    entry = catalogue.stamp("/mnt/skills//tidy/./SKILL.md")["skill_context_entry"]
    assert (entry["name"], entry["path"], entry["description"]) == (
        "tidy",
        "/mnt/skills/tidy/SKILL.md",
        "Puts things in order.",
    )
    for path in (
        "/mnt/skills/tidy/more.md",
        "/mnt/skills/tidy",
        "tidy/SKILL.md",
        "/mnt/skills/../x/SKILL.md",
    ):
        assert catalogue.stamp(path) == {}
