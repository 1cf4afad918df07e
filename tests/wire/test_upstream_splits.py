"""The reader, whatever packets the bytes come in: Hypothesis draws the splits."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.http import Integrity
from tests.wire.test_upstream_reader import CHUNKED, MALFORMED_HEADS, NO_HEADS, SHAPES, Result, read


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_any_split_of_a_response_into_packets_gives_the_same(name: str, data: st.DataObject) -> None:
    shape = SHAPES[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(shape.raw) - 1))))
    pieces = [shape.raw[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]

    assert read(*pieces, method=shape.method) == read(shape.raw, method=shape.method)


@given(st.sampled_from(sorted(MALFORMED_HEADS | NO_HEADS)), st.lists(st.integers(1, 400), max_size=4))
def test_any_split_of_what_is_no_response_gives_the_same(name: str, cuts: list[int]) -> None:
    raw = (MALFORMED_HEADS | NO_HEADS)[name]
    edges = sorted({min(cut, len(raw)) for cut in cuts})
    pieces = [raw[start:end] for start, end in zip([0, *edges], [*edges, None], strict=True)]

    assert read(*pieces) == read(raw)


@given(st.lists(st.binary(max_size=40), max_size=8), st.binary(min_size=1, max_size=8))
def test_a_chunked_body_is_read_back_and_any_byte_after_it_is_trailing(chunks: list[bytes], after: bytes) -> None:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk) + b"0\r\n\r\n"

    assert read(CHUNKED + coded) == Result(200, b"".join(chunks), reusable=True)
    assert read(CHUNKED + coded + after) == Result(200, b"".join(chunks), Integrity.TRAILING)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_bytes_at_all_make_the_reader_raise(pieces: list[bytes]) -> None:
    read(*pieces, eof=True)
    read(CHUNKED, *pieces, eof=True)
    read(b"HTTP/1.1 200 OK\r\n", *pieces, eof=True)
