"""The canonical form of a payload (CONTRACT 2.2): what is the same request, and what is another one."""

import gzip

import pytest

from proxy.core.http import Headers
from proxy.core.payload import Kind, Payload, read
from tests.core.pure_bodies import FORM, JSON, form, json_, parts

DEEP = 150

SAME = {
    "form pairs in another order": (form(b"amount=5400&charge=ch_1"), form(b"charge=ch_1&amount=5400")),
    "percent-encoding where none is needed": (form(b"note=a%2Db%61"), form(b"note=a-ba")),
    "percent-encoding in either case": (form(b"note=%c3%a9"), form(b"note=%C3%A9")),
    "brackets literal and percent-encoded": (form(b"metadata[a]=1"), form(b"metadata%5Ba%5D=1")),
    "a space as plus and as %20": (form(b"note=a+b"), form(b"note=a%20b")),
    "raw UTF-8 and its percent-encoding": (form(b"note=\xc3\xa9"), form(b"note=%C3%A9")),
    "raw UTF-8 names in another order": (form(b"\xc3\xa9=1&%C4%85=2"), form(b"%C4%85=2&%C3%A9=1")),
    "indexed lists in another order": (form(b"e[0]=a&e[1]=b"), form(b"e[1]=b&e[0]=a")),
    "an empty form": (form(b""), form(b"")),
    "a name without `=` and an empty value": (form(b"a&b=1"), form(b"a=&b=1")),
    "JSON keys in another order": (json_(b'{"a": 1, "b": 2}'), json_(b'{"b":2,"a":1}')),
    "JSON escapes": (json_(b'{"a":"\\u00e9\\/\\ud83d\\ude00"}'), json_('{"a":"é/😀"}'.encode())),
    "JSON white space": (json_(b' { "a" : [ 1 , null ] }\r\n'), json_(b'{"a":[1,null]}')),
    "escaped and plain JSON keys": (json_(b'{"\\u0061":1}'), json_(b'{"a":1}')),
    "keys deep down in another order": (json_(b'[{"a":{"x":1,"y":2}}]'), json_(b'[{"a":{"y":2,"x":1}}]')),
    "a parameter on the content type": (
        json_(b"{}"),
        read(((b"CONTENT-TYPE", b"Application/JSON; charset=utf-8"),), b" {}"),
    ),
    "a structured suffix": (json_(b"[1]"), read(((b"content-type", b"application/merge-patch+json"),), b"[1]")),
    "deep nesting": (json_(b"[" * DEEP + b"1" + b"]" * DEEP), json_(b"[ " * DEEP + b"1" + b"]" * DEEP)),
    "brackets in a string are no nesting": (
        json_(b'{"a":"' + b"[{" * 300 + b'\\"","b":1}'),
        json_(b'{"b":1,"a":"' + b"[{" * 300 + b'\\""}'),
    ),
    "multipart under another boundary": (
        parts(("file", b"\x00\xff"), ("purpose", b"evidence"), boundary="one"),
        parts(("file", b"\x00\xff"), ("purpose", b"evidence"), boundary="two-2"),
    ),
}

OTHER = {
    "another value": (form(b"amount=5400"), form(b"amount=5401")),
    "another order where a name has []": (form(b"a[]=1&b=2&a[]=3"), form(b"a[]=3&b=2&a[]=1")),
    "another order of other names where a name has []": (form(b"b=2&a[]=1"), form(b"a[]=1&b=2")),
    "a percent-encoded [] is one too": (form(b"a%5B%5D=1&b=2"), form(b"b=2&a%5B%5D=1")),
    "another order among equal names": (form(b"a=1&a=2"), form(b"a=2&a=1")),
    "a pair twice": (form(b"a=1"), form(b"a=1&a=1")),
    "a value that runs into the next name": (form(b"a=1&b=2"), form(b"a=1%26b%3D2")),
    "a value that holds NULs and the next pair": (form(b"a=1&b=2"), form(b"a=1%00b%002")),
    "a part's name that holds NULs": (parts(("a", b""), ("b", b"")), parts(("a\0b", b""))),
    "a byte that is no UTF-8": (form(b"a=%FF"), form(b"a=%EF%BF%BD")),
    "1 and 1.0": (json_(b'{"a":1}'), json_(b'{"a":1.0}')),
    "1 and true": (json_(b"[1]"), json_(b"[true]")),
    "a number and its text": (json_(b'{"a":1}'), json_(b'{"a":"1"}')),
    "2^60 and 2^60+1": (json_(b'{"a":1152921504606846976}'), json_(b'{"a":1152921504606846977}')),
    "0 and -0": (json_(b"[0]"), json_(b"[-0]")),
    "100 and 1e2": (json_(b"[100]"), json_(b"[1e2]")),
    "0.1 and one that a float cannot tell": (json_(b"[0.1]"), json_(b"[0.10000000000000000001]")),
    "a key twice and once": (json_(b'{"a":1,"a":1}'), json_(b'{"a":1}')),
    "a key twice, the other way round": (json_(b'{"a":1,"a":2}'), json_(b'{"a":2,"a":1}')),
    "another order in a list": (json_(b"[1,2]"), json_(b"[2,1]")),
    "null and nothing": (json_(b'{"a":null}'), json_(b"{}")),
    "an empty list and an empty object": (json_(b"[]"), json_(b"{}")),
    "a list in a list": (json_(b"[[1],2]"), json_(b"[[1,2]]")),
    "a string that looks like syntax": (json_(b'["a","b"]'), json_(b'["a\\",\\"b"]')),
    "text in another Unicode form": (json_('["é"]'.encode()), json_('["e\u0301"]'.encode())),
    "another part": (parts(("a", b"1")), parts(("a", b"2"))),
    "another part name": (parts(("a", b"1")), parts(("b", b"1"))),
    "parts in another order": (parts(("a", b"1"), ("b", b"2")), parts(("b", b"2"), ("a", b"1"))),
    "one part that runs on and two": (
        parts(("a", b"1"), ("b", b"2")),
        parts(("a", b'1\r\n--x\r\nContent-Disposition: form-data; name="b"\r\n\r\n2'), boundary="frontier"),
    ),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_a_payload_stays_the_same_under(one: Payload, other: Payload) -> None:
    assert one.canonical() == other.canonical()


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_a_payload_becomes_another_by(one: Payload, other: Payload) -> None:
    assert one.canonical() != other.canonical()


TYPED: Headers = ((b"Content-Type", JSON),)
UNREADABLE = {
    "JSON that is none": (TYPED, b'{"a":'),
    "JSON with a byte order mark": (TYPED, b"\xef\xbb\xbf{}"),
    "JSON with bytes after it": (TYPED, b"{} x"),
    "JSON with NaN": (TYPED, b'{"a":NaN}'),
    "JSON with Infinity": (TYPED, b"[-Infinity]"),
    "JSON with a bare control character": (TYPED, b'["a\nb"]'),
    "JSON that is no UTF-8": (TYPED, b'{"a":"\xff"}'),
    "JSON that nests without end": (TYPED, b"[" * 100_000),
    "JSON that nests deeper than any API": (TYPED, b'{"a":' * 250 + b"1" + b"}" * 250),
    "an empty JSON body": (TYPED, b""),
    "a gzip'd body": ((*TYPED, (b"Content-Encoding", b"gzip")), gzip.compress(b'{"a":1}', mtime=0)),
    "a body that only says it is coded": ((*TYPED, (b"content-encoding", b"identity")), b'{"a":1}'),
    "an unknown content type": (((b"content-type", b"text/csv"),), b"a=1"),
    "no content type": ((), b'{"a":1}'),
    "a form without any pair": (((b"content-type", FORM),), b'{"card":4242}'),
    "multipart without a boundary": (((b"content-type", b"multipart/form-data"),), b"--x\r\n\r\n\r\n--x--"),
    "multipart that never ends": (((b"content-type", b"multipart/form-data; boundary=x"),), b"--x\r\n\r\na\r\n"),
    "multipart whose part has no end of its head": (
        ((b"content-type", b"multipart/form-data; boundary=x"),),
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n--x--',
    ),
}


@pytest.mark.parametrize(("headers", "body"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_as_its_type_counts_as_bytes(headers: Headers, body: bytes) -> None:
    payload = read(headers, body)

    assert payload.kind is Kind.BYTES
    assert payload.canonical() == read((), body).canonical()
    assert payload.canonical() != read(headers, body + b" ").canonical()
    assert payload.values("/a") == []
    assert list(payload.fields()) == ["body"]


def test_multipart_ignores_what_stands_before_and_after_its_parts() -> None:
    plain = parts(("a", b"1"))
    headers = ((b"content-type", b'multipart/form-data; boundary="frontier"'),)

    assert read(headers, b"preamble\r\n" + plain.raw + b"epilogue").canonical() == plain.canonical()


def test_volatile_fields_do_not_count_wherever_they_stand() -> None:
    volatile = ("/nonce", "/a/time", "/list/0/id")

    assert json_(b'{"nonce":1,"a":{"time":2,"b":3},"list":[{"id":4,"c":5}]}').canonical(volatile) == json_(
        b'{"a":{"b":3},"list":[{"c":5}]}'
    ).canonical(volatile)
    assert form(b"nonce=1&a[time]=2&a[b]=3").canonical(volatile) == form(b"a[b]=3").canonical(volatile)
    assert parts(("nonce", b"1"), ("b", b"3")).canonical(volatile) == parts(("b", b"3")).canonical(volatile)
    assert json_(b'{"nonce":1}').canonical(("/time",)) != json_(b"{}").canonical(("/time",))
    assert not {"nonce", "a[time]"} & set(form(b"nonce=1&a[time]=2&b=1").fields(volatile))
    assert set(json_(b'{"nonce":1,"b":2}').fields(volatile)) == {"b"}


def test_a_volatile_name_is_a_whole_pointer() -> None:
    assert json_(b'{"a/b":1}').canonical(("/a~1b",)) == json_(b"{}").canonical()
    assert json_(b'{"a":{"b":1}}').canonical(("/a~1b",)) != json_(b'{"a":{}}').canonical()


def test_fields_are_compared_one_by_one_and_bear_names_alone() -> None:
    one = json_(b'{"amount":5400,"to":["a@x.example"],"card":"4242"}').fields()
    other = json_(b'{"to":["b@x.example"],"amount":5400,"cvc":"7"}').fields()

    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == {"to", "card", "cvc"}
    assert set(form(b"amount=1&card[number]=4242&to[]=a&to[]=b").fields()) == {"amount", "card[number]", "to[]"}
    assert set(parts(("file", b"secret")).fields()) == {"file"}
    assert set(json_(b'["secret"]').fields()) == {"body"}


@pytest.mark.parametrize(
    "payload",
    [
        form(b'{"card":"4242","a=":1}'),
        form(b"4242424242424242=&x"),
        form(b"%FF=secret"),
        form(b"x" * 65 + b"="),
        json_(b'{"secret@x.example":1}'),
        json_(b'{"\\ud800":1}'),
        json_(b'{"4242 4242":1}'),
    ],
    ids=[
        "JSON posted as a form",
        "a number",
        "a byte that is no text",
        "something long",
        "an address as a key",
        "half a surrogate pair",
        "a card's number as a key",
    ],
)
def test_a_name_that_may_be_a_value_is_not_shown(payload: Payload) -> None:
    names = set(payload.fields())

    assert names <= {"(another field)", "x"}
    assert "(another field)" in names
