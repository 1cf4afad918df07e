"""The canonical form, searched: spelling never matters, a value always does, and kinds never meet."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.http import Headers
from proxy.core.payload import Kind, Payload, read
from tests.core.pure_bodies import FORM, JSON, PAIRS, TREES, Literal, Tree, changed, encodings, form, json_, leaves
from tests.core.pure_bodies import spellings as spellings_of
from tests.core.pure_hypothesis import DETERMINED, THOROUGH

TYPES = (b"application/json", FORM, b"multipart/form-data; boundary=x", b"text/plain", b"")


@THOROUGH
@given(st.data(), TREES)
def test_json_is_the_same_however_it_is_spelled(data: st.DataObject, tree: Tree) -> None:
    one, other = data.draw(spellings_of(tree)), data.draw(spellings_of(tree))

    assert json_(one).kind is Kind.JSON
    assert json_(one).canonical() == json_(other).canonical()
    assert json_(one).fields() == json_(other).fields()


@THOROUGH
@given(st.data(), TREES)
def test_a_change_of_any_value_in_json_makes_it_another(data: st.DataObject, tree: Tree) -> None:
    many = leaves(tree)
    changes: list[Tree] = [Literal("2"), "other", None, True, ()]
    if many:
        at = data.draw(st.integers(0, many - 1))
        new = data.draw(st.sampled_from(changes))
        other = changed(tree, at, lambda old: new if old != new else Literal("3"))
    else:
        other = (tree,)

    assert json_(data.draw(spellings_of(tree))).canonical() != json_(data.draw(spellings_of(other))).canonical()


@THOROUGH
@given(st.data(), TREES, TREES)
def test_two_trees_are_one_payload_only_where_they_are_equal(data: st.DataObject, one: Tree, other: Tree) -> None:
    same = json_(data.draw(spellings_of(one))).canonical() == json_(data.draw(spellings_of(other))).canonical()

    assert same == (_sorted(one) == _sorted(other))


def _sorted(tree: Tree) -> str:
    """Return the tree in words in which 1 is not true, and the order of keys is one."""
    match tree:
        case tuple():
            return f"[{','.join(map(_sorted, tree))}]"
        case None | bool() | str() | Literal():
            return repr(tree)
        case _:
            return f"{{{','.join(f'{name!r}:{_sorted(value)}' for name, value in sorted(tree.members))}}}"


@THOROUGH
@given(st.data(), PAIRS)
def test_a_form_is_the_same_however_its_names_are_ordered_and_encoded(
    data: st.DataObject, pairs: list[tuple[str, str]]
) -> None:
    names = data.draw(st.permutations(sorted({name for name, _ in pairs})))
    ordered = any("[]" in name for name in names)
    shuffled = pairs if ordered else [pair for name in names for pair in pairs if pair[0] == name]
    one, other = form(data.draw(encodings(pairs))), form(data.draw(encodings(shuffled)))

    assert one.kind is Kind.FORM
    assert one.canonical() == other.canonical()


@THOROUGH
@given(st.data(), PAIRS)
def test_a_change_of_any_pair_in_a_form_makes_it_another(data: st.DataObject, pairs: list[tuple[str, str]]) -> None:
    at = data.draw(st.integers(0, len(pairs) - 1))
    name, value = pairs[at]
    other = data.draw(st.sampled_from([[(name, value + "x")], [(name + "x", value)], [], [pairs[at], pairs[at]]]))
    encoded = data.draw(encodings([*pairs[:at], *other, *pairs[at + 1 :]]))

    assert form(data.draw(encodings(pairs))).canonical() != form(encoded).canonical()


@THOROUGH
@given(st.sampled_from(TYPES), st.binary(max_size=40), st.sampled_from(TYPES), st.binary(max_size=40))
def test_two_kinds_never_meet(one_type: bytes, one: bytes, other_type: bytes, other: bytes) -> None:
    first, second = _read(one_type, one), _read(other_type, other)

    if first.kind is not second.kind or (one != other and first.kind is Kind.BYTES):
        assert first.canonical() != second.canonical()


def _read(content_type: bytes, body: bytes) -> Payload:
    headers: Headers = ((b"content-type", content_type),)
    return read(headers, body)


@DETERMINED
@given(st.sampled_from(TYPES), st.binary(max_size=60) | st.text('{}[]":,ab=&%0\\ud8', max_size=40).map(str.encode))
def test_no_body_makes_reading_fail_and_every_shown_name_is_text(content_type: bytes, body: bytes) -> None:
    payload = _read(content_type, body)

    assert payload.canonical() == _read(content_type, body).canonical()
    assert all(name.encode().decode() == name for name in payload.fields())
    for pointer in ("", "/a", "/*/b", "/0"):
        payload.values(pointer)
        payload.one(pointer)


SECRET = "4242424242424242"


@DETERMINED
@given(st.sampled_from([JSON, FORM]), st.sampled_from(["a", "to[]", "card[number]"]), st.text(" =\"'{}:", max_size=3))
def test_no_value_is_ever_shown_as_a_name(content_type: bytes, name: str, around: str) -> None:
    bodies = [f'{{"{name}":"{around}{SECRET}"}}', f"{name}={around}{SECRET}", f"{around}{SECRET}", f"{SECRET}={around}"]

    for body in bodies:
        assert not [shown for shown in _read(content_type, body.encode()).fields() if SECRET in shown]
