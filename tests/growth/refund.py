"""A Stripe refund as the engine records it, and any number of others like it: what the ledger is filled with."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from proxy.core import identity
from proxy.core.model import Action
from proxy.core.records import NOTHING, Projection, Slip
from proxy.ports import Committed, Conflict, Exhausted, Retired
from tests.engine.asks import unnamed
from tests.engine.rig import Replica, Rig
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import answers

HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in (
        ("Server", "nginx"),
        ("Date", "Thu, 15 Oct 2026 12:00:00 GMT"),
        ("Content-Length", "737"),
        ("Connection", "keep-alive"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", "GET, HEAD, PUT, PATCH, POST, DELETE"),
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Max-Age", "300"),
        ("Cache-Control", "no-cache, no-store"),
        ("Idempotency-Key", "auto-01a13f6e-fa01-7000-8000-000000000001:stripe.refund.create"),
        ("Original-Request", "req_NR1Qx2Yz3Ab4Cd"),
        ("Request-Id", "req_NR1Qx2Yz3Ab4Cd"),
        ("Stripe-Should-Retry", "false"),
        ("Stripe-Version", "2026-09-30.dahlia"),
        ("Strict-Transport-Security", "max-age=63072000; includeSubDomains; preload"),
    )
)
BODY: Final = {
    "id": "re_3QkLm2Eab9Zk1x0P0aBcDeFg",
    "object": "refund",
    "amount": 5400,
    "balance_transaction": "txn_3QkLm2Eab9Zk1x0P0hIjKlMn",
    "charge": "ch_3QkLm2Eab9Zk1x0P0oPqRsTu",
    "created": 1792065600,
    "currency": "usd",
    "destination_details": {"card": {"reference_status": "pending", "reference_type": "acquirer_reference_number"}},
    "metadata": {},
    "payment_intent": "pi_3QkLm2Eab9Zk1x0P0vWxYzAb",
    "reason": None,
    "receipt_number": None,
    "source_transfer_reversal": None,
    "status": "succeeded",
    "transfer_reversal": None,
}


class Refunds:
    """What the engine commits for one refund: it begins, it is answered, its answer is shown to have arrived."""

    def __init__(self, replica: Replica, slips: list[Slip]) -> None:
        self._project = replica.engine.applier.projection
        self._slips = slips

    @classmethod
    async def recorded(cls) -> "Refunds":
        """Carry one refund through the engine, and note its commits."""
        rig = Rig(ManualClock())
        replica, slips = rig.replica(), list[Slip]()
        replica.store.commit = _noting(replica.store.commit, slips)  # type: ignore[method-assign]
        rig.upstream.writes.append(answers(200, BODY, headers=HEADERS))
        await replica.deliver(await replica.ask(unnamed(1)))
        await rig.end()
        assert len(slips) == 3
        return cls(replica, slips)

    def slips(self, number: int, made_ms: int, *, unknown: bool = False) -> list[Slip]:
        """Return the commits of a refund of its own; of an `unknown` one only the first, which nobody awaits."""
        out: list[Slip] = []
        before = NOTHING
        for step, slip in enumerate(self._slips[:1] if unknown else self._slips):
            action = self._named(slip.action, number, made_ms)
            if unknown:
                action = replace(action, awaited=False, next_readback_ms=made_ms, unknown_since_ms=made_ms)
            ident, after = action.identity, self._project(action)
            if unknown:
                after = replace(after, due_ms=made_ms)
            scope = identity.scope(ident.ledger, ident.account, ident.event_id, ident.action_type) if not step else ""
            lookups: tuple[tuple[str, tuple[str, ...]], ...] = ()
            if slip.lookups:
                target = ident.targets[0].partition("+")[0]
                lookups = (("alias", action.aliases), ("payload", (ident.payload,)), ("target", (target,)))
            commit_id = f"{number:012x}{step:04x}"
            out.append(
                replace(
                    slip,
                    commit_id=commit_id,
                    action=action,
                    before=before,
                    after=after,
                    scope=scope,
                    lookups=lookups,
                )
            )
            before = after
        return out

    def _named(self, action: Action, number: int, made_ms: int) -> Action:
        ident = action.identity
        action_id = f"{made_ms >> 16:08x}-{made_ms & 0xFFFF:04x}-7000-8000-{number:012x}"
        event = f"auto-{action_id}"

        def own(digest: str) -> str:
            return f"{number:012x}{digest[12:]}"

        named = replace(
            ident,
            action_id=action_id,
            event_id=event,
            idempotency_key=f"{event}:{ident.action_type}",
            payload=own(ident.payload),
            targets=tuple(own(target) for target in ident.targets),
        )
        objects = tuple(f"{o[:-12]}{number:012x}" for o in action.object_ids)
        aliases = tuple(own(alias) for alias in action.aliases)
        return replace(action, identity=named, object_ids=objects, aliases=aliases)


Commit = Callable[[Slip], Awaitable[Committed | Conflict | Exhausted | Retired]]


def _noting(commit: Commit, slips: list[Slip]) -> Commit:
    async def noted(slip: Slip) -> Committed | Conflict | Exhausted | Retired:
        slips.append(slip)
        return await commit(slip)

    return noted


def index_name(projection: Projection, kind: str) -> str:
    """Return the digest of the first list of a kind."""
    return min(name for name in projection.index if name.startswith(f"{kind}:")).partition(":")[2]
