"""One request and its answer, with every fault that can strike between the two."""

import asyncio
from typing import Final

from msgspec.structs import replace

from proxy.edges.standin.delivery import Close, Step, Wait, altered, middlebox_page, plan, raw_steps
from proxy.edges.standin.faults import Fault, Faults, Kind, Stage
from proxy.edges.standin.journal import Entry
from proxy.edges.standin.provider import Call, Provider, Reply, Work
from proxy.edges.standin.wire import Answer


async def pause(step: Wait) -> None:
    """Wait as a step says."""
    if step.gate is not None:
        await step.gate.wait()
    if step.delay_ms:
        await asyncio.sleep(step.delay_ms / 1000)


class Exchange:
    """Takes a whole request through its stages: front, key, execution, answer."""

    def __init__(self, provider: Provider, faults: Faults, call: Call, entry: Entry) -> None:
        self._provider = provider
        self._faults = faults
        self._call = call
        self._entry = entry

    async def steps(self) -> tuple[Step, ...]:
        """Do the work and return how its answer leaves."""
        front = self._take(Stage.FRONT)
        if front and front.kind is Kind.DROP_AFTER_READ:
            return (Close(front.how),)
        if front:
            await front.gate.wait()
        begun = self._provider.begin(self._call)
        if isinstance(begun, Reply):
            instead = self._take(Stage.INSTEAD)
            return self._instead(instead, None) if instead else await self._leave(begun, None)
        return await self._execute(begun)

    async def _execute(self, work: Work) -> tuple[Step, ...]:
        await self._hold(Stage.BEFORE_COMMIT)
        instead = self._take(Stage.INSTEAD)
        if instead:
            return self._instead(instead, work)
        return await self._leave(work.commit(), work)

    async def _hold(self, stage: Stage) -> None:
        fault = self._take(stage)
        if fault:
            holds = fault.kind in (Kind.HOLD_BEFORE_COMMIT, Kind.HOLD_AFTER_COMMIT)
            await pause(Wait(fault.gate if holds else None, fault.delay_ms))

    def _instead(self, fault: Fault, work: Work | None) -> tuple[Step, ...]:
        """Answer without executing."""
        reply = self._forced(fault, None)
        if work:
            work.finish(reply)
        if fault.kind is Kind.RAW:
            return raw_steps(fault)
        if _is_own(fault):
            self._provider.answered(self._call, reply)
        self._entry.note(status=reply.answer.status, request_id=reply.request_id)
        return self._plan(reply.answer, None)

    async def _leave(self, own: Reply, work: Work | None) -> tuple[Step, ...]:
        """Keep the answer, and let it leave as the faults will have it."""
        fault = self._take(Stage.OUTCOME)
        reply = self._forced(fault, own) if fault and fault.kind in _FORCING else own
        kept = reply if fault and _is_own(fault) else own
        if work:
            work.finish(kept)
        self._provider.answered(self._call, kept)
        answer = altered(reply.answer, fault, self._provider)
        self._entry.note(
            status=answer.status,
            request_id=own.request_id,
            executed=own.executed,
            replayed=own.replayed,
            object_id=own.object_id,
        )
        await self._hold(Stage.AFTER_COMMIT)
        return self._plan(answer, fault)

    def _forced(self, fault: Fault, own: Reply | None) -> Reply:
        """Return the reply that a fault puts in the place of the provider's own, if there is one."""
        status = fault.status or _STATUSES.get(fault.kind, 200)
        if fault.kind is Kind.HTML_502 or not fault.marked:
            return Reply(_dressed(middlebox_page(status), fault))
        executed = bool(own and own.executed)
        base = own if own and status < 400 else self._provider.refusal(self._call, status)
        headers = own.answer.headers if own else base.answer.headers  # The request keeps its own mark.
        answer = _dressed(Answer(status, headers, base.answer.body), fault)
        kept = self._provider.keeps(status, executed=executed) if fault.kept is None else fault.kept
        return replace(base, answer=answer, kept=kept)

    def _plan(self, answer: Answer, fault: Fault | None) -> tuple[Step, ...]:
        return plan(answer, fault, bodiless=self._call.method == "HEAD")

    def _take(self, stage: Stage) -> Fault | None:
        fault = self._faults.take(stage, self._provider.name, method=self._call.method, path=self._call.path)
        if fault:
            self._entry.note(fault=fault.kind.value)
        return fault


_FORCING: Final = frozenset({Kind.STATUS_AFTER_COMMIT, Kind.HTML_502, Kind.REDIRECT})
_STATUSES: Final = {
    Kind.STATUS_AFTER_COMMIT: 500,
    Kind.STATUS_WITHOUT_COMMIT: 500,
    Kind.HTML_502: 502,
    Kind.REDIRECT: 307,
}


def _is_own(fault: Fault) -> bool:
    """Is the answer that this fault makes the provider's own, so that its keys and logs know of it?"""
    return fault.marked and fault.kind in (Kind.STATUS_AFTER_COMMIT, Kind.STATUS_WITHOUT_COMMIT)


def _dressed(answer: Answer, fault: Fault) -> Answer:
    """Put the fault's own body and headers on an answer."""
    location = ((b"Location", fault.location.encode()),) if fault.kind is Kind.REDIRECT else ()
    body = answer.body if fault.body is None else fault.body
    return Answer(answer.status, (*answer.headers, *location, *fault.headers), body)
