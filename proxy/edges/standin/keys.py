"""Idempotency keys: what each was first used for, and the answer that is kept for it."""

from collections.abc import Hashable
from enum import Enum, auto
from typing import Final

from proxy.edges.standin.provider import Clock, Reply

DAY_MS: Final = 24 * 60 * 60 * 1000


class Clash(Enum):
    """Why a key cannot be used now."""

    IN_FLIGHT = auto()
    OTHER_PAYLOAD = auto()


class Slot:
    """One key in use: `reply` is None while the first request with it is in flight."""

    def __init__(self, fingerprint: Hashable, since_ms: int) -> None:
        self.fingerprint = fingerprint
        self.since_ms = since_ms
        self.reply: Reply | None = None


class Keys:
    """The keys of one provider, each in a scope of its own (an account and a mode, say)."""

    def __init__(self, clock: Clock, keep_ms: int = DAY_MS) -> None:
        self._clock = clock
        self._keep_ms = keep_ms
        self._slots: dict[tuple[Hashable, str], Slot] = {}

    def claim(self, scope: Hashable, key: str, fingerprint: Hashable) -> Slot | Reply | Clash:
        """Claim a key for a request, or say what stands in the way: the reply to replay, or a clash.

        A key is forgotten once it is 24 h old, and then means a new request (facts, section 1:
        docs.stripe.com/api/idempotent_requests; section 5: resend.com/docs/dashboard/emails/idempotency-keys).
        """
        slot = self._slots.get((scope, key))
        if slot is None or (slot.reply is not None and self._is_old(slot)):
            slot = self._slots[scope, key] = Slot(fingerprint, self._clock())
            return slot
        if slot.reply is None:
            return Clash.IN_FLIGHT
        return slot.reply if slot.fingerprint == fingerprint else Clash.OTHER_PAYLOAD

    def settle(self, scope: Hashable, key: str, slot: Slot, reply: Reply) -> None:
        """Keep the reply under the key, or free the key, as the reply says."""
        if reply.kept:
            slot.reply = reply
        else:
            del self._slots[scope, key]

    def _is_old(self, slot: Slot) -> bool:
        return self._clock() - slot.since_ms >= self._keep_ms
