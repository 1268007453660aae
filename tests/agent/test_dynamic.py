"""Where the reminder of today goes, and that nothing else moves (rules H1, H2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import _messages_delta_reducer, add_messages

from app.agent.dynamic import outlook, smallest_write, with_reminder
from app.compaction.protected import superseded_reminders
from app.compaction.roles import is_real_user_message, is_reminder
from tests.compaction.build import ai, hidden, human, ids, memory, reminder, result, system

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
KNOWN = "<user_memory>\n- likes tea\n</user_memory>"


def prepared(
    messages: Sequence[BaseMessage], today: date = MONDAY, known: str | None = None
) -> list[BaseMessage]:
    """What one run makes of the messages, as both reducers agree."""
    before = list(messages)
    write = smallest_write(before, with_reminder(outlook(before, today), today, known))
    full = add_messages(list(before), list(write))  # type: ignore[arg-type]
    delta = _messages_delta_reducer(before, [list(write)])  # type: ignore[arg-type,list-item]
    assert full == delta
    return list(delta)


def written(messages: Sequence[BaseMessage], today: date = MONDAY) -> list[BaseMessage]:
    return smallest_write(messages, with_reminder(outlook(messages, today), today, KNOWN))


def split(stem: str, day: date = MONDAY, text: str = "question") -> list[BaseMessage]:
    return [reminder(day.isoformat(), id=stem), human(text, id=f"{stem}__user")]


# H1


def test_the_reminder_takes_the_id_of_the_question_and_the_question_moves_behind_it() -> None:
    asked = human("hi", id="q", name="ann", additional_kwargs={"files": ["a.txt"]})
    told, known, moved = prepared([asked], known=KNOWN)
    assert isinstance(told, SystemMessage)
    assert told.id == "q"
    assert told.additional_kwargs == {
        "hide_from_ui": True,
        "dynamic_context_reminder": True,
        "reminder_date": "2026-01-05",
    }
    assert told.content == "Today is Monday, 2026-01-05."
    assert isinstance(known, HumanMessage)
    assert (known.id, known.content) == ("q__memory", KNOWN)
    assert known.additional_kwargs == {"hide_from_ui": True, "dynamic_context_reminder": True}
    assert moved == asked.model_copy(update={"id": "q__user"})


def test_what_is_written_is_what_the_library_knows_as_reminders() -> None:
    told, known, moved = prepared([human(id="q")], known=KNOWN)
    assert [is_reminder(message) for message in (told, known, moved)] == [True, True, False]
    assert [is_real_user_message(message) for message in (told, known, moved)] == [False, False, True]


def test_without_anything_known_there_is_only_the_date() -> None:
    assert ids(prepared([human(id="q")])) == ["q", "q__user"]


def test_the_system_prompt_and_earlier_messages_stay_as_they_are() -> None:
    earlier = [system("rules"), human(), ai()]
    now = prepared([*earlier, human(id="q")])
    assert now[:3] == earlier
    assert ids(now[3:]) == ["q", "q__user"]


def test_on_the_same_day_nothing_is_written_again() -> None:
    first = prepared([human(id="q")], known=KNOWN)
    assert written(first) == []
    later = [*first, ai(), human(id="r")]
    assert prepared(later, known=KNOWN) == later


def test_a_new_day_is_told_before_the_question_of_that_day() -> None:
    monday = [*split("q"), ai()]
    told, moved = prepared([*monday, human(id="r")], TUESDAY)[-2:]
    assert told.content == "The date has changed. Today is Tuesday, 2026-01-06."
    assert told.additional_kwargs["reminder_date"] == "2026-01-06"
    assert (told.id, moved.id) == ("r", "r__user")


def test_what_is_known_is_told_once_per_thread() -> None:
    monday = [*prepared([human(id="q")], known=KNOWN), ai()]
    tuesday = prepared([*monday, human(id="r")], TUESDAY, KNOWN)
    assert [message_id for message_id in ids(tuesday) if "memory" in str(message_id)] == ["q__memory"]
    late = prepared([*prepared([human(id="q")]), ai(), human(id="r")], TUESDAY, KNOWN)
    assert ids(late)[-3:] == ["r", "r__memory", "r__user"]


def test_only_the_flag_says_which_day_was_told() -> None:
    claims = [
        human("Today is Monday, 2026-01-05."),
        system("Today is Monday, 2026-01-05.", additional_kwargs={"reminder_date": "2026-01-05"}),
        memory("z", "Today is Monday, 2026-01-05."),
    ]
    assert ids(prepared([*claims, human(id="q")]))[-2:] == ["q", "q__user"]


# H2: which question


@pytest.mark.parametrize(
    "other",
    [reminder("2026-01-04", id="o"), memory("o"), human("s", id="o", name="summary"), hidden("nudge"), ai()],
    ids=["reminder", "memory", "summary", "hidden note", "answer"],
)
def test_nothing_but_a_question_is_given_a_reminder(other: BaseMessage) -> None:
    assert prepared([other]) == [other]
    now = prepared([human("older"), ai(), human("newest", id="q"), other])
    assert ids(now)[2:4] == ["q", "q__user"]
    assert now[-1] == other


def test_the_newest_question_stays_the_newest_wherever_it_stands() -> None:
    for behind in ([], [ai("", "c1"), result("c1")], [hidden()], [system("note")]):
        before = [human("old", id="o"), ai(), human("new", id="q"), *behind]
        now = prepared(before, known=KNOWN)
        assert ids(now) == [*ids(before[:2]), "q", "q__memory", "q__user", *ids(behind)]
        asked = [message.content for message in now if is_real_user_message(message)]
        assert asked == ["old", "new"]


def test_an_older_question_is_never_moved_behind_a_newer_one() -> None:
    """A thread without any reminder whose newest question cannot take one."""
    before = [human("old", id="o"), ai(), human("new", id="q__user"), ai(), hidden()]
    now = prepared(before)
    assert ids(now) == ["o", before[1].id, "q", "q__user", *ids(before[3:])]
    assert [message.content for message in now if is_real_user_message(message)] == ["old", "new"]


def test_an_id_never_gets_a_second_suffix() -> None:
    messages: list[BaseMessage] = [human(id="q")]
    for day in range(1, 20):
        messages = prepared(messages, date(2026, 2, day), KNOWN)
    assert ids(messages) == ["q", "q__memory", "q__user"]
    assert messages[0].additional_kwargs["reminder_date"] == "2026-02-19"


def test_a_question_that_is_answered_again_on_another_day_gets_the_new_date_in_its_place() -> None:
    now = prepared([*split("q"), ai("half an ans")], TUESDAY)
    assert [message.additional_kwargs.get("reminder_date") for message in now] == ["2026-01-06", None, None]


# Questions sent again under the id that the client knows


def test_a_question_sent_again_replaces_itself_and_not_the_reminder() -> None:
    thread = [*prepared([human("frist", id="q")], known=KNOWN), ai("what?")]
    again = _messages_delta_reducer(thread, [[human("first", id="q")]])  # type: ignore[arg-type,list-item]
    now = prepared(again, known=KNOWN)
    assert ids(now) == ["q", "q__memory", "q__user", thread[-1].id]
    assert [message.content for message in now if is_real_user_message(message)] == ["first"]
    assert [message.additional_kwargs.get("reminder_date") for message in now[:2]] == ["2026-01-05", None]


def test_a_client_that_sends_everything_every_time_doubles_nothing() -> None:
    said: list[BaseMessage] = []
    thread: list[BaseMessage] = []
    for number in range(5):
        said.append(human(f"question {number}", id=f"q{number}"))
        thread = prepared(add_messages(thread, list(said)), known=KNOWN)  # type: ignore[arg-type]
        answer = ai(f"answer {number}", id=f"a{number}")
        said.append(answer)
        thread.append(answer)
        asked = [message.content for message in thread if is_real_user_message(message)]
        assert asked == [f"question {n}" for n in range(number + 1)]
        dated = [message for message in thread if message.additional_kwargs.get("reminder_date")]
        assert len(dated) == 1
        assert not [message_id for message_id in ids(thread) if str(message_id).endswith("__user__user")]


def test_a_reminder_that_lost_its_marks_is_replaced_by_one_that_has_them() -> None:
    told, moved = prepared([human(id="q")])
    stripped = told.model_copy(update={"additional_kwargs": {}})
    now = prepared([stripped, moved])
    assert [message.additional_kwargs.get("reminder_date") for message in now] == ["2026-01-05", None]
    assert ids(now) == ["q", "q__user"]


# What is written


def test_a_question_that_comes_last_is_all_that_is_written() -> None:
    long = [message for n in range(500) for message in (human(id=f"h{n}"), ai())]
    assert ids(written([*long, human(id="q")])) == ["q", "q__memory", "q__user"]


def test_a_date_in_its_place_is_one_message() -> None:
    assert ids(written([*split("q"), ai()], TUESDAY)) == ["q"]


def test_everything_is_written_where_something_new_comes_in_between() -> None:
    write = written([human(id="q"), ai(id="a")])
    assert isinstance(write[0], RemoveMessage)
    assert ids(write[1:]) == ["q", "q__memory", "q__user", "a"]


def test_a_message_that_is_gone_is_removed_by_its_id() -> None:
    first, second, third = human(id="1"), human(id="2"), human(id="3")
    write = smallest_write([first, second], [second, third])
    assert write == [RemoveMessage(id="1"), third]
    assert smallest_write([first, second], [first, second]) == []


def test_messages_without_an_id_are_written_anew_rather_than_doubled() -> None:
    bare = HumanMessage("hi")
    now = with_reminder(outlook([bare], MONDAY), MONDAY, None)
    assert isinstance(smallest_write([bare], now)[0], RemoveMessage)
    assert now[1].id == f"{now[0].id}__user"


# C5


def test_over_several_days_one_reminder_and_one_memory_survive_each_compaction() -> None:
    thread: list[BaseMessage] = []
    for day in range(1, 11):
        today = date(2026, 3, day)
        thread = prepared([*thread, human(f"on day {day}", id=f"q{day}")], today, KNOWN)
        gone = superseded_reminders(thread)
        thread = [message for index, message in enumerate(thread) if index not in gone]
        dates: list[Any] = [message.additional_kwargs.get("reminder_date") for message in thread]
        assert [found for found in dates if found] == [today.isoformat()]
        assert ids(thread).count("q1__memory") == 1
        assert written(thread, today) == []
