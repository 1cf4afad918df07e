"""Fills a ledger fast: what the real commits left of one refund, written again under other names.

One refund is committed by the store itself on a ledger of its own, and everything that this wrote is read back. Each
further one is those bytes with its own identifiers, of equal length, in the place of the first one's: what its own
commits would have written, but for the times in it. `differing` compares the two.
"""

import struct
from typing import Any, Final

from msgspec import Struct

from proxy.core import identity
from proxy.core.model import Action
from proxy.edges.store.shrinking import shrunk, whole
from tests.conformance.redis_bench import RedisBench
from tests.growth.refund import Refunds

FIRST: Final = 0xABCDEF  # The number of the refund that is committed: no other bytes of it read like this.
STRUCTURES: Final = ("actions", "claims", "index", "kept", "settled")
Written = dict[str, list[tuple[bytes, bytes]]]  # Fields and values; members with an empty value.


async def written(bench: RedisBench) -> Written:
    """Read back everything that stands in the ledger; records as they were before they were shrunk."""
    found: Any = await bench.contents()
    out = {}
    for name in STRUCTURES:
        data = found[bench.key(name).encode()]
        rows = list(data.items()) if isinstance(data, dict) else [(member, b"") for member, _ in data]
        out[name] = [(field, _large(value)) for field, value in rows] if name == "actions" else rows
    return out


class Copier(Struct):
    """Writes one refund under the names of others."""

    refunds: Refunds
    template: Written
    old: list[bytes]

    @classmethod
    async def of(cls, bench: RedisBench, refunds: Refunds, made_ms: int) -> "Copier":
        """Commit one refund on an empty ledger."""
        slips = refunds.slips(FIRST, made_ms)
        for slip in slips:
            await bench.store.commit(slip)
        return cls(refunds, await written(bench), _names(slips[-1].action, FIRST))

    def copy(self, number: int, made_ms: int) -> Written:
        """Return what the commits of another refund would have written."""
        new = _names(self.refunds.slips(number, made_ms)[-1].action, number)
        pairs = list(zip(self.old, new, strict=True))

        def renamed(data: bytes) -> bytes:
            for old, own in pairs:
                data = data.replace(old, own)
            return data

        return {name: [(renamed(f), renamed(v)) for f, v in rows] for name, rows in self.template.items()}

    async def load(self, bench: RedisBench, rows: list[Written], settled_ms: int) -> None:
        """Write copies into a ledger, few commands for many."""
        async with bench.client.pipeline(transaction=False) as pipe:
            for name in STRUCTURES:
                fields = [pair for row in rows for pair in row[name]]
                if name in ("index", "settled"):
                    score = settled_ms if name == "settled" else 0
                    pipe.execute_command("ZADD", bench.key(name), *(x for f, _ in fields for x in (score, f)))
                else:
                    small = [(f, _small(v)) for f, v in fields] if name == "actions" else fields
                    pipe.execute_command("HSET", bench.key(name), *(x for pair in small for x in pair))
            await pipe.execute()


async def differing(copied: Written, bench: RedisBench) -> list[str]:
    """Say where a copy differs in length or name from what real commits wrote on a ledger of its own."""
    real = await written(bench)
    return [name for name in STRUCTURES if _outline(copied[name]) != _outline(real[name])]


def _outline(rows: list[tuple[bytes, bytes]]) -> list[tuple[bytes, int]]:
    return sorted((field, len(value)) for field, value in rows)


def _names(action: Action, number: int) -> list[bytes]:
    """Return every identifier that is the action's own, the longest first."""
    ident = action.identity
    digests = [
        identity.scope(ident.ledger, ident.account, ident.event_id, ident.action_type),
        identity.event_index(ident.ledger, ident.event_id),
        identity.key_index(ident.ledger, ident.provider, ident.account, str(ident.idempotency_key)),
        *(identity.object_index(ident.ledger, ident.provider, o) for o in action.object_ids),
    ]
    return [action.action_id.encode(), *(digest.encode() for digest in digests), b"%012x" % number]


def _large(raw: bytes) -> bytes:
    head = 4 + struct.unpack_from(">I", raw)[0]
    return raw[:head] + whole(raw[head:])


def _small(raw: bytes) -> bytes:
    head = 4 + struct.unpack_from(">I", raw)[0]
    return raw[:head] + shrunk(raw[head:])
