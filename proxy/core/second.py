"""What a second request in a scope gets (CONTRACT 2.2), read on the scope's latest run.

One function, one row of the table an arm. It is asked again after every wait and every lost race, on what stands then.
"""

from enum import StrEnum
from typing import Final, assert_never

from msgspec import Struct

from proxy.core.answers import Code
from proxy.core.lifecycle import may_be_sent_again
from proxy.core.model import Action, Cause, NotDispatched, Status

REJECTION_REPLAYED_MS: Final = 60_000


class Verb(StrEnum):
    """What to do with the second request."""

    WAIT = "wait"  # For the first one's answer.
    REPLAY = "replay"  # The stored response.
    READ = "read"  # The object, which has the response's shape.
    SEND_AGAIN = "send_again"  # The same action, the same key, a new dispatch.
    NEW_RUN = "new_run"  # A new action, a new key, linked by `retry_of`.
    REFUSE = "refuse"


class Decision(Struct, frozen=True):
    """The verb, and for a refusal its code; `open` is false where another credential asked: code and message only."""

    verb: Verb
    code: Code | None = None
    open: bool = True
    until_ms: int | None = None


class Asking(Struct, frozen=True):
    """What matters of the second request. `retry_of` is set where it names the latest run."""

    same_payload: bool
    same_credential: bool
    retry_of: bool
    now_ms: int
    readable: bool = False  # The adapter says that the object read has the response's shape.


def decide(first: Action, asking: Asking) -> Decision:
    """Read the table."""
    if first.contradicted:
        return _refuse(Code.OUTCOME_UNKNOWN, asking)
    match first.status:
        case Status.PENDING:
            return _pending(asking)
        case Status.CONFIRMED:
            return _confirmed(first, asking)
        case Status.DENIED_UNRESOLVED:
            return _unresolved(first, asking)
        case Status.FAILED:
            return _failed(first, asking)
        case _:
            assert_never(first.status)


def _refuse(code: Code, asking: Asking) -> Decision:
    return Decision(Verb.REFUSE, code, open=asking.same_credential)


def _of_another(verb: Verb, asking: Asking) -> Decision:
    """An answer made for another request goes only to the same credential."""
    if asking.same_credential:
        return Decision(verb)
    return Decision(Verb.REFUSE, Code.CREDENTIAL_MISMATCH, open=False)


def _pending(asking: Asking) -> Decision:
    if asking.retry_of:
        return _refuse(Code.ACTION_IN_FLIGHT, asking)
    if not asking.same_payload:
        return _refuse(Code.PAYLOAD_MISMATCH, asking)
    return _of_another(Verb.WAIT, asking)


def _confirmed(first: Action, asking: Asking) -> Decision:
    if not asking.same_payload:
        return _refuse(Code.PAYLOAD_MISMATCH, asking)
    if first.answer_kept:
        return _of_another(Verb.REPLAY, asking)
    if asking.readable and first.object_ids:
        return _of_another(Verb.READ, asking)
    return _refuse(Code.ALREADY_SETTLED, asking)


def _unresolved(first: Action, asking: Asking) -> Decision:
    usable = first.cause is Cause.NON_TERMINAL and first.answer_kept
    if usable and asking.same_payload and asking.same_credential and not asking.retry_of:
        return Decision(Verb.REPLAY)
    return _refuse(Code.OUTCOME_UNKNOWN, asking)


def _failed(first: Action, asking: Asking) -> Decision:
    if asking.retry_of:
        return _new_run(first, asking)
    if may_be_sent_again(first):
        return Decision(Verb.SEND_AGAIN)
    if first.allow_retry:
        return _new_run(first, asking)
    by_response = first.cause is Cause.REJECTED and first.answered_at_ms is not None
    if by_response and first.before_execution:
        fresh = asking.now_ms < (first.settled_at_ms or 0) + REJECTION_REPLAYED_MS
        if asking.same_payload and fresh and first.answer_kept:
            return _of_another(Verb.REPLAY, asking)
        return _new_run(first, asking)
    if asking.same_payload and first.answer_kept:
        return _of_another(Verb.REPLAY, asking)
    return _refuse(Code.RETRY_OF_REQUIRED, asking)


def _new_run(first: Action, asking: Asking) -> Decision:
    """A new run never starts before the last dispatch is over."""
    until_ms = None if isinstance(first.delivery, NotDispatched) else first.over_at_ms(asking.now_ms)
    if until_ms is not None:
        return Decision(Verb.REFUSE, Code.TOO_EARLY, open=asking.same_credential, until_ms=until_ms)
    return Decision(Verb.NEW_RUN)
