"""Slips and records as bytes: what `commit.lua` reads, and what it gives back."""

import struct
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from proxy.core.model import Action
from proxy.core.records import Projection, Slip
from proxy.core.retirement import Retirement
from proxy.edges.store.shrinking import shrunk, whole
from proxy.ports import Stored

_ENCODER: Final = msgspec.msgpack.Encoder()
_ACTION: Final = msgspec.msgpack.Decoder(Action)
_HEAD: Final = msgspec.msgpack.Decoder(dict[str, Any])


def encode_slip(slip: Slip, now_ms: int) -> tuple[bytes, ...]:
    """Return the slip, the record and the values to keep, as the script takes them.

    `now_ms`: the store's time, as well as we know it.
    """
    before, after = slip.before, slip.after
    due_ms = -1 if after.due_ms is None else max(0, after.due_ms - now_ms)
    head = {
        "id": slip.action.action_id,
        "commit": slip.commit_id,
        "expected": slip.expected,
        "scope": slip.scope,
        "replaces": slip.replaces,
        "replaces_version": slip.replaces_version,
        "lookups": slip.lookups,
        "claims": _claims(before, after),
        "index_add": sorted(after.index - before.index),
        "index_drop": sorted(before.index - after.index),
        "due": due_ms,
        "owner": after.owner,
        "owned": max(0, after.owned_until_ms - now_ms),
        "unresolved": after.unresolved,
        "settled": 1 if after.settled else -1 if before.settled else 0,
        "exposure": _exposure(before, after),
        "bucket": after.bucket.value,
        "actual": "" if after.actual is None else str(after.actual),
        "reserve": [[r.name, r.period.value, str(r.cap), str(r.amount), r.counts] for r in slip.reserve],
        "alive": slip.alive_until_ms,
        "keep": list(slip.keep),  # Names; cmsgpack cannot read binary, so the values are arguments of their own.
        "drop": slip.drop,
    }
    record = _ENCODER.encode(slip.action)
    return _ENCODER.encode(head), shrunk(record) if after.settled else record, *slip.keep.values()


def encode_retirements(leaving: Iterable[Retirement]) -> bytes:
    """Return what is to leave, as the script takes it."""
    return _ENCODER.encode(
        [
            {
                "id": r.action_id,
                "version": r.version,
                "outcome": r.outcome.value,
                "scope": r.scope,
                "aliases": r.aliases,
                "claims": [kind[0] + digest for kind, digest in r.claims],
                "index": sorted(r.index),
            }
            for r in leaving
        ]
    )


def _claims(before: Projection, after: Projection) -> list[tuple[str, str, int]]:
    """Return the claims that change; until 0 drops one."""
    changed = [(*key, until) for key, until in after.claims.items() if before.claims.get(key) != until]
    dropped = [(*key, 0) for key in before.claims if key not in after.claims]
    return changed + dropped


def _exposure(before: Projection, after: Projection) -> list[tuple[str, str, int]]:
    """Return what leaves and what joins the exposure, as decimal strings: Lua's numbers are doubles."""
    if before.exposed == after.exposed:
        return []
    out = []
    for held, sign in ((before.exposed, -1), (after.exposed, 1)):
        if held is not None:
            provider, account, currency, minor = held
            out.append((f"{provider}|{account}|{currency}", str(sign * minor), sign))
    return out


def decode_record(raw: bytes) -> Stored:
    """Read a record of the store."""
    (size,) = struct.unpack_from(">I", raw)
    head = _HEAD.decode(raw[4 : 4 + size])
    return Stored(_ACTION.decode(whole(raw[4 + size :])), head["v"])
