"""Settled records in fewer bytes, and the same when they are read."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.edges.store.shrinking import DICTIONARY, MARK, shrunk, whole
from tests.fakes.actions import make_action


@given(record=st.binary(max_size=5_000))
def test_a_record_is_read_as_it_was_written(record: bytes) -> None:
    assert whole(shrunk(record)) == record or record.startswith(MARK)


def test_an_action_takes_less_than_two_thirds_of_the_room() -> None:
    record = msgspec.msgpack.encode(make_action(1))
    assert len(shrunk(record)) < len(record) * 2 / 3
    assert whole(shrunk(record)) == record


def test_what_does_not_shrink_stays_as_it_is() -> None:
    for record in (b"", b"\x80", hashlib.sha256(b"noise").digest()):
        assert shrunk(record) == record


def test_no_record_begins_with_the_mark() -> None:
    assert msgspec.msgpack.encode(make_action(1))[:1] != MARK
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(MARK)


def test_the_words_never_change_for_what_was_written_with_them_could_not_be_read() -> None:
    assert hashlib.sha256(DICTIONARY).hexdigest() == "dce9b813c7fb4f9ba02c67f513fc35b6068d74c7e7f7a2b9c3f88698c0ed8753"


def test_a_record_of_an_earlier_version_is_read() -> None:
    written = bytes.fromhex("c16b821bd2883065a121306491dcc80a00")
    assert whole(written) == b"\x82\xa8identity\x81\xa9action_id\xa11\xaesettled_at_ms\x05"
