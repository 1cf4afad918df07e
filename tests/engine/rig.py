"""Replicas of the engine and its reconciler over fakes: one store, one provider, one clock."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from proxy.core.adapter import Adapter
from proxy.core.answers import Own
from proxy.core.facts import Outcome
from proxy.core.http import Exchange, Request
from proxy.core.model import FOREVER_MS, Action
from proxy.edges.adapter_files import load_all
from proxy.engine import Answer, Ask, Asker, Engine, Provided, Settings
from proxy.ports import Sending, StoreUnavailable
from proxy.reconciler import Reconciler
from tests.fakes.clock import ManualClock
from tests.fakes.entropy import CountingEntropy
from tests.fakes.fuse import Fuse
from tests.fakes.ledger import Ledger
from tests.fakes.loop import quiet
from tests.fakes.meter import TallyMeter
from tests.fakes.spool import MemorySpool
from tests.fakes.store import MemoryStore
from tests.fakes.tasks import HeldTasks
from tests.fakes.upstream import ScriptedUpstream
from tests.fakes.vault import PlainVault

T = TypeVar("T")
ADAPTERS: Final = load_all({"stripe": None, "resend": None})
ROUNDS_MOST: Final = 10


class DistantStore(MemoryStore):
    """A MemoryStore that takes its time: `slow` and `slow_reply`, by method, in milliseconds."""

    def __init__(self, clock: ManualClock, ledger: Ledger, fuse: Fuse) -> None:
        super().__init__(clock, ledger)
        self.slow: dict[str, int] = {}
        self.slow_reply: dict[str, int] = {}
        self.replied: list[str] = []  # The operations whose replies came back, in order.
        self._fuse = fuse

    async def _do(self, op: str, work: Callable[[], T]) -> T:
        self._fuse.touch(f"store.{op}")
        if op in self.slow:
            await asyncio.sleep(self.slow[op] / 1000)
        result = await super()._do(op, work)
        if op in self.slow_reply:
            await asyncio.sleep(self.slow_reply[op] / 1000)
        self.replied.append(op)
        self._fuse.touch(f"the reply to store.{op}")
        return result


class Line:
    """One process's way to the provider that all of them share."""

    def __init__(self, upstream: ScriptedUpstream, fuse: Fuse) -> None:
        self._upstream = upstream
        self._fuse = fuse

    async def exchange(self, provider: str, request: Request, sending: Sending) -> Exchange:
        """See the port."""
        self._fuse.touch("upstream.exchange")
        return await self._upstream.exchange(provider, request, sending)


class Replica:
    """One process: an engine and its reconciler, with a spool and tasks of its own."""

    def __init__(self, rig: "Rig", name: str, vault: PlainVault, spool: MemorySpool, settings: dict[str, Any]) -> None:
        self.name = name
        self.fuse = Fuse()
        self.store = DistantStore(rig.clock, rig.ledger, self.fuse)
        self.spool = spool
        self.meter = TallyMeter(self.fuse)
        self.tasks = HeldTasks(self.fuse)
        self.vault = vault
        vault.fuse = spool.fuse = self.fuse
        self.engine = Engine(
            store=self.store,
            upstream=Line(rig.upstream, self.fuse),
            clock=rig.clock,
            entropy=rig.entropy,
            vault=self.vault,
            spool=self.spool,
            meter=self.meter,
            tasks=self.tasks,
            adapters=rig.adapters,
            settings=Settings(instance=name, **settings),
        )
        self.reconciler = Reconciler(self.engine, self.vault, self.spool, self.tasks, name)
        self._ledger = rig.ledger
        self.live()

    def live(self) -> None:
        """Have a lease that does not run out."""
        self._ledger.instances[self.name] = FOREVER_MS

    @property
    def lives(self) -> bool:
        """Does it have a lease?"""
        return self.name in self._ledger.instances

    def die(self) -> None:
        """Have none any more; whatever still runs belongs to a process that only sleeps."""
        self._ledger.instances.pop(self.name, None)

    async def ask(self, ask: Ask, asker: Asker | None = None) -> Answer:
        """Carry one governed write to its answer."""
        return await self.engine.govern(ask, asker or Asker())

    def start(self, ask: Ask, asker: Asker | None = None) -> "asyncio.Task[Answer]":
        """Begin one, and go on."""
        return asyncio.get_running_loop().create_task(self.ask(ask, asker))

    async def deliver(self, answer: Answer) -> None:
        """Let the agent show that it got the provider's own answer."""
        assert isinstance(answer, Provided)
        assert answer.delivers
        self.engine.delivered(answer.action_id, folded=answer.folded)
        await quiet()

    async def reconcile(self) -> None:
        """See to all that is due and spooled, until nothing is."""
        for _ in range(ROUNDS_MOST):
            claimed = await self.reconciler.round()
            await self.reconciler.unspool()
            await quiet()
            if not claimed and not len(self.spool):
                return


Pair = tuple[Replica, Replica]


class Rig:
    """The world around the replicas."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ledger = Ledger()
        self.entropy = CountingEntropy()
        self.upstream = ScriptedUpstream(clock)
        self.adapters: dict[str, Adapter] = dict(ADAPTERS)
        self.replicas: list[Replica] = []

    def replica(self, *, vault: PlainVault | None = None, spool: MemorySpool | None = None, **settings: Any) -> Replica:
        """Start a process on the one ledger."""
        name = f"replica-{len(self.replicas) + 1}"
        replica = Replica(self, name, vault or PlainVault(), spool or MemorySpool(), settings)
        self.replicas.append(replica)
        return replica

    def teach(self, provider: str, rule: Outcome | None = None, /, **of_routes: dict[str, Any]) -> None:
        """Change the facts of a provider: a rule that comes first, or what is said of a route (`.` as `_`)."""
        doc = self.adapters[provider].doc
        actions = tuple(replace(route, **of_routes.get(route.type.replace(".", "_"), {})) for route in doc.action)
        outcome = doc.outcome if rule is None else (rule, *doc.outcome)
        self.adapters[provider] = Adapter(replace(doc, action=actions, outcome=outcome))

    def action(self, answer: Answer | str) -> Action:
        """Return the record of the action that an answer is about."""
        action_id = answer if isinstance(answer, str) else action_id_of(answer)
        return self.ledger.records[action_id].stored.action

    @property
    def actions(self) -> list[Action]:
        """Every record, the oldest first."""
        return [self.ledger.records[i].stored.action for i in sorted(self.ledger.records)]

    @property
    def only(self) -> Action:
        """The only record there is."""
        (action,) = self.actions
        return action

    async def end(self) -> list[BaseException]:
        """End every process; what failed in their tasks."""
        failures: list[BaseException] = []
        for replica in self.replicas:
            await replica.tasks.end()
            failures += [f for f in replica.tasks.failures if not isinstance(f, StoreUnavailable)]
        return failures


def code_of(answer: Answer) -> str:
    """Return the code of an answer of our own."""
    assert isinstance(answer, Own), answer
    return answer.code.value


def status_of(answer: Answer) -> int:
    """Return the HTTP status of either kind of answer."""
    return answer.status if isinstance(answer, Own) else answer.response.status


def header_of(answer: Answer, name: str) -> str | None:
    """Return a header that we set."""
    return dict(answer.headers).get(name)


def shown(answer: Answer) -> dict[str, Any]:
    """Return the `doubtless` object of an answer of our own."""
    assert isinstance(answer, Own), answer
    body: dict[str, Any] = msgspec.json.decode(answer.body)
    return dict(body["doubtless"])


def message_of(answer: Answer) -> str:
    """Return what an answer of our own says."""
    assert isinstance(answer, Own), answer
    return str(msgspec.json.decode(answer.body)["message"])


def body_of(answer: Answer) -> Any:
    """Return the JSON of the provider's own answer."""
    assert isinstance(answer, Provided), answer
    return msgspec.json.decode(answer.response.body)


def action_id_of(answer: Answer) -> str:
    """Return the ID that an answer's headers name."""
    found = header_of(answer, "Doubtless-Action-Id")
    assert found is not None, answer
    return found
