"""Values of a body by JSON pointer (RFC 6901), in forms and JSON alike."""

import pytest

from proxy.core.payload import INVALID, Node, Number, Payload, flat, parse_json, text_of, walk
from tests.core.pure_bodies import form, json_, parts

RECORD = b'{"amount":5400,"on":true,"none":null,"to":["a","b"],"card":{"cvc":"7","a/b":1,"m~n":2},"list":[{"id":1},{}]}'


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/amount", ["5400"]),
        ("/on", ["true"]),
        ("/none", []),
        ("/to", []),
        ("/to/0", ["a"]),
        ("/to/*", ["a", "b"]),
        ("/to/2", []),
        ("/to/-1", []),
        ("/card/cvc", ["7"]),
        ("/card/a~1b", ["1"]),
        ("/card/m~0n", ["2"]),
        ("/list/*/id", ["1"]),
        ("/amount/0", []),
        ("/nothing", []),
    ],
)
def test_a_pointer_finds_in_json(pointer: str, found: list[str]) -> None:
    assert [text for node in json_(RECORD).values(pointer) if (text := text_of(node)) is not None] == found


@pytest.mark.parametrize(
    ("body", "pointer", "found"),
    [
        (b"amount=5400&x=1", "/amount", ["5400"]),
        (b"card[number]=42&card[exp][year]=30", "/card/exp/year", ["30"]),
        (b"card%5Bnumber%5D=42", "/card/number", ["42"]),
        (b"a=1&a=2", "/a", ["1", "2"]),
        (b"to[]=a&to[]=b", "/to", [["a", "b"]]),
        (b"to[0]=a&to[1]=b", "/to", [["a", "b"]]),
        (b"to[0]=a", "/to/0", ["a"]),
        (b"a/b=1", "/a~1b", ["1"]),
        (b"a=", "/a", [""]),
        (b"b=1", "/a", []),
        (b"ab=1", "/a", []),
    ],
)
def test_a_pointer_finds_in_a_form(body: bytes, pointer: str, found: list[Node]) -> None:
    assert form(body).values(pointer) == found


@pytest.mark.parametrize(
    ("payload", "pointer", "one"),
    [
        (form(b"a=1"), "/a", "1"),
        (form(b"a=1&a=1"), "/a", None),
        (form(b"a[]=1"), "/a", None),
        (form(b"b=1"), "/a", None),
        (json_(b'{"a":1.50}'), "/a", "1.50"),
        (json_(b'{"a":false}'), "/a", "false"),
        (json_(b'{"a":1,"a":1}'), "/a", None),
        (json_(b'{"a":null}'), "/a", None),
        (json_(b'{"a":[1]}'), "/a", None),
        (json_(b'{"a":{}}'), "/a", None),
        (parts(("a", b"1")), "/a", None),
    ],
)
def test_the_one_value_at_a_pointer_is_none_where_it_is_missing_twice_there_or_no_scalar(
    payload: Payload, pointer: str, one: str | None
) -> None:
    assert payload.one(pointer) == one


def test_the_empty_pointer_is_the_whole() -> None:
    tree = parse_json(b"[1]")

    assert list(walk(tree, "")) == [tree]


def test_scalars_of_a_node_come_flat_and_in_order() -> None:
    tree = json_(b'[{"a":["x",null,{"b":1}]},true,"y"]').tree

    assert isinstance(tree, list)
    assert flat(tree) == ["x", "1", "true", "y"]


def test_a_number_is_kept_as_it_was_written_and_is_no_string() -> None:
    assert isinstance(next(walk(parse_json(b"[1.50e+1]"), "/0")), Number)
    assert not isinstance(next(walk(parse_json(b'["1.50"]'), "/0")), Number)


@pytest.mark.parametrize("text", [b"", b"tru", b"[1,]", b"{'a':1}", b"[01]", b"[1] [2]", b"\xff", b'"\\x"', b"[.5]"])
def test_what_is_no_json_is_invalid(text: bytes) -> None:
    assert parse_json(text) is INVALID


@pytest.mark.parametrize(
    "text",
    [b"null", b'"a"', b" [ ] ", b"9" * 10_000, b'"' + b"[" * 1000 + b'"', b"[" * 200 + b"]" * 200, b'["\\"[\\\\"]'],
    ids=["null", "a string", "space", "a number of ten thousand digits", "brackets as text", "200 deep", "escapes"],
)
def test_what_is_json_is_read(text: bytes) -> None:
    assert parse_json(text) is not INVALID
