"""Responses in codings that the core cannot read are decoded for judging, within bounds."""

import brotli
import pytest
import zstandard

from proxy.core.http import Response
from proxy.edges import codings

BODY = b'{"id": "re_1", "object": "refund"}'


def coded(coding: bytes, body: bytes) -> Response:
    return Response(200, headers=((b"Content-Encoding", coding), (b"Request-Id", b"req_1")), body=body)


@pytest.mark.parametrize(
    ("coding", "body"),
    [(b"br", brotli.compress(BODY)), (b"zstd", zstandard.compress(BODY)), (b"BR", brotli.compress(BODY))],
)
def test_a_brotli_or_zstandard_body_is_decoded_and_the_other_headers_stay(coding: bytes, body: bytes) -> None:
    plain = codings.undo(coded(coding, body))
    assert (plain.body, plain.headers) == (BODY, ((b"Request-Id", b"req_1"),))


@pytest.mark.parametrize("coding", [b"br", b"zstd"])
@pytest.mark.parametrize("damage", [lambda body: body[:-3], lambda body: body + b"EXTRA", lambda body: b"garbage"])
def test_a_damaged_body_is_left_as_it_is(coding: bytes, damage: object) -> None:
    whole = brotli.compress(BODY * 50) if coding == b"br" else zstandard.compress(BODY * 50)
    response = coded(coding, damage(whole))  # type: ignore[operator]
    assert codings.undo(response) == response


@pytest.mark.parametrize("coding", [b"gzip", b"identity", b"br, gzip", b"unheard-of"])
def test_other_codings_are_left_to_the_core(coding: bytes) -> None:
    response = coded(coding, b"x")
    assert codings.undo(response) is response


@pytest.mark.parametrize("compress", [brotli.compress, zstandard.compress])
def test_a_body_that_decodes_to_more_than_the_bound_is_left_as_it_is(
    compress: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codings, "DECODED_BYTES", 1000)
    coding = b"br" if compress is brotli.compress else b"zstd"
    response = coded(coding, compress(b"a" * 5000))  # type: ignore[operator]
    assert codings.undo(response) == response
