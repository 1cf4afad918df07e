"""Bodies for tests: trees of JSON that know how they may be spelled, and pairs of forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from proxy.core.payload import Payload, read

FORM: Final = b"application/x-www-form-urlencoded"
JSON: Final = b"application/json"


@dataclass(frozen=True)
class Literal:
    """A JSON number as it is written."""

    text: str


@dataclass(frozen=True)
class Object:
    """A JSON object, whose members may come in any order."""

    members: tuple[tuple[str, "Tree"], ...]


Tree = None | bool | str | Literal | Object | tuple["Tree", ...]


def form(body: bytes) -> Payload:
    """Return a form."""
    return read(((b"Content-Type", FORM),), body)


def json_(body: bytes) -> Payload:
    """Return JSON."""
    return read(((b"content-type", JSON),), body)


def parts(*contents: tuple[str, bytes], boundary: str = "frontier") -> Payload:
    """Return a multipart form of named parts."""
    pieces = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in contents
    ]
    body = b"".join(pieces) + f"--{boundary}--\r\n".encode()
    return read(((b"Content-Type", f"multipart/form-data; boundary={boundary}".encode()),), body)


NUMBERS: Final = st.sampled_from(["0", "-0", "1", "1.0", "10", "1e1", "1E1", "0.5", "-7", str(2**60), str(2**60 + 1)])
LEAVES: Final[st.SearchStrategy[Tree]] = st.one_of(st.none(), st.booleans(), st.text(max_size=6), NUMBERS.map(Literal))


def _branches(trees: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    lists = st.lists(trees, max_size=4).map(tuple)
    members = st.lists(st.tuples(st.text(max_size=4), trees), max_size=4, unique_by=lambda member: member[0])
    return st.one_of(lists, members.map(lambda found: Object(tuple(found))))


TREES: Final[st.SearchStrategy[Tree]] = st.recursive(LEAVES, _branches, max_leaves=12)


@st.composite
def spellings(draw: st.DrawFn, tree: Tree) -> bytes:
    """Return one of the ways in which the tree can be written: order of keys, escapes, white space."""
    return _written(tree, draw).encode("utf-8", "surrogatepass")


def _written(tree: Tree, draw: st.DrawFn) -> str:
    gap = draw(st.sampled_from(["", " ", "\n\t"]))
    match tree:
        case None:
            return f"{gap}null"
        case bool():
            return f"{gap}{'true' if tree else 'false'}"
        case str():
            return gap + _quoted(tree, draw)
        case Literal(text):
            return gap + text + gap
        case Object(members):
            shuffled = draw(st.permutations(members))
            inner = ",".join(f"{gap}{_quoted(name, draw)}{gap}:{_written(value, draw)}" for name, value in shuffled)
            return f"{gap}{{{inner}{gap}}}"
        case tuple():
            return f"{gap}[{','.join(_written(item, draw) for item in tree)}]{gap}"


_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "/": "\\/"}


def _quoted(text: str, draw: st.DrawFn) -> str:
    escaped = draw(st.booleans())
    return '"' + "".join(_char(char, escaped=escaped) for char in text) + '"'


def _char(char: str, *, escaped: bool) -> str:
    if escaped or char < " ":
        units = char.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    return _SHORT.get(char, char)


def leaves(tree: Tree) -> int:
    """Return how many values could be changed, one at a time."""
    match tree:
        case Object(members):
            return sum(leaves(value) for _, value in members)
        case tuple():
            return sum(leaves(item) for item in tree)
        case _:
            return 1


def changed(tree: Tree, at: int, change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with its leaf number `at` changed."""
    match tree:
        case Object(members):
            out = []
            for name, value in members:
                out.append((name, changed(value, at, change)))
                at -= leaves(value)
            return Object(tuple(out))
        case tuple():
            items = []
            for item in tree:
                items.append(changed(item, at, change))
                at -= leaves(item)
            return tuple(items)
        case _:
            return change(tree) if at == 0 else tree


PAIRS: Final = st.lists(
    st.tuples(st.text("ab[]0é&= +%\0", min_size=1, max_size=5), st.text(max_size=6)), min_size=1, max_size=6
)


@st.composite
def encodings(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> bytes:
    """Return one of the ways in which pairs are percent-encoded; equal names keep their order."""
    return b"&".join(_percent(name, draw) + b"=" + _percent(value, draw) for name, value in pairs)


def _percent(text: str, draw: st.DrawFn) -> bytes:
    every, raw, plus = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    out = bytearray()
    for byte in text.encode("utf-8", "surrogatepass"):
        char = bytes([byte])
        if char == b" ":
            out += b"+" if plus else b"%20"
        elif (char.isalnum() and not every) or (byte >= 0x80 and raw):
            out += char
        else:
            out += f"%{byte:02x}".encode() if plus else f"%{byte:02X}".encode()
    return bytes(out)
