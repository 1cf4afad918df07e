"""Every state of an action and every transition between them. Nothing outside this file changes an action.

Rule 1: `step` is total. Each event has a written answer in each status; where it has no effect, that is written too.
Rule 2: nothing becomes `failed` here but by proof that no byte left, by the provider's own word, or by a person's.
Rule 3: evidence against a settled state is appended and sets `contradicted`; it never moves the state.
Rule 4: time and identifiers come in with the `Moment`; the rules of the action's type come in as `Rules`.

What follows from an action (its place in the queue, its claims, what it holds) is derived in `records`.
Longer than 300 lines on purpose: whoever asks how an action can change reads one file.
"""

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from proxy.core.events import (
    Absent,
    AskersGone,
    Candidates,
    Delivered,
    Event,
    Folded,
    Found,
    Lost,
    Moment,
    Noted,
    Noticed,
    OwnerLost,
    Priced,
    ReadBack,
    Redispatched,
    Refused,
    Replayed,
    Resolved,
    Responded,
    Rules,
    Several,
    Suspected,
    Unreadable,
    Unsendable,
)
from proxy.core.model import (
    Acceptance,
    Action,
    Amount,
    Attempt,
    Cause,
    Delivery,
    DeliveryConfirmed,
    DeliveryFailed,
    DeliveryPending,
    Evidence,
    NotDispatched,
    Note,
    Proof,
    Settled,
    Source,
    Status,
)
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear, Verdict

ATTEMPTS_LOGGED = 64  # The log is for people; the counters beside it are exact.
ALIASES_KEPT = 64  # One action folds few keys; a flood of them must not grow its record.


class Step(Struct, frozen=True):
    """What became of the action. `suspects`: an earlier run that may have executed too and is to be told so."""

    action: Action
    suspects: str | None = None


def step(action: Action, event: Event, at: Moment, rules: Rules) -> Step:
    """Apply an event. An action that comes back unchanged was not concerned."""
    match event:
        case Redispatched():
            return Step(_redispatched(action, event))
        case Refused():
            return Step(_refused(action, event, at))
        case Unsendable():
            return Step(_unsendable(action, event, at, rules))
        case Lost():
            return Step(_lost(action, event, at, rules))
        case Responded():
            return _responded(action, event, at, rules)
        case ReadBack():
            return Step(_read_back(action, event, at, rules))
        case Noticed():
            return Step(_noticed(action, event, at, rules))
        case Replayed():
            return _replayed(action, event, at, rules)
        case Resolved():
            return Step(_resolved(action, event, at))
        case OwnerLost():
            return Step(_owner_lost(action, event, at, rules))
        case Folded():
            return Step(_folded(action, event))
        case Delivered():
            return Step(_delivered(action, event))
        case AskersGone():
            # Only while it is pending does it matter: later states have rules of their own for a twin.
            return Step(replace(action, askers_gone=True) if action.status is Status.PENDING else action)
        case Suspected():
            return Step(replace(action, duplicate_suspected=True))
        case Priced(amount):
            return Step(action if action.amount.priced else replace(action, amount=amount))
        case Noted(by, text):
            return Step(replace(action, notes=(*action.notes, Note(at.now_ms, by, text))))
        case _:
            assert_never(event)


# ── Sending ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def may_be_sent_again(action: Action) -> bool:
    """Is there proof that nothing of this run was executed? Then the same key is sent again (CONTRACT 2.2)."""
    if action.contradicted or action.status is not Status.FAILED:
        return False
    return isinstance(action.delivery, NotDispatched) or action.cause in (Cause.NOT_SENT, Cause.NOT_EXECUTED)


def _redispatched(action: Action, event: Redispatched) -> Action:
    if not may_be_sent_again(action):
        return action
    return replace(
        action,
        identity=event.identity,
        delivery=DeliveryPending(),
        awaited=True,
        cause=None,
        amount=event.amount,
        dispatches=(*action.dispatches, event.dispatch),
        upstream_status=None,
        answer_kept=False,
        before_execution=False,
        unanswered_first=True,
        askers_gone=False,
        settled_at_ms=None,
        settled_by=None,
        answered_at_ms=None,
    )


def _refused(action: Action, event: Refused, at: Moment) -> Action:
    """Only what was never sent, or provably executed nothing, can be refused."""
    if action.status is not Status.PENDING or action.dispatches:
        return action
    return replace(action, delivery=NotDispatched(), awaited=False, cause=event.cause, settled_at_ms=at.now_ms)


# ── What the transport and the provider tell ──────────────────────────────────────────────────────────────────────────


def _is_last(action: Action, dispatch_id: str) -> bool:
    return action.dispatch is not None and action.dispatch.dispatch_id == dispatch_id


def _ended(action: Action, dispatch_id: str, at: Moment) -> Action:
    """Nothing more can come of this dispatch: a new run need not wait for its harvest end."""
    dispatches = tuple(
        replace(d, ended_at_ms=at.now_ms) if d.dispatch_id == dispatch_id and d.ended_at_ms is None else d
        for d in action.dispatches
    )
    return replace(action, dispatches=dispatches)


def _unsendable(action: Action, event: Unsendable, at: Moment, rules: Rules) -> Action:
    if not _is_last(action, event.dispatch_id) or action.dispatches[-1].ended_at_ms is not None:
        return action  # An earlier dispatch: its fate was part of the proof that let the next one go.
    proof = _evidence(at, Source.TRANSPORT, Proof.NOT_SENT, detail=event.why.value, dispatch_id=event.dispatch_id)
    action = _ended(_append(action, proof), event.dispatch_id, at)
    match action.status:
        case Status.PENDING | Status.DENIED_UNRESOLVED if isinstance(action.delivery, DeliveryPending):
            # Whoever wrote it off while its owner slept did so without this proof.
            return _settle(action, DeliveryFailed(), Cause.NOT_SENT, Source.TRANSPORT, at)
        case Status.PENDING:
            # The provider says that it has it: one of the two is wrong, and nothing more will be heard.
            return _unknown(action, Cause.CONNECTION_LOST, action.delivery, at, rules)
        case Status.CONFIRMED:
            return replace(action, contradicted=True)
        case _:
            return action


def _lost(action: Action, event: Lost, at: Moment, rules: Rules) -> Action:
    if not (action.awaited and _is_last(action, event.dispatch_id)):
        return action  # It is unknown or settled already, and silence says nothing new.
    proof = _evidence(at, Source.TRANSPORT, Proof.UNCLEAR, detail=event.cause.value, dispatch_id=event.dispatch_id)
    return _unknown(_append(action, proof), event.cause, action.delivery, at, rules)


def _owner_lost(action: Action, event: OwnerLost, at: Moment, rules: Rules) -> Action:
    last = action.dispatch
    if not action.awaited or last is None or last.owner != event.owner:
        return action
    proof = _evidence(
        at,
        Source.TRANSPORT,
        Proof.UNCLEAR,
        detail=Cause.PROXY_RESTART.value,
        dispatch_id=last.dispatch_id,
    )
    return _unknown(_append(action, proof), Cause.PROXY_RESTART, action.delivery, at, rules)


def _responded(action: Action, event: Responded, at: Moment, rules: Rules) -> Step:
    if not any(d.dispatch_id == event.dispatch_id for d in action.dispatches):
        return Step(action)
    last = _is_last(action, event.dispatch_id)
    source = Source.RESPONSE if action.awaited and last else Source.LATE_RESPONSE
    verdict, suspects = _of_this_run(action, event.verdict)
    if event.reply.whole:
        action = _ended(action, event.dispatch_id, at)
    if not last and not isinstance(verdict, Accepted):
        # The dispatch after it was let go on a proof about this one; only an acceptance is news.
        return Step(_append(action, _seen(verdict, event.reply, source, at, event.dispatch_id)))
    own = not isinstance(verdict, Unclear) or verdict.delivered  # The provider's own answer, whatever it says.
    if own and event.reply.replayed and len(action.dispatches) == 1:
        action = replace(action, prior_execution=True)
    action = replace(action, upstream_status=event.reply.status)
    action = _weigh(action, verdict, event.reply, source, at, rules, event.dispatch_id)
    if event.kept and _is_answer(action, verdict):
        action = replace(action, answer_kept=True)
    if isinstance(verdict, Accepted | Rejected) and action.answered_at_ms is None:
        action = replace(action, answered_at_ms=at.now_ms)
    return Step(action, suspects)


def _of_this_run(action: Action, verdict: Verdict) -> tuple[Verdict, str | None]:
    """Return what the answer says of this run, and the run before where that may have executed after all."""
    if isinstance(verdict, Rejected) and verdict.already_done and action.identity.run > 1:
        # On a later run "already done" may speak of the run before: nothing here is certain any more.
        return Unclear(Cause.UNRECOGNISED_RESPONSE, delivered=True), action.identity.retry_of
    return verdict, None


def _is_answer(action: Action, verdict: Verdict) -> bool:
    """May this response be shown to an agent that asks again, as what became of the action?"""
    match verdict:
        case Accepted():
            return action.status is Status.CONFIRMED
        case Rejected():
            return action.status is Status.FAILED and not action.contradicted
        case Unclear():
            return action.unresolved and action.cause is verdict.cause is Cause.NON_TERMINAL


# ── What the provider's own record tells ──────────────────────────────────────────────────────────────────────────────


def _read_back(action: Action, event: ReadBack, at: Moment, rules: Rules) -> Action:
    finding = event.finding
    action = _logged(action, event, at, rules)
    match finding:
        case Found(verdict, digest):
            reply = Reply(digest=digest, whole=True)
            if isinstance(verdict, Rejected) and action.status is Status.CONFIRMED and _by_provider(action):
                # The provider said that it existed; that it is failed or cancelled now came after.
                after = _evidence(at, Source.READ_BACK, Proof.AFTERMATH, reply=reply, detail=_word(verdict))
                return _append(action, after)
            return _weigh(action, verdict, reply, Source.READ_BACK, at, rules)
        case Several(object_ids):
            seen = _evidence(at, Source.READ_BACK, Proof.UNCLEAR, detail="several_objects", object_ids=object_ids)
            action = replace(_append(action, seen), duplicate_suspected=True)
            match action.status:
                case Status.DENIED_UNRESOLVED:
                    return replace(action, needs_operator=True)
                case Status.FAILED:
                    return replace(action, contradicted=True)  # Whichever of them is ours: it did happen.
                case _:
                    return action
        case Candidates() | Absent() | Unreadable():
            return action
        case _:
            assert_never(finding)


def _by_provider(action: Action) -> bool:
    """Is the acceptance the provider's own word, in a response or in its record?"""
    return any(e.proof is Proof.ACCEPTED and e.source is not Source.MANUAL for e in action.evidence)


def _logged(action: Action, event: ReadBack, at: Moment, rules: Rules) -> Action:
    """Note the attempt and set the next one. Only a scheduled attempt that could read, and could tell, counts."""
    finding = event.finding
    tag = type(finding).__struct_config__.tag
    detail = finding.why if isinstance(finding, Unreadable) else ""
    looks_like = finding.object_ids if isinstance(finding, Candidates | Several) else ()
    attempt = Attempt(at.now_ms, str(tag), event.scheduled, detail, looks_like)
    action = replace(action, attempts=(*action.attempts, attempt)[-ATTEMPTS_LOGGED:])
    if not event.scheduled or not action.unresolved or action.cause is Cause.KEY_REUSED:
        return action
    sent_ms = action.dispatches[-1].dispatched_at_ms
    job_may_run = action.cause is Cause.NON_TERMINAL and at.now_ms < sent_ms + rules.settle_within_ms
    counts = not isinstance(finding, Unreadable) and not job_may_run
    readbacks = action.readbacks + (1 if counts else 0)
    exhausted = readbacks >= rules.attempts or at.now_ms > sent_ms + rules.look_back_ms
    delay_ms = min(rules.first_ms << min(action.reads_tried + 1, 32), rules.max_ms)
    return replace(
        action,
        readbacks=readbacks,
        reads_tried=action.reads_tried + 1,
        next_readback_ms=None if exhausted else at.now_ms + delay_ms,
        needs_operator=action.needs_operator or exhausted,
    )


def _noticed(action: Action, event: Noticed, at: Moment, rules: Rules) -> Action:
    if event.aftermath and action.status is Status.CONFIRMED:
        after = _evidence(at, Source.WEBHOOK, Proof.AFTERMATH, reply=event.reply, detail=_word(event.verdict))
        return _append(action, after)
    return _weigh(action, event.verdict, event.reply, Source.WEBHOOK, at, rules)


def _replayed(action: Action, event: Replayed, at: Moment, rules: Rules) -> Step:
    """A replay settles only by a 2xx or by a definite rejection that the provider marks as its first answer."""
    verdict, suspects = _of_this_run(action, event.verdict)
    if isinstance(verdict, Unclear):
        seen = _evidence(at, Source.REPLAY, Proof.UNCLEAR, reply=event.reply, detail=_word(verdict))
        return Step(_append(action, seen), suspects)
    return Step(_weigh(action, verdict, event.reply, Source.REPLAY, at, rules))


# ── What a person tells ───────────────────────────────────────────────────────────────────────────────────────────────


def _resolved(action: Action, event: Resolved, at: Moment) -> Action:
    if not action.unresolved:
        return action
    proof = Proof.ACCEPTED if event.happened else Proof.REJECTED
    word = _evidence(
        at, Source.MANUAL, proof, by=event.by, text=event.text, reference=event.reference, detail="resolved"
    )
    action = replace(_append(action, word), allow_retry=event.allow_retry)
    if event.reference and event.happened and not action.object_ids:
        action = replace(action, object_ids=(event.reference,))
    if event.happened:
        return _settle(action, DeliveryConfirmed(Acceptance.ACCEPTED), None, Source.MANUAL, at, by=event.by)
    delivery: Delivery = (
        DeliveryConfirmed(Acceptance.REJECTED) if isinstance(action.delivery, DeliveryConfirmed) else DeliveryFailed()
    )
    return _settle(action, delivery, Cause.MANUAL, Source.MANUAL, at, by=event.by)


# ── The agent's side ──────────────────────────────────────────────────────────────────────────────────────────────────


def _folded(action: Action, event: Folded) -> Action:
    aliases = action.aliases
    if event.alias is not None and event.alias not in aliases and len(aliases) < ALIASES_KEPT:
        aliases = (*aliases, event.alias)
    return replace(action, aliases=aliases, unanswered_folded=action.unanswered_folded + 1, askers_gone=False)


def _delivered(action: Action, event: Delivered) -> Action:
    """Count an answer that arrived. One that a folded request got serves the first asker too: it hung up or got it."""
    if action.status not in (Status.CONFIRMED, Status.FAILED):
        return action  # Nothing to deliver stands here: what arrived was the answer to a dispatch before this one.
    if not event.folded:
        return replace(action, unanswered_first=False)
    return replace(action, unanswered_first=False, unanswered_folded=max(0, action.unanswered_folded - 1))


# ── Weighing a verdict ────────────────────────────────────────────────────────────────────────────────────────────────


def _weigh(
    action: Action,
    verdict: Verdict,
    reply: Reply,
    source: Source,
    at: Moment,
    rules: Rules,
    dispatch_id: str = "",
) -> Action:
    """Append the verdict as evidence, and let it move the state where the state is open."""
    if action.unresolved and action.cause is Cause.KEY_REUSED:
        # What our key names there is somebody else's request: it proves nothing of ours, and a person decides.
        seen = _seen(verdict, reply, source, at, dispatch_id)
        return _append(action, replace(seen, proof=Proof.UNCLEAR))
    action = _append(action, _seen(verdict, reply, source, at, dispatch_id))
    match action.status:
        case Status.PENDING | Status.DENIED_UNRESOLVED:
            return _moved(action, verdict, source, at, rules)
        case Status.CONFIRMED:
            if isinstance(verdict, Accepted):
                foreign = set(verdict.object_ids) - set(action.object_ids)
                known = action.object_ids or verdict.object_ids
                return replace(
                    action,
                    object_ids=known,
                    duplicate_suspected=action.duplicate_suspected or bool(action.object_ids and foreign),
                )
            return replace(action, contradicted=True) if isinstance(verdict, Rejected) else action
        case Status.FAILED:
            return _against_failed(action, verdict)
        case _:
            assert_never(action.status)


def _against_failed(action: Action, verdict: Verdict) -> Action:
    match verdict:
        case Accepted():
            return replace(
                action,
                contradicted=True,
                object_ids=action.object_ids or verdict.object_ids,
                amount=verdict.amount if verdict.amount is not None else action.amount,
                over_reserved=action.over_reserved or _exceeds(verdict.amount, action.amount),
            )
        case Rejected():
            return action
        case Unclear():
            # It reached the provider after all, and what came of it there is not known.
            never_left = isinstance(action.delivery, DeliveryFailed | NotDispatched)
            return replace(action, contradicted=True) if verdict.delivered and never_left else action
        case _:
            assert_never(verdict)


def _seen(verdict: Verdict, reply: Reply, source: Source, at: Moment, dispatch_id: str) -> Evidence:
    return _evidence(
        at,
        source,
        _proof(verdict),
        reply=reply,
        detail=_word(verdict),
        object_ids=verdict.object_ids if isinstance(verdict, Accepted | Unclear) else (),
        dispatch_id=dispatch_id,
    )


def _moved(action: Action, verdict: Verdict, source: Source, at: Moment, rules: Rules) -> Action:
    match verdict:
        case Accepted():
            action = replace(
                action,
                object_ids=verdict.object_ids or action.object_ids,
                partial=verdict.partial,
                amount=verdict.amount if verdict.amount is not None else action.amount,
                over_reserved=_exceeds(verdict.amount, action.amount),
            )
            return _settle(action, DeliveryConfirmed(Acceptance.ACCEPTED), None, source, at)
        case Rejected():
            action = replace(action, before_execution=verdict.before_execution)
            cause = Cause.NOT_EXECUTED if verdict.not_executed else Cause.REJECTED
            return _settle(action, DeliveryConfirmed(Acceptance.REJECTED), cause, source, at)
        case Unclear():
            named = not action.object_ids and bool(verdict.object_ids)
            delivery = DeliveryConfirmed() if verdict.delivered else action.delivery
            action = replace(action, delivery=delivery, object_ids=verdict.object_ids or action.object_ids)
            if source is Source.RESPONSE:
                return _unknown(action, verdict.cause, delivery, at, rules)
            if action.awaited:
                return action  # Its own answer may come yet.
            return _clearer(action, verdict.cause, at, rules, named=named)
        case _:
            assert_never(verdict)


def _clearer(action: Action, cause: Cause, at: Moment, rules: Rules, *, named: bool) -> Action:
    """Take what later evidence adds to an unknown outcome; the cause stands but where another rule follows from it."""
    if cause is Cause.KEY_REUSED:
        return replace(action, cause=cause, needs_operator=True, next_readback_ms=None)
    if cause is Cause.NON_TERMINAL:
        action = replace(action, cause=cause)  # A job: its read-backs count only once it must have ended.
    if named and rules.by_object and action.next_readback_ms is None:
        return _asked_for(action, at, rules)  # Only now can the record be asked about it.
    return action


def _exceeds(actual: Amount | None, reserved: Amount) -> bool:
    if actual is None or actual.minor is None or reserved.minor is None:
        return False
    return actual.currency == reserved.currency and actual.minor > reserved.minor


def _unknown(action: Action, cause: Cause, delivery: Delivery, at: Moment, rules: Rules) -> Action:
    """Nobody can say what happened: hold it, block its retries, and ask the provider's record where there is one."""
    action = replace(
        action,
        delivery=delivery,
        awaited=False,
        cause=cause,
        was_unknown=True,
        unknown_since_ms=at.now_ms,
        unknown_cause=cause,
    )
    return _asked_for(action, at, rules)


def _asked_for(action: Action, at: Moment, rules: Rules) -> Action:
    """Schedule the first read-back, or call a person where there is nothing to read."""
    eligible_ms = action.dispatches[-1].dispatched_at_ms + rules.min_age_ms
    can_read = rules.scheduled or (rules.by_object and bool(action.object_ids))
    reads = can_read and action.cause is not Cause.KEY_REUSED
    return replace(
        action,
        eligible_at_ms=eligible_ms,
        next_readback_ms=max(at.now_ms + rules.first_ms, eligible_ms) if reads else None,
        needs_operator=not reads,
    )


def _settle(
    action: Action, delivery: Delivery, cause: Cause | None, source: Source, at: Moment, by: str = ""
) -> Action:
    confirmed = delivery == DeliveryConfirmed(Acceptance.ACCEPTED)
    return replace(
        action,
        delivery=delivery,
        awaited=False,
        cause=cause,
        settled_at_ms=at.now_ms,
        settled_by=Settled(source, by),
        confirmed_at_ms=at.now_ms if confirmed else action.confirmed_at_ms,
        next_readback_ms=None,
        needs_operator=False,
    )


def _append(action: Action, evidence: Evidence) -> Action:
    return replace(action, evidence=(*action.evidence, evidence))


def _evidence(
    at: Moment,
    source: Source,
    proof: Proof,
    *,
    reply: Reply | None = None,
    detail: str = "",
    object_ids: tuple[str, ...] = (),
    dispatch_id: str = "",
    by: str = "",
    text: str = "",
    reference: str = "",
) -> Evidence:
    reply = reply or Reply()
    return Evidence(
        evidence_id=f"ev_{at.token}",
        at_ms=at.now_ms,
        source=source,
        proof=proof,
        detail=detail,
        digest=reply.digest,
        upstream_status=reply.status,
        request_id=reply.request_id,
        object_ids=object_ids,
        dispatch_id=dispatch_id,
        by=by,
        text=text,
        reference=reference,
    )


def _proof(verdict: Verdict) -> Proof:
    match verdict:
        case Accepted():
            return Proof.ACCEPTED
        case Rejected(not_executed=True):
            return Proof.NOT_EXECUTED
        case Rejected():
            return Proof.REJECTED
        case Unclear():
            return Proof.UNCLEAR
        case _:
            assert_never(verdict)


def _word(verdict: Verdict) -> str:
    return verdict.cause.value if isinstance(verdict, Unclear) else _proof(verdict).value
