"""The conversations that are measured are ones that a thread could hold."""

from __future__ import annotations

import random

from app.bench.histories import Conversation, Stored, prose, text_bytes
from app.compaction.history import History
from app.compaction.repair import valid_request


def test_a_conversation_is_the_same_each_time_and_goes_on_where_it_stopped() -> None:
    whole = Conversation().take(40)
    conversation = Conversation()
    assert conversation.take(25) + conversation.take(15) == whole


def test_every_call_has_its_result_and_every_message_its_own_id() -> None:
    messages = Conversation().take(400)
    history = History.of(messages)
    assert None not in history.owners.values()
    assert not any(history.unanswered(index) for index in history.calls)
    assert len({message.id for message in messages}) == 400
    assert valid_request(messages) == messages


def test_it_holds_prose_json_and_chinese() -> None:
    messages = Conversation().take(40)
    assert any(message.text.startswith("[{") for message in messages)
    assert text_bytes(messages) > sum(len(message.text) for message in messages)


def test_stored_messages_come_back_equal_but_as_objects_of_their_own() -> None:
    messages = Conversation().take(12)
    stored = Stored(messages)
    first, second = stored.read(), stored.read()
    assert first == second == messages
    assert not {id(message) for message in first} & {id(message) for message in second}


def test_prose_is_about_as_long_as_it_was_asked_for() -> None:
    assert 1500 < len(prose(random.Random(1), 2000)) < 2500
