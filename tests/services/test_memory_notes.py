"""What a model's answer may do to what is known of a person."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from app.persistence.memory import Fact, Note
from app.services.memory.notes import KEY, MAX_NOTES, Notes, changes, looks_secret, read_notes

THEN = datetime(2026, 1, 5, tzinfo=UTC)


def fact(key: str, text: str = "", *, edited: bool = False, age: int = 0) -> Fact:
    at = THEN - timedelta(days=age)
    return Fact(key, text or key, "t", edited, created_at=at, updated_at=at)


# Reading an answer

NAME = {"name": "Her name is Anna."}


@pytest.mark.parametrize(
    "reply",
    [
        '{"facts": [{"key": "name", "text": "Her name is Anna."}], "forget": []}',
        'Here you are:\n```json\n{"facts": [{"key": "name", "text": "Her name is Anna."}]}\n```\nDone.',
        '<think>{"facts": [{"key": "x", "text": "y"}]}</think>[{"key": "name", "text": "Her name is Anna."}]',
        '{"facts": {"name": "Her name is Anna."}}',
        '{"facts": [["name", "Her name is Anna."]]}',
        '{"thought": "{["} {"facts": [{"key": " Name! ", "text": " Her name\\n is Anna. "}]}',
        '{"facts": [{"key": "name", "text": "Her name is Anna.", "confidence": 0.9}], "forget": null}',
    ],
)
def test_notes_are_found_in_whatever_stands_around_them(reply: str) -> None:
    assert read_notes(reply) == Notes(NAME)


@pytest.mark.parametrize(
    "reply", ["", "I noted nothing.", "{", "[[[[", '{"facts": 5}', "[1, 2]", '{"a": 1}', "[" * 60_000]
)
def test_an_answer_without_notes_is_none(reply: str) -> None:
    assert read_notes(reply) is None


def test_nothing_to_note_is_an_answer() -> None:
    assert read_notes('{"facts": [], "forget": []}') == Notes()
    assert read_notes("[]") == Notes()
    assert read_notes('{"forget": ["name", 5]}') == Notes(forget=("name",))


def test_a_fact_without_a_usable_key_gets_one_that_stays_the_same() -> None:
    said = '{"facts": [{"text": "Works with Rust every day at home"}, {"key": "名前", "text": "アンナ"}]}'
    first, again = read_notes(said), read_notes(said)
    assert first == again
    assert first is not None
    assert next(iter(first.facts)) == "works-with-rust-every-day"
    assert all(KEY.fullmatch(key) for key in first.facts)


def test_what_does_not_belong_into_a_text_is_taken_out_and_too_long_texts_are_left_out() -> None:
    notes = read_notes(
        '{"facts": {"a": "x\\u0000\\u001b[31m\\ud800 y\\u202e", "b": "' + "z" * 2001 + '", "c": " "}}'
    )
    assert notes == Notes({"a": "x [31m y"})


def test_no_more_than_a_few_facts_are_taken_from_one_answer() -> None:
    many = ", ".join(f'"key{n}": "text {n}"' for n in range(100))
    notes = read_notes(f'{{"facts": {{{many}}}}}')
    assert notes is not None
    assert len(notes.facts) == MAX_NOTES


# Secrets

SECRETS = [
    "The password is hunter2",
    "Their PIN is 4711",
    "password for the router is blue",
    "api_key: abcdefgh",
    "Uses the key sk-proj-abcdefghijklmnop",
    "ghp_abcdefghij1234567890",
    "AKIAIOSFODNN7EXAMPLE",
    "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "postgresql://anna:hunter2@db/x",
    "Pays with 4111 1111 1111 1111",
    "Account DE89 3704 0044 0532 0130 00",
    "Kennwort: Sommer",
    "密码是 hunter2",
    "uses 9f86d081884c7d659a2feaa0c55ad015",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_opens_a_door_is_not_kept(text: str) -> None:
    assert looks_secret(text)
    notes = read_notes(json.dumps({"facts": {"a": text}}))
    assert notes == Notes(refused=1)


@pytest.mark.parametrize(
    "text",
    [
        "Her name is Anna.",
        "Prefers short answers and pins maps on the wall",
        "Keeps reports in notes/2026/2026-01-05-weekly-report.md",
        "Phone number is +49 30 1234567",
        "Works on the tokenizer of the parser team",
        "Was born on 1980-04-12 in Köln",
        "Likes https://example.org/articles/how-to-plant-trees",
    ],
)
def test_ordinary_facts_are(text: str) -> None:
    assert not looks_secret(text)


# What is changed


def applied(
    notes: Notes, *now: Fact, seen: list[Fact] | None = None, most: int = 100
) -> tuple[dict[str, str], list[str]]:
    write, forget = changes(notes, list(now) if seen is None else seen, list(now), "thread", most)
    assert all(isinstance(note, Note) and note.thread_id == "thread" and not note.edited for note in write)
    return {note.key: note.text for note in write}, forget


def test_facts_are_added_corrected_and_forgotten_by_key() -> None:
    notes = Notes({"name": "Ann", "city": "Rome"}, forget=("team", "nothing"))
    assert applied(notes, fact("name", "Anna"), fact("team")) == ({"name": "Ann", "city": "Rome"}, ["team"])


def test_what_is_known_already_is_not_written_again() -> None:
    assert applied(Notes({"name": "Anna"}), fact("name", "Anna")) == ({}, [])


def test_a_key_that_is_both_kept_and_forgotten_is_kept() -> None:
    assert applied(Notes({"name": "Ann"}, forget=("name",)), fact("name", "Anna")) == ({"name": "Ann"}, [])


def test_what_a_person_wrote_is_changed_by_no_model() -> None:
    own = fact("name", "Anna", edited=True)
    assert applied(Notes({"name": "Bob"}, forget=("name",)), own) == ({}, [])


def test_what_was_changed_or_deleted_meanwhile_stays_so() -> None:
    seen = [fact("name", "Anna"), fact("city", "Rome")]
    notes = Notes({"name": "Ann", "city": "Oslo"}, forget=())
    assert applied(notes, fact("name", "Anna B."), seen=seen) == ({}, [])
    assert applied(Notes({}, forget=("name",)), fact("name", "Anna B."), seen=seen) == ({}, [])


def test_the_facts_that_were_not_touched_for_the_longest_time_make_room() -> None:
    known = [fact("old", age=9), fact("older", age=10), fact("own", age=99, edited=True), fact("new")]
    assert applied(Notes({"a": "1", "b": "2"}), *known, most=4) == ({"a": "1", "b": "2"}, ["older", "old"])


def test_what_a_person_wrote_does_not_make_room() -> None:
    known = [fact("x", edited=True), fact("y", edited=True)]
    assert applied(Notes({"a": "1", "b": "2"}), *known, most=3) == ({"a": "1"}, [])
    assert applied(Notes({"a": "1"}), *known, most=2) == ({}, [])


def test_a_correction_needs_no_room() -> None:
    assert applied(Notes({"x": "new"}), fact("x", "old"), fact("y"), most=2) == ({"x": "new"}, [])
