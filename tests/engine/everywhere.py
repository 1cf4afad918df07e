"""The same request again and again, with trouble at each of its calls over a port in turn, and what must hold then."""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from proxy.core.answers import Own, Retry
from proxy.core.http import Unsent
from proxy.core.model import Cause, Status
from proxy.engine import Answer, Provided
from proxy.ports import StoreUnavailable
from tests.engine.asks import broken, invalid, limited, refund, refund_object, refunded
from tests.engine.rig import Replica, Rig, header_of
from tests.fakes.fuse import Bug
from tests.fakes.loop import passing, virtual_loop
from tests.fakes.upstream import Script, answers, silence, unsent

HARVEST_MS: Final = 120_000
WAIT_MOST_MS: Final = 30_500  # The answer deadline, a margin, and what a fake takes.
UNPRICED: Final = refund(currency=None)

SCENARIOS: Final[dict[str, Callable[[], Script]]] = {
    "it is made": refunded,
    "it is refused before it ran": invalid,
    "it is not executed": limited,
    "the provider fails": broken,
    "the connection is lost": silence,
    "no connection is made": lambda: unsent(Unsent.DNS),
    "it is made, and said late": lambda: refunded(thinking=40_000),
    "no answer ever comes": lambda: silence(thinking=500_000),
    "no connection is made in time": lambda: refunded(connecting=30_000),
    "it is sent again, and made": refunded,
    "it is sent again, and the connection is lost": silence,
}
SENT_AGAIN: Final = {"it is sent again, and made", "it is sent again, and the connection is lost"}
NOTHING_RAN: Final = {"it is refused before it ran", "it is not executed", "no connection is made"}


class Killed(BaseException):
    """The process is gone: nothing of it calls anything any more."""


class Run(Struct):
    """What came of one run. `answer` None: the agent heard an exception, or nothing."""

    scenario: str
    rig: Rig
    answer: Answer | None
    took_ms: int
    calls: tuple[str, ...] = ()
    lies: list[str] = []

    @property
    def replica(self) -> Replica:
        """The process that was asked."""
        return self.rig.replicas[0]


Trouble = Callable[[Replica, "asyncio.Task[Answer]"], Callable[[str], None]]


def a_bug(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """An exception that nobody expects."""
    return replica.fuse.blow


def an_os_error(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """What an edge let through: it is of the kind that a full disk raises, and so does every timeout."""

    def blow(what: str) -> None:
        raise TimeoutError(what)

    return blow


def the_store_fails_once(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """One operation of the store fails, before or after it was done; what is no operation of the store goes well."""

    def blow(what: str) -> None:
        if "store." in what:
            raise StoreUnavailable(what)

    return blow


def the_store_goes(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """The store answers no more until everything else is over."""

    def blow(what: str) -> None:
        replica.store.down = True

    return blow


def the_handler_ends(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """The agent's side is cut off in our process."""

    def blow(what: str) -> None:
        asking.cancel()

    return blow


def the_process_dies(replica: Replica, asking: "asyncio.Task[Answer]") -> Callable[[str], None]:
    """The process is killed."""
    replica.fuse.lasts = True

    def blow(what: str) -> None:
        replica.die()
        raise Killed(what)

    return blow


async def run(scenario: str, trouble: Trouble = a_bug, at: int | None = None) -> Run:
    """Ask once, with trouble at one call, until everything has come to rest."""
    clock = virtual_loop().clock
    rig = Rig(clock)
    rig.upstream.reads = lambda _: answers(200, {"object": "charge", "currency": "usd", **refund_object()})
    replica = rig.replica()
    if scenario in SENT_AGAIN:
        rig.upstream.writes.append(unsent())
        await replica.ask(UNPRICED)
    rig.upstream.writes.append(SCENARIOS[scenario]())
    replica.fuse.touched.clear()
    asking = replica.start(UNPRICED)
    replica.fuse.blow = trouble(replica, asking)
    replica.fuse.blows_at = at
    began_ms = clock.monotonic_ms()
    await asyncio.wait({asking})
    took_ms = clock.monotonic_ms() - began_ms
    cancelled = asking.cancelled() or isinstance(asking.exception(), Bug | Killed | TimeoutError)
    done = Run(scenario, rig, None if cancelled else asking.result(), took_ms)
    await passing(HARVEST_MS + 10_000)
    done.calls = tuple(replica.fuse.touched)
    done.lies += told(done)
    replica.fuse.blows_at = None
    replica.store.down = False
    done.lies += await left_behind(done)
    return done


def told(done: Run) -> list[str]:
    """What was not as promised while it went on."""
    found = []
    if done.took_ms > WAIT_MOST_MS:
        found.append(f"the agent waited {done.took_ms} ms")
    left = sum(call.left_bytes for call in done.rig.upstream.tried)
    if left and isinstance(done.answer, Own) and header_of(done.answer, "Doubtless-Retry") == Retry.SAFE.value:
        found.append(f"the agent was told that it is safe to try again: {done.answer.code}")
    return found


async def left_behind(done: Run) -> list[str]:
    """What is not as promised after the trouble is over."""
    rig, found = done.rig, []
    survivor = done.replica if done.replica.lives else rig.replica(spool=done.replica.spool)
    await survivor.reconcile()
    await passing(40_000)
    await survivor.reconcile()
    left = sum(call.left_bytes for call in rig.upstream.tried)
    if isinstance(done.answer, Provided) and rig.only.status.value != header_of(done.answer, "Doubtless-Status"):
        found.append("the record is not what the agent was told with the provider's answer")
    for action in rig.actions:
        if action.status is Status.PENDING:
            found.append("the record stays in flight")
        if left and action.status is Status.FAILED and action.cause is Cause.NOT_SENT:
            found.append("the record says that nothing was sent")
    executed = len(rig.upstream.dispatched)
    rig.upstream.otherwise = refunded("re_2")
    await survivor.ask(UNPRICED)
    if executed and len(rig.upstream.dispatched) > executed and done.scenario not in NOTHING_RAN:
        found.append("it was sent twice")
    found += [f"a task failed of {f!r}" for f in await rig.end() if not isinstance(f, Bug | Killed | TimeoutError)]
    return found


async def lies_at_every_call(scenario: str, trouble: Trouble) -> dict[str, list[str]]:
    """Run once for each call; what was not as promised, by the call that the trouble was at."""
    calls = (await run(scenario)).calls
    assert "store.commit" in calls
    out = {}
    for n, call in enumerate(calls):
        blown = await run(scenario, trouble, n)
        assert blown.replica.fuse.blown == call
        if blown.lies:
            out[f"{n} {call}"] = blown.lies
    return out
