"""Deliberate bugs of the product, each of a kind that passes ordinary tests: what the simulation must find."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from proxy.core import lifecycle, readback, records, second, verdict
from proxy.core.answers import KINDS, Code, Retry
from proxy.core.events import Found, Responded
from proxy.core.model import Action, Cause, DeliveryFailed, Source
from proxy.core.records import Bucket, Slip
from proxy.core.second import Asking, Decision, Verb
from proxy.core.verdict import Accepted, Rejected
from proxy.engine import Answer, Engine, Provided, applying
from proxy.engine.admission import Admission
from proxy.engine.applying import Applier
from proxy.engine.dispatching import EVENT_DECODER
from proxy.engine.making import Made, Maker
from proxy.engine.sending import Sender
from proxy.ports import Committed, Conflict, Exhausted, Observation, SendBefore, Stored
from proxy.reconciler import Reconciler
from tests.simulation import truth

Patch = pytest.MonkeyPatch


class Bug(Struct, frozen=True):
    """One bug. `found_by`: the invariants of which one must be the first to break."""

    name: str
    found_by: tuple[str, ...]
    make: Callable[[Patch], None]


def commit_after_send(patch: Patch) -> None:
    async def create(self: Admission, draft: Any, path: Any, asker: Any) -> Any:
        made = await self._maker.create(draft, path.prior, path.alive_until_ms)
        assert made.slip is not None
        live = self._sender.expect(made.action.action_id)
        begun = Stored(made.action, 1)
        self._sender.start(live, begun, made)
        await asyncio.sleep(0.05)
        result = await self._applier.commit(made.slip)
        return result if isinstance(result, Conflict) else await self._first_answer(draft, live, begun, asker, path)

    patch.setattr(Admission, "_create", create)


def release_on_timeout(patch: Patch) -> None:
    right = records._bucket
    patch.setattr(records, "_bucket", lambda action: Bucket.RELEASED if action.unresolved else right(action))


def exposure_ends_with_the_readbacks(patch: Patch) -> None:
    right = records._exposed
    patch.setattr(records, "_exposed", lambda action: None if action.needs_operator else right(action))


def unfenced_write(patch: Patch) -> None:
    right = Applier.commit

    async def commit(self: Applier, slip: Slip) -> Committed | Conflict | Exhausted:
        result = await right(self, slip)
        if isinstance(result, Conflict) and slip.expected > 0:
            before = self.projection(result.current)
            return await right(
                self, replace(slip, expected=result.version, before=before, commit_id=f"{slip.commit_id}x")
            )
        return result

    patch.setattr(Applier, "commit", commit)


def no_send_before(patch: Patch) -> None:
    right = Maker._try

    def make(self: Maker, *args: Any) -> Made:
        made = right(self, *args)
        made.sending.send_before = SendBefore(1 << 60, 1 << 60)
        return made

    patch.setattr(Maker, "_try", make)


def send_before_from_the_reply(patch: Patch) -> None:
    right = Sender.start

    def start(self: Sender, live: Any, stored: Stored, made: Made) -> None:
        clock = self._applier.clock
        made.sending.send_before = SendBefore(clock.monotonic_ms() + 8_000, clock.wall_ms() + 8_000)
        right(self, live, stored, made)

    patch.setattr(Sender, "start", start)


def a_replays_401_is_a_failure(patch: Patch) -> None:
    patch.setattr(
        verdict, "of_replay", lambda answered, adapter, route: verdict.of_dispatch(answered, adapter, route, keyed=True)
    )


def a_candidate_is_found(patch: Patch) -> None:
    right = readback.Inquiry._by_likeness

    def judge(self: readback.Inquiry, subject: readback.Subject) -> Any:
        finding = right(self, subject)
        return Found(Accepted(finding.object_ids)) if hasattr(finding, "object_ids") else finding

    patch.setattr(readback.Inquiry, "_by_likeness", judge)


def the_spool_holds_commits(patch: Patch) -> None:
    right = Reconciler._observe

    async def observe(self: Reconciler, observation: Observation) -> bool:
        stored = await self._store.get(observation.action_id)
        if stored is not None and not stored.action.awaited:
            return True  # Its version is another one by now: a conflict.
        return await right(self, observation)

    patch.setattr(Reconciler, "_observe", observe)


def the_spool_is_forgotten(patch: Patch) -> None:
    async def unspool(self: Reconciler) -> None:
        self._spool.taken(len(self._spool))

    patch.setattr(Reconciler, "unspool", unspool)


def delivered_marked_early(patch: Patch) -> None:
    right = Engine.govern

    async def govern(self: Engine, ask: Any, asker: Any) -> Answer:
        answer = await right(self, ask, asker)
        if isinstance(answer, Provided) and answer.delivers:
            self.delivered(answer.action_id, folded=answer.folded)
        return answer

    patch.setattr(Engine, "govern", govern)


def a_lost_connection_is_a_failure(patch: Patch) -> None:
    def lost(action: Action, event: Any, at: Any, rules: Any) -> Action:
        if not action.awaited:
            return action
        return lifecycle._settle(action, DeliveryFailed(), Cause.NOT_SENT, Source.TRANSPORT, at)

    patch.setattr(lifecycle, "_lost", lost)


def a_dead_owner_sent_nothing(patch: Patch) -> None:
    def lost(action: Action, event: Any, at: Any, rules: Any) -> Action:
        if not action.awaited:
            return action
        return lifecycle._settle(action, DeliveryFailed(), Cause.NOT_SENT, Source.TRANSPORT, at)

    patch.setattr(lifecycle, "_owner_lost", lost)


def what_is_unknown_is_sent_again(patch: Patch) -> None:
    right = lifecycle.may_be_sent_again
    patch.setattr(lifecycle, "may_be_sent_again", lambda action: action.unresolved or right(action))

    def unresolved(first: Action, asking: Asking) -> Decision:
        return Decision(Verb.SEND_AGAIN)

    patch.setattr(second, "_unresolved", unresolved)


def anybody_speaks_for_the_provider(patch: Patch) -> None:
    patch.setattr(verdict, "is_marked", lambda response, tree, adapter: True)


def lookups_before_the_script(patch: Patch) -> None:
    right = Maker._slip

    def slip(self: Maker, *args: Any) -> Slip:
        return replace(right(self, *args), lookups=())

    patch.setattr(Maker, "_slip", slip)


def the_unknown_is_safe_to_repeat(patch: Patch) -> None:
    patch.setitem(KINDS, Code.OUTCOME_UNKNOWN, replace(KINDS[Code.OUTCOME_UNKNOWN], retry=Retry.SAFE))


def a_late_answer_is_dropped(patch: Patch) -> None:
    right = lifecycle._responded

    def responded(action: Action, event: Any, at: Any, rules: Any) -> lifecycle.Step:
        return right(action, event, at, rules) if action.awaited else lifecycle.Step(action)

    patch.setattr(lifecycle, "_responded", responded)


def contrary_evidence_is_only_logged(patch: Patch) -> None:
    right = lifecycle.step

    def step(action: Action, *rest: Any) -> lifecycle.Step:
        done = right(action, *rest)
        return replace(done, action=replace(done.action, contradicted=action.contradicted))

    patch.setattr(applying, "step", step)


def a_server_error_is_a_no(patch: Patch) -> None:
    right = verdict.of_dispatch

    def judge(answered: Any, adapter: Any, route: Any, *, keyed: bool) -> Any:
        failed = answered.response.status >= 500
        return Rejected() if failed else right(answered, adapter, route, keyed=keyed)

    patch.setattr(verdict, "of_dispatch", judge)


def readbacks_end_at_the_first(patch: Patch) -> None:
    right = lifecycle._logged

    def logged(action: Action, event: Any, at: Any, rules: Any) -> Action:
        done = right(action, event, at, rules)
        return replace(done, next_readback_ms=None) if done.unresolved else done

    patch.setattr(lifecycle, "_logged", logged)


def an_answer_of_ours_is_not_noted(patch: Patch) -> None:
    """What was heard while the store could not be written is dropped."""
    right = Reconciler._observe

    async def observe(self: Reconciler, observation: Observation) -> bool:
        if isinstance(EVENT_DECODER.decode(observation.event), Responded):
            return True
        return await right(self, observation)

    patch.setattr(Reconciler, "_observe", observe)


BUGS: Final = tuple(
    Bug(make.__name__, found_by, make)
    for make, found_by in (
        (commit_after_send, (truth.RECORDED,)),
        (release_on_timeout, (truth.HELD,)),
        (exposure_ends_with_the_readbacks, (truth.HELD,)),
        (unfenced_write, (truth.APPENDED, truth.STANDS)),
        (no_send_before, (truth.IN_TIME,)),
        (send_before_from_the_reply, (truth.IN_TIME,)),
        (a_replays_401_is_a_failure, (truth.FAILED,)),
        (a_candidate_is_found, (truth.CONFIRMED,)),
        (the_spool_holds_commits, (truth.REMEMBERED, truth.SETTLES)),
        (the_spool_is_forgotten, (truth.REMEMBERED, truth.SETTLES)),
        (an_answer_of_ours_is_not_noted, (truth.REMEMBERED, truth.SETTLES)),
        (delivered_marked_early, (truth.ONE_ERRAND,)),
        (a_lost_connection_is_a_failure, (truth.FAILED, truth.ONE_AT_A_TIME, truth.ONCE)),
        (a_dead_owner_sent_nothing, (truth.FAILED, truth.ONE_AT_A_TIME, truth.ONCE)),
        (what_is_unknown_is_sent_again, (truth.STANDS, truth.ONCE, truth.ONE_AT_A_TIME)),
        (anybody_speaks_for_the_provider, (truth.FAILED, truth.CONFIRMED)),
        (lookups_before_the_script, (truth.ONE_ERRAND,)),
        (the_unknown_is_safe_to_repeat, (truth.SAFE,)),
        (a_late_answer_is_dropped, (truth.REMEMBERED, truth.SETTLES)),
        (contrary_evidence_is_only_logged, (truth.MARKED,)),
        (a_server_error_is_a_no, (truth.FAILED,)),
        (readbacks_end_at_the_first, (truth.LOOKED_AFTER,)),
    )
)
