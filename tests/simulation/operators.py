"""An operator who looks at what is unknown: asks the record, replays, vouches for an outcome, and is sometimes wrong.

A person may say "it failed", replay, or allow a new run only once the last dispatch is over (CONTRACT 2.4).
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from proxy.core import verdict
from proxy.core.events import Noted, Replayed, Resolved
from proxy.core.http import Answered, Exchange, Integrity, Request, Response
from proxy.engine.applying import REQUEST
from proxy.ports import Stored, StoreUnavailable
from proxy.reconciler import Refused
from tests.engine.rig import ADAPTERS
from tests.simulation.network import GARBLED
from tests.simulation.providers import text
from tests.simulation.truth import key_of

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

WORDS = {"reconcile": 4.0, "right": 1.5, "wrong": 3.0, "replay": 3.0, "note": 0.3}


class Operator:
    """One person, at one thing at a time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = world.chance

    async def run(self) -> None:
        """Look from time to time, as long as things go wrong."""
        while not self._world.weather.cleared:
            await asyncio.sleep(self._chance.between(2_000, 20_000) / 1000)
            unknown = [a.action_id for a in self._world.truth.actions.values() if a.unresolved]
            ready = [s.process for s in self._world.slots if s.process is not None and s.process.ready]
            if unknown and ready:
                process = self._chance.of(ready)
                done = asyncio.get_running_loop().create_future()
                process.call(self._begin, process, self._chance.of(unknown), self._chance.weighted(WORDS), done)
                await asyncio.wait({done, process.ended}, return_when="FIRST_COMPLETED")

    def _begin(self, process: "Process", action_id: str, word: str, done: "asyncio.Future[None]") -> None:
        async def act() -> None:
            try:
                with contextlib.suppress(StoreUnavailable, Refused):
                    await self._act(process, action_id, word)
            finally:
                if not done.done():
                    done.set_result(None)

        process.tasks.spawn(act(), f"operator: {word}")

    async def _act(self, process: "Process", action_id: str, word: str) -> None:
        story, applier = self._world.story, process.engine.applier
        stored = await process.store.get(action_id)
        if stored is None or not stored.action.unresolved:
            return
        action = stored.action
        if word == "reconcile":
            await process.reconciler.reconcile(action_id)
            story.count("operator: reconcile", "operator", f"has the record asked about {key_of(action)}")
        elif word == "note":
            await applier.apply(action_id, Noted("ann", "I look at it."))
            story.count("operator: note", "operator", f"remarks on {key_of(action)}")
        elif word == "replay":
            await self._replay(process, stored)
        else:
            executed = bool(self._world.journal.by_key.get(key_of(action)))
            happened = executed == (word == "right")
            if not happened and action.over_at_ms(self._world.clock.store_ms()) is not None:
                return  # 409 too_early
            event = Resolved("ann", happened, "I asked them.", allow_retry=not happened and self._chance.happens(0.5))
            said = "happened" if happened else "failed"
            story.count(f"operator: {word}, {said}", "operator", f"says of {key_of(action)}: {said}, which is {word}")
            await applier.apply(action_id, event, known=stored, once=True)

    async def _replay(self, process: "Process", stored: Stored) -> None:
        """Send the same bytes under the same key once more."""
        action, world = stored.action, self._world
        there = world.providers[action.identity.provider]
        sealed = await process.store.kept(action.action_id, REQUEST)
        opened = None if sealed is None else process.vault.open(sealed, f"{action.action_id}:{REQUEST}")
        if opened is None or not there.idempotent or action.over_at_ms(world.clock.store_ms()) is not None:
            return
        request = msgspec.msgpack.decode(opened, type=Request)
        fate = self._chance.weighted({"answered": 5.0, "401": 3.0, "lost": 1.5, "500": 1.5, "middlebox": 1.5})
        world.story.count(
            f"operator: replay, {fate}", "operator", f"replays {text(request, b'idempotency-key')}: {fate}"
        )
        reply: asyncio.Future[Exchange | None] = asyncio.get_running_loop().create_future()

        def at_provider() -> None:
            response = there.act(request, by_others=True) if fate in ("answered", "lost") else None
            answers: dict[str, Response | None] = {
                "answered": response,
                "401": there.says(401),
                "500": there.says(500),
                "middlebox": GARBLED,
            }
            answer = answers.get(fate)
            world.later(self._chance.between(10, 2_000), reply.set_result, None if answer is None else Answered(answer))

        world.later(self._chance.between(10, 500), at_provider)
        await asyncio.wait({reply})
        answered = reply.result()
        if isinstance(answered, Answered) and answered.integrity is Integrity.WHOLE:
            adapter = ADAPTERS[action.identity.provider]
            judged = verdict.of_replay(answered, adapter, adapter.route(action.identity.route))
            await process.engine.applier.apply(action.action_id, Replayed(judged, verdict.reply_of(answered, adapter)))
