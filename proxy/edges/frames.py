"""Frames in a file: what was appended whole is told from what was torn by a crash and from what was damaged later.

A frame is a header of 16 bytes (a mark, the length of the payload, CRC-32 of the payload, CRC-32 of the header before;
little-endian) and the payload. The header's own check tells a torn frame, whose length is true, from a length that
was changed; the mark lets what follows a damaged frame be found again.
"""

import struct
import zlib
from typing import Final

from msgspec import Struct

_MARK: Final = b"\xd0\x0b\x71\xe5"
_HEAD: Final = struct.Struct("<4sIII")
PAYLOAD_MAX: Final = (1 << 32) - 1


class Scan(Struct, frozen=True):
    """What a file holds: whole frames, damaged stretches, and where a torn frame begins at the end, if one does."""

    frames: tuple[tuple[int, int], ...]
    damaged: tuple[tuple[int, int], ...]
    torn_from: int | None


def frame(payload: bytes) -> bytes:
    """Return the payload as a frame. Raises ValueError past 4 GiB."""
    if len(payload) > PAYLOAD_MAX:
        raise ValueError("too long for a frame")
    head = _HEAD.pack(_MARK, len(payload), zlib.crc32(payload), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + payload


def payload_of(data: bytes, at: tuple[int, int]) -> bytes:
    """Return the payload of the frame that stands from `at[0]` to `at[1]`."""
    return data[at[0] + _HEAD.size : at[1]]


def scan(data: bytes) -> Scan:
    """Find every whole frame, and say what else there is."""
    frames: list[tuple[int, int]] = []
    damaged: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        end = _end(data, at)
        if end is not None:
            frames.append((at, end))
            at = end
            continue
        found = _next(data, at)
        if found is None:
            if _torn(data, at):
                return Scan(tuple(frames), tuple(damaged), at)
            found = len(data)
        damaged.append((at, found))
        at = found
    return Scan(tuple(frames), tuple(damaged), None)


def _length(data: bytes, at: int) -> int | None:
    """Return what a true header says here, else None."""
    if len(data) - at < _HEAD.size:
        return None
    mark, length, _, check = _HEAD.unpack_from(data, at)
    true = mark == _MARK and check == zlib.crc32(data[at : at + _HEAD.size - 4])
    return int(length) if true else None


def _end(data: bytes, at: int) -> int | None:
    """Return where the whole frame that begins here ends, or None."""
    length = _length(data, at)
    if length is None or at + _HEAD.size + length > len(data):
        return None
    end = at + _HEAD.size + length
    return end if _HEAD.unpack_from(data, at)[2] == zlib.crc32(data[at + _HEAD.size : end]) else None


def _next(data: bytes, after: int) -> int | None:
    at = data.find(_MARK, after + 1)
    while at >= 0:
        if _end(data, at) is not None:
            return at
        at = data.find(_MARK, at + 1)
    return None


def _torn(data: bytes, at: int) -> bool:
    """Is the rest a beginning that was never finished, and so never acknowledged?

    A file system may have grown the file before the bytes came: then the rest is zeros.
    """
    rest = data[at:]
    if not rest.strip(b"\0"):
        return True
    if len(rest) < _HEAD.size:
        return rest.startswith(_MARK[: len(rest)])
    length = _length(data, at)
    return length is not None and len(rest) < _HEAD.size + length
