"""How an answer leaves: a fault turned into steps, byte for byte. No I/O here; the connection performs them."""

import json
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proxy.core.http import Headers, without
from proxy.edges.standin.faults import Fault, Gate, How, Kind
from proxy.edges.standin.provider import Json, Provider, dump
from proxy.edges.standin.wire import CHUNKED, END_OF_HEAD, Answer, chunk, counted, encode, head_bytes

NOT_JSON: Final = b'{"id": "re_\xff\xfe <truncated by nobody knows whom'
NOT_HTTP: Final = b"\x16\x03\x01 this is no status line\r\n\r\n"
_PAGE: Final = b"<html><head><title>%d</title></head><body><h1>%d</h1><hr>gateway</body></html>\n"


class Send(Struct, frozen=True):
    """Write these bytes."""

    data: bytes


class Wait(Struct, frozen=True):
    """Wait for a turn of the gate where there is one, then `delay_ms`."""

    gate: Gate | None = None
    delay_ms: int = 0


class Close(Struct, frozen=True):
    """End the connection: an orderly FIN, or a reset."""

    how: How = "fin"


Step = Send | Wait | Close


def middlebox_page(status: int, extra: Headers = ()) -> Answer:
    """Return a page that something between the proxy and the provider made: HTML, and no mark."""
    return Answer(status, ((b"Server", b"gateway"), (b"Content-Type", b"text/html"), *extra), _PAGE % (status, status))


def altered(answer: Answer, fault: Fault | None, provider: Provider) -> Answer:
    """Return the answer as a middlebox or a broken provider makes it; its framing is still sound."""
    match fault.kind if fault else None:
        case Kind.UNMARKED_AFTER_COMMIT:
            return _unmarked(answer, provider)
        case Kind.WITHOUT_OBJECT_ID_AFTER_COMMIT:
            return replace(answer, body=_without_ids(answer.body))
        case _:
            return answer


def _unmarked(answer: Answer, provider: Provider) -> Answer:
    return replace(answer, headers=tuple(without(answer.headers, *provider.mark)))


def _without_ids(body: bytes) -> bytes:
    """Take `id` off the object, and off each of a batch's."""
    value: Json = json.loads(body)
    rows = value.get("data")
    for item in (value, *(rows if isinstance(rows, list) else ())):
        item.pop("id", None)
    return dump(value)


def plan(answer: Answer, fault: Fault | None, *, bodiless: bool = False) -> tuple[Step, ...]:
    """Return the steps by which an answer leaves under a fault; without one, whole."""
    whole = encode(answer, bodiless=bodiless)
    if fault is None:
        return (Send(whole),)
    close = Close(fault.how)
    match fault.kind:
        case Kind.DROP_AFTER_COMMIT:
            return (close,)
        case Kind.HALF_HEAD_AFTER_COMMIT:
            return Send(whole[: whole.index(END_OF_HEAD) // 2]), close
        case Kind.TRUNCATE_AFTER_COMMIT:
            return Send(_truncated(answer, fault)), close
        case Kind.GARBAGE_AFTER_COMMIT:
            return _garbage(answer, fault)
        case Kind.TRAILING_BYTES_AFTER_COMMIT:
            return (Send(whole + fault.data),)
        case Kind.SECOND_RESPONSE_AFTER_COMMIT:
            return (Send(whole + whole),)
        case Kind.CLOSE_IDLE_AFTER:
            return Send(whole), *((Wait(fault.gate),) if fault.gated else ()), close
        case Kind.RAW:
            return raw_steps(fault)
        case _:
            return (Send(whole),)


def _truncated(answer: Answer, fault: Fault) -> bytes:
    """Announce the whole body, and send a part of it. A chunked one lacks its last chunk, even if all is kept."""
    kept = answer.body[: len(answer.body) // 2 if fault.keep is None else fault.keep]
    if fault.framing == "chunked":
        return head_bytes(answer, CHUNKED) + (chunk(kept) if kept else b"")
    return head_bytes(answer, counted(len(answer.body))) + kept


def _garbage(answer: Answer, fault: Fault) -> tuple[Step, ...]:
    match fault.where:
        case "body":
            return (Send(encode(replace(answer, body=fault.body or NOT_JSON), bodiless=False)),)
        case "head":
            return Send(fault.body or NOT_HTTP), Close(fault.how)
        case "chunk":
            return Send(head_bytes(answer, CHUNKED) + chunk(answer.body) + b"zz\r\nnot a chunk"), Close(fault.how)


def raw_steps(fault: Fault) -> tuple[Step, ...]:
    """Return the steps of a raw answer: each chunk after its wait, then the close."""
    steps: list[Step] = []
    for piece in fault.chunks:
        if piece.gated or piece.delay_ms:
            steps.append(Wait(fault.gate if piece.gated else None, piece.delay_ms))
        steps.append(Send(piece.data))
    return (*steps, Close(fault.how)) if fault.close else tuple(steps)
