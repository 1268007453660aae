"""Two lists of loaded skills become one (rule G2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.agent.channels.skills import MAX_SKILLS, SkillRef, merge_skills


def skill(path: str, loaded_at: str = "") -> SkillRef:
    return SkillRef(name=path, path=path, description="", loaded_at=loaded_at)


LISTS = st.lists(st.builds(skill, st.sampled_from("abcdefghijkl"), st.sampled_from("123")), max_size=20)


def paths(skills: list[SkillRef]) -> str:
    return "".join(entry["path"] for entry in skills)


def test_a_skill_that_is_read_again_moves_to_the_end_as_it_was_read_last() -> None:
    merged = merge_skills([skill("a", "1"), skill("b", "1"), skill("c", "1")], [skill("a", "2")])
    assert paths(merged) == "bca"
    assert merged[-1]["loaded_at"] == "2"


def test_the_oldest_go_when_there_are_more_than_eight() -> None:
    merged = merge_skills([skill(path) for path in "abcdefgh"], [skill("i"), skill("j")])
    assert paths(merged) == "cdefghij"


def test_nothing_and_something_is_something() -> None:
    assert merge_skills(None, None) == []
    assert merge_skills(None, [skill("a")]) == merge_skills([skill("a")], []) == [skill("a")]


@given(LISTS, LISTS)
def test_a_merge_is_short_names_each_path_once_and_ends_with_what_is_newest(
    first: list[SkillRef], second: list[SkillRef]
) -> None:
    before = list(first)
    merged = merge_skills(first, second)
    assert first == before
    assert len(merged) <= MAX_SKILLS
    assert len(set(paths(merged))) == len(merged)
    assert merged[-1:] == (second or first)[-1:]
    newest = {entry["path"]: entry for entry in (*first, *second)}
    assert all(newest[entry["path"]] == entry for entry in merged)


@given(LISTS, LISTS, LISTS)
def test_how_writes_are_grouped_does_not_matter(
    first: list[SkillRef], second: list[SkillRef], third: list[SkillRef]
) -> None:
    assert merge_skills(merge_skills(first, second), third) == merge_skills(
        first, merge_skills(second, third)
    )
    assert merge_skills(merge_skills(first, second), second) == merge_skills(first, second)
