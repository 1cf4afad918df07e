"""An action as agents and operators see it: the `doubtless` object of CONTRACT 3, and all that section 1 keeps."""

from datetime import timedelta

from proxy.core.adapter import Adapter
from proxy.core.answers import Retry
from proxy.core.durations import parse_ms
from proxy.core.lifecycle import may_be_sent_again
from proxy.core.model import Action, Evidence, NotDispatched, Status
from proxy.core.records import EPOCH

View = dict[str, object]


def iso(at_ms: int | None) -> str | None:
    """Return a time as RFC 3339 text in UTC, with milliseconds where there are any."""
    if at_ms is None:
        return None
    text = (EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00").removesuffix(".000") + "Z"


def last_safe_replay_ms(action: Action, adapter: Adapter | None) -> int | None:
    """Return until when the same key is sure to bring back the first result: counted from its first dispatch."""
    key = adapter.doc.key if adapter is not None else None
    first_ms = action.last_safe_dispatch_ms
    if adapter is None or key is None or first_ms is None or action.identity.idempotency_key is None:
        return None
    if not adapter.route(action.identity.route).replay:
        return None
    version = next((w for w in key.where if w.retention and f"./{w.path.strip('/*')}" in action.identity.route), None)
    retention = (version.retention if version else "") or key.retention
    return first_ms + (parse_ms(retention) or 0) - (parse_ms(key.margin) or 0)


def retry_of(action: Action) -> Retry:
    """Return what may be done about the action now: of a refused one, what its answer said."""
    if isinstance(action.delivery, NotDispatched):
        return Retry.NEVER
    match action.status:
        case Status.FAILED if not action.contradicted:
            return Retry.SAFE if may_be_sent_again(action) else Retry.NEW_RUN
        case _:
            return Retry.NEVER


def doubtless(action: Action, adapter: Adapter | None, base: str) -> View:
    """Return the object that an agent gets.

    `base`: our own address, as the agent wrote it. `adapter` is None where the provider was taken out since.
    """
    ident = action.identity
    dispatched = not isinstance(action.delivery, NotDispatched)
    return {
        "action_id": action.action_id,
        "event_id": ident.event_id,
        "action_type": ident.action_type,
        "provider": ident.provider,
        "account": ident.account,
        "idempotency_key": ident.idempotency_key,
        "status": action.status.value,
        "delivery": action.delivery.__struct_config__.tag if dispatched else None,
        "acceptance": action.acceptance.value if dispatched else None,
        "grade": action.grade.value,
        "cause": action.cause.value if action.cause is not None else None,
        "upstream_status": action.upstream_status,
        "amount": action.amount.minor,
        "currency": action.amount.currency,
        "retry": retry_of(action).value,
        "readbacks": action.readbacks,
        "next_readback_at": iso(action.next_readback_ms),
        "last_safe_replay_at": iso(last_safe_replay_ms(action, adapter)),
        "contradicted": action.contradicted,
        "status_url": f"{base}/_doubtless/actions/{action.action_id}",
    }


def row(action: Action, adapter: Adapter | None, base: str) -> View:
    """Return the action as a list of the admin API shows it: all that CONTRACT 1 keeps, its tier and its evidence."""
    ident = action.identity
    return doubtless(action, adapter, base) | {
        "ledger": ident.ledger,
        "route": ident.route,
        "run": ident.run,
        "retry_of": ident.retry_of,
        "explicit_event": ident.explicit,
        "agent": ident.agent,
        "agent_key": ident.agent_key,
        "credential": ident.credential,
        "tier": action.tier.value,
        "effect": action.effect.value,
        "created_at": iso(action.created_at_ms),
        "was_unknown": action.was_unknown,
        "unknown_since": iso(action.unknown_since_ms),
        "unknown_cause": action.unknown_cause.value if action.unknown_cause is not None else None,
        "settled_at": iso(action.settled_at_ms),
        "settled_by": {"source": action.settled_by.source.value, "by": action.settled_by.by or None}
        if action.settled_by is not None
        else None,
        "confirmed_at": iso(action.confirmed_at_ms),
        "provider_object_id": action.object_ids[0] if action.object_ids else None,
        "provider_object_ids": list(action.object_ids),
        "eligible_for_reconciliation_at": iso(action.eligible_at_ms),
        "duplicate_suspected": action.duplicate_suspected,
        "prior_execution": action.prior_execution,
        "partial": action.partial,
        "over_reserved": action.over_reserved,
        "needs_operator": action.needs_operator,
        "assignee": action.assignee or None,
        "evidence": [_evidence(e) for e in action.evidence],
    }


def detail(action: Action, adapter: Adapter | None, base: str) -> View:
    """Return the action with its dispatches, the attempt log and people's remarks."""
    return row(action, adapter, base) | {
        "dispatches": [
            {
                "dispatch_id": d.dispatch_id,
                "owner": d.owner,
                "dispatched_at": iso(d.dispatched_at_ms),
                "send_before": iso(d.send_before_ms),
                "harvest_end": iso(d.harvest_ms),
                "ended_at": iso(d.ended_at_ms),
            }
            for d in action.dispatches
        ],
        "attempts": [
            {
                "at": iso(a.at_ms),
                "result": a.result,
                "scheduled": a.scheduled,
                "detail": a.detail or None,
                "candidates": list(a.candidates),
            }
            for a in action.attempts
        ],
        "notes": [{"at": iso(n.at_ms), "by": n.by, "text": n.text} for n in action.notes],
    }


def _evidence(evidence: Evidence) -> View:
    return {
        "evidence_id": evidence.evidence_id,
        "at": iso(evidence.at_ms),
        "source": evidence.source.value,
        "verdict": evidence.proof.value,
        "detail": evidence.detail or None,
        "digest": evidence.digest or None,
        "upstream_status": evidence.upstream_status,
        "request_id": evidence.request_id or None,
        "object_ids": list(evidence.object_ids),
        "dispatch_id": evidence.dispatch_id or None,
        "by": evidence.by or None,
        "text": evidence.text or None,
        "reference": evidence.reference or None,
    }


def word(status: str, grade: str) -> str:
    """Return the one word that people see (CONTRACT 1)."""
    match status, grade:
        case "pending", _:
            return "in flight"
        case "denied_unresolved", _:
            return "UNKNOWN"
        case "confirmed", "confirmed":
            return "happened (verified)"
        case "confirmed", _:
            return "happened (not verified)"
        case _, "refused" | "denied":
            return "blocked"
        case _:
            return "did not happen"
