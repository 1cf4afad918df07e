"""The head of a response, by strict rules of our own (RFC 9112, sections 4 to 6).

A head that breaks a rule is still read as far as it goes, for the record; what is wrong with it is its `complaint`.
"""

from typing import Final

from msgspec import Struct

from proxy.core.http import Headers

HEAD_BYTES: Final = 64 * 1024  # What node and nginx call generous; providers stay under 8 KiB.
HEADERS_MOST: Final = 256

# A head is text: every byte but the controls, HTAB excepted (RFC 9110, section 5.5). What is left when these are
# taken away must be the line ends and nothing else, which finds NUL, bare CR and bare LF in one pass.
_TEXT: Final = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_OWS: Final = b" \t"
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection", b"keep-alive"))
_LENGTH_DIGITS: Final = 18  # Under 2^63, and under what llhttp takes.

_NAMES: Final[dict[bytes, bytes]] = {}
_NAMES_MOST: Final = 1024


def lower_name(name: bytes) -> bytes | None:
    """Return a field name in lower case, or None where it is no token (RFC 9110, section 5.6.2)."""
    known = _NAMES.get(name)
    if known is not None:
        return known
    if not name or name.translate(None, _TOKEN):
        return None
    lower = name.lower()
    if len(_NAMES) < _NAMES_MOST:  # The same few names come in every message.
        _NAMES[name] = lower
    return lower


class StatusLine(Struct, frozen=True):
    """`http11` is None for a version that is neither 1.0 nor 1.1."""

    http11: bool | None
    status: int
    reason: bytes


class Head(Struct):
    """A whole head. `length`, `chunked`: its framing; `keep_alive_s`: how long the server says it keeps it open."""

    status: int
    reason: bytes
    headers: Headers
    complaint: str | None
    length: int | None
    chunked: bool
    keep_alive: bool
    keep_alive_s: int | None


def read_status_line(line: bytes) -> StatusLine | None:
    """Read `HTTP/d.d SP ddd [SP reason]`; None where it is something else."""
    version, _, rest = line.partition(b" ")
    code, _, reason = rest.partition(b" ")
    if len(code) != 3 or not code.isdigit():
        return None
    if version == b"HTTP/1.1":
        return StatusLine(True, int(code), reason)
    if version == b"HTTP/1.0":
        return StatusLine(False, int(code), reason)
    digits = version[5:6] + version[7:8]
    if len(version) != 8 or version[:5] != b"HTTP/" or version[6:7] != b"." or not digits.isdigit():
        return None
    return StatusLine(None, int(code), reason)


def read_head(raw: bytes) -> Head | None:
    """Read a head, given without its last, empty line.

    None where it does not begin with a status line, or has more than HEADERS_MOST fields.
    """
    lines = raw.split(b"\r\n")
    complaint = None
    if len(raw.translate(None, _TEXT)) != 2 * (len(lines) - 1):
        complaint = "a control byte, or a line that does not end with CRLF"
        lines = raw.replace(b"\r\n", b"\n").split(b"\n")
    first = read_status_line(lines[0])
    if first is None or len(lines) > HEADERS_MOST + 1:
        return None
    if first.http11 is None or first.status < 100:
        complaint = complaint or "no version or status of HTTP/1"
    headers: list[tuple[bytes, bytes]] = []
    framing: list[tuple[bytes, bytes]] = []
    known = _NAMES.get
    fields = iter(lines)
    next(fields)
    for line in fields:
        name, colon, value = line.partition(b":")
        lower = known(name) or lower_name(name)
        if lower is None or not colon:
            # A folded line and a space before the colon end here too: a name is a token, and no token has a space.
            complaint = complaint or "a line that is no field"
            continue
        field = (name, value.strip(_OWS))
        headers.append(field)
        if lower in _FRAMING:
            framing.append((lower, field[1]))
    head = Head(first.status, first.reason, tuple(headers), complaint, None, False, bool(first.http11), None)
    if framing:
        _frame(head, framing, http11=bool(first.http11))
    return head


def _frame(head: Head, framing: list[tuple[bytes, bytes]], *, http11: bool) -> None:
    """Settle the framing of a head, or complain of it (RFC 9112, sections 6 and 9.3)."""
    lengths = [value for name, value in framing if name == b"content-length"]
    codings = [value for name, value in framing if name == b"transfer-encoding"]
    if codings:
        if lengths:
            head.complaint = head.complaint or "Content-Length and Transfer-Encoding"
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            head.complaint = head.complaint or "a transfer coding other than chunked"
        if not http11:
            head.complaint = head.complaint or "Transfer-Encoding in HTTP/1.0"
        head.chunked = True
    elif lengths:
        if len(lengths) > 1:
            head.complaint = head.complaint or "several Content-Length"
        elif not lengths[0].isdigit() or len(lengths[0]) > _LENGTH_DIGITS:
            head.complaint = head.complaint or "a Content-Length that is no number"
        else:
            head.length = int(lengths[0])
    for name, value in framing:
        if name == b"connection":
            options = [option.strip(_OWS) for option in value.lower().split(b",")]
            if b"close" in options:
                head.keep_alive = False
                return
            head.keep_alive = head.keep_alive or b"keep-alive" in options
        elif name == b"keep-alive":
            head.keep_alive_s = _timeout_s(value)


def _timeout_s(value: bytes) -> int | None:
    """Read `timeout=N` of a Keep-Alive field; a hint, so what is unreadable is no complaint."""
    for parameter in value.lower().split(b","):
        name, _, seconds = parameter.strip(_OWS).partition(b"=")
        if name == b"timeout" and seconds.isdigit() and len(seconds) < 9:
            return int(seconds)
    return None
