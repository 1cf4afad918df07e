"""Settled records take less room: deflated (RFC 1951) against the words that every record has.

The words are part of the format: what was written with them is read with them. They must never change; further ones
need a mark of their own.
"""

import zlib
from typing import Final

MARK: Final = b"\xc1"  # The one byte that begins no msgpack value.
LEVEL: Final = 1  # Higher ones save 1 % more.
_WORDS: Final = """
notes text reference attempts at_ms result scheduled candidates read_back webhook replay manual transport late_response
stamp blind partial reconcilable full message record live default test stripe resend sent GET PATCH PUT DELETE POST
contradicted duplicate_suspected prior_execution over_reserved needs_operator assignee allow_retry reads_tried
readbacks next_readback_ms askers_gone unanswered_folded before_execution eligible_at_ms was_unknown unknown_since_ms
unknown_cause timeout connection_lost server_error idempotent_conflict key_reused malformed_response non_terminal
not_sent not_executed unrecognised_response proxy_restart shutdown limit_exhausted rejected cause failed none
retry_of agent content run explicit event_id auto- stripe.refund.create resend.email.send idempotency_key
agent_key stripe-node-retry- credential sha256: payload fields subject from to text html amount charge payment_intent
currency (path) targets facts reason usd eur effect money tier created_at_ms delivery type confirmed acceptance accepted
minor dispatches dispatch_id owner dispatched_at_ms send_before_ms answer_by_ms harvest_ms ended_at_ms evidence
evidence_id ev_ source response proof detail digest upstream_status request_id req_ object_ids re_ aliases
answered_at_ms settled_at_ms settled_by by confirmed_at_ms answer_kept unanswered_first
identity action_id ledger provider account action_type route method
"""
DICTIONARY: Final = b"".join(bytes([0xA0 + len(word)]) + word.encode() for word in _WORDS.split())


def shrunk(record: bytes) -> bytes:
    """Return a record in fewer bytes; as it is where that saves nothing."""
    packing = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS, zdict=DICTIONARY)
    small = MARK + packing.compress(record) + packing.flush()
    return small if len(small) < len(record) else record


def whole(record: bytes) -> bytes:
    """Return a record as it was. Raises zlib.error where it is damaged."""
    if not record.startswith(MARK):
        return record
    unpacking = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=DICTIONARY)
    return unpacking.decompress(record[1:]) + unpacking.flush()
