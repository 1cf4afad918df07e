"""Agents that retry like language models: the same event on a new connection, hang-ups, other words, a new run."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from proxy.core.answers import Own
from proxy.engine import Answer, Ask, Asker, Provided
from tests.engine.asks import mail, refund
from tests.fakes.fuse import Bug

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

KINDS: Final = {"refund": 5.0, "mail": 2.0, "customer": 1.0, "change": 2.5}
WAYS: Final = {"event": 4.0, "sdk": 3.0, "none": 2.0, "developer's key": 1.0}
PATIENCE_MS: Final = ((100, 2_000), (2_000, 15_000), (30_000, 60_000))
ARRIVES_MS: Final = 2_000


@dataclass(slots=True)
class Errand:
    """What an agent is about. `strict`: nothing it does means a second execution, whatever happens."""

    name: str
    kind: str
    way: str
    amount: int | None
    currency: str | None
    subject: str
    strict: bool = True
    words: int = 0  # How often it was reworded.
    run_of: str | None = None  # The action of which it asks for a new run.

    @property
    def named(self) -> bool:
        """Does it name its event?"""
        return self.way in ("event", "developer's key")

    def ask(self, number: int) -> Ask:
        """Return the request, as the agent makes it now."""
        headers = {"X-Errand": self.name, "X-Request": str(number)}
        if self.run_of is not None:
            headers["Doubtless-Retry-Of"] = self.run_of
        event = self.name if self.way == "event" else None
        made = f"stripe-node-retry-{number}" if self.kind == "refund" else f"00000000-0000-4000-9000-{number:012d}"
        key = {"sdk": made, "developer's key": f"job-{self.name}"}.get(self.way)
        match self.kind:
            case "refund":
                amount = None if self.amount is None else self.amount - 100 * self.words
                headers |= {"Idempotency-Key": key} if key else {}
                return refund(event, headers=headers, charge=f"ch_{self.name}", amount=amount, currency=self.currency)
            case "customer":
                fields = {"charge": None, "amount": None, "currency": None, "name": f"{self.name} {self.words}"}
                return refund(event, headers=headers, path="/v1/customers", **fields)
            case _:
                said = "It is attached." + " Again." * self.words
                asked = mail(event, to=[f"{self.subject}@y.com"], text=said)
                extra = [*headers.items(), *([("Idempotency-Key", key)] if key else [])]
                asked = replace(asked, headers=(*asked.headers, *((n.encode(), v.encode()) for n, v in extra)))
                return asked if self.kind == "mail" else replace(asked, method="PATCH", target=f"/emails/{self.name}")


def make_errand(world: "World", number: int) -> Errand:
    """Return what the next agent is about."""
    chance = world.chance
    kind = chance.weighted(KINDS)
    way = "event" if kind in ("customer", "change") else chance.weighted(WAYS)
    # Two of ours may write the same message on purpose, each under an event of its own.
    name = f"e{number}"
    subject = "all" if kind == "mail" and way == "event" and chance.happens(0.4) else name
    amount = None if chance.happens(0.1) else 5_400
    return Errand(name, kind, way, amount, "usd" if chance.happens(0.6) else None, subject)


class Agent:
    """One connection after the other, for one errand."""

    def __init__(self, world: "World", errand: Errand, *, rewords: bool) -> None:
        self._world = world
        self._chance = world.chance
        self._errand = errand
        self._rewords = rewords
        self._unanswered = False

    async def run(self) -> None:
        """Try until it has an answer that it can live with."""
        for _ in range(self._chance.between(1, 7)):
            if await self._try():
                return
            await asyncio.sleep(self._chance.between(*self._chance.of(((0, 50), (100, 3_000), (3_000, 30_000)))) / 1000)

    async def _try(self) -> bool:
        """Ask once; is that enough?"""
        world, errand = self._world, self._errand
        process = self._chance.of(world.slots).process
        if process is None or not process.ready or process.gate.dead:
            return False  # Nobody listens there.
        world.requests += 1
        number = world.requests
        asker = Asker()
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        ask = errand.ask(number)
        if self._chance.happens(0.1):
            ask = replace(ask, wait_ms=self._chance.between(0, 5_000))
        world.story.tell(
            errand.name, f"request {number} to {process.name}: {errand.kind} by {errand.way}, {errand.words}"
        )
        process.call(self._handle, process, ask, asker, number, answered)
        patience_ms = self._chance.between(*self._chance.of(PATIENCE_MS))
        await asyncio.wait({answered, process.ended}, timeout=patience_ms / 1000, return_when="FIRST_COMPLETED")
        if not answered.done() or self._chance.happens(0.08 if not world.weather.cleared else 0):
            lost = "connection lost" if process.gate.dead else "hang-up" if not answered.done() else "lost answer"
            world.story.count(f"agent: {lost}", errand.name, f"request {number}: {lost}")
            process.call(asker.hang_up)
            self._unanswered = True
            return self._changes(answered=False)
        answer = answered.result()
        if isinstance(answer, Provided) and answer.delivers and self._chance.happens(0.9):
            shown = (process.engine.delivered, answer.action_id, answer.folded)
            world.later(self._chance.between(0, ARRIVES_MS), process.call, _arrived, *shown)
            # What was shown to arrive is over: without an event of its own, whatever comes now is another one.
            errand.strict = errand.strict and errand.named
        return self._enough(answer)

    def _handle(
        self, process: "Process", ask: Ask, asker: Asker, number: int, answered: "asyncio.Future[Answer]"
    ) -> None:
        """Be the handler of a request, in the process."""

        async def govern() -> None:
            self._world.open_requests[number] = process
            with contextlib.suppress(Bug):
                answer = await process.engine.govern(ask, asker)
                self._world.truth.answered(self._errand.name, str(number), answer)
                answered.set_result(answer)
            del self._world.open_requests[number]

        process.tasks.spawn(govern(), f"request {number}")

    def _enough(self, answer: Answer) -> bool:
        """Take an answer; is the agent content with it?"""
        headers = dict(answer.headers)
        retry, chance = headers.get("Doubtless-Retry"), self._chance
        if isinstance(answer, Provided) and answer.response.status < 300:
            return True
        if retry == "safe":
            return False
        if retry == "new-run":
            if chance.happens(0.3):
                return True
            if chance.happens(0.6) or (isinstance(answer, Own) and answer.code.value == "retry_of_required"):
                self._errand.run_of = headers.get("Doubtless-Action-Id")
            return self._changes(answered=True)
        return chance.happens(0.4) or self._changes(answered=True)

    def _changes(self, *, answered: bool) -> bool:
        """Put it in other words, now and then. Returns False: it is going to try again."""
        if self._rewords and self._chance.happens(0.3):
            self._errand.words += 1
            if self._unanswered or not answered:
                # What nobody recorded yet as given up is not told from a second intention (CONTRACT 2.3, rule 3).
                self._errand.strict = self._errand.strict and self._errand.named
            self._world.story.count("agent: other words", self._errand.name, f"rewords: {self._errand.words}")
        return False


def _arrived(delivered: object, action_id: str, folded: bool) -> None:
    delivered(action_id, folded=folded)  # type: ignore[operator]
