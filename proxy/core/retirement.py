"""What leaves the store when a settled action has outlived `state.keep` (CONTRACT 2.2, last line).

Derived from the record alone: a claim or a list that it never had is simply not there.
"""

from enum import StrEnum

from msgspec import Struct

from proxy.core import identity
from proxy.core.model import Action, Status
from proxy.core.records import index_of


class Outcome(StrEnum):
    """What a tombstone still says of an action: did it happen?"""

    HAPPENED = "h"
    DID_NOT = "n"


class Retirement(Struct, frozen=True):
    """One action, at the version that was read, and every trace of it.

    `claims`: payload and target claims as (kind, digest). The scope and the aliases leave tombstones.
    """

    action_id: str
    version: int
    outcome: Outcome
    scope: str
    aliases: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    index: frozenset[str] = frozenset()


def retirement(action: Action, version: int) -> Retirement:
    """Return what is to be removed of a settled action."""
    ident = action.identity
    payload = [("payload", ident.payload)] if ident.payload else []
    return Retirement(
        action_id=action.action_id,
        version=version,
        outcome=Outcome.HAPPENED if action.status is Status.CONFIRMED else Outcome.DID_NOT,
        scope=identity.scope(ident.ledger, ident.account, ident.event_id, ident.action_type),
        aliases=action.aliases,
        claims=(*payload, *(("target", target.partition("+")[0]) for target in ident.targets)),
        index=index_of(action),
    )
