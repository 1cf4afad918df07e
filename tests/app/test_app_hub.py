"""`doubtless hub`: it settles what a fleet's sidecars leave, and shows the ledger; agents have no door (CONTRACT 5)."""

import asyncio
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.app.bench import SECRET, STATE_KEY, Bench, event, reached
from tests.app.served import Served
from tests.conformance.server import Server, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIDECARS, HUBS = 3, 2
QUICK = "import proxy.app.instance as a; a.LEASE_MS, a.BEAT_MS, a.ROUND_MS = 1000, 100, 20"
OFTEN = "import proxy.edges.sampler as s; s.EVERY_S = 0.05"


@pytest.fixture(scope="module")
def redis_server() -> Iterator[Server]:
    """Debian's redis-server, or another on PATH."""
    with running(shutil.which("redis-server")) as server:
        yield server


@pytest.fixture
def store(redis_server: Server) -> dict[str, str]:
    """A ledger that no other test has, whose read-backs come soon."""
    name = event()
    return {
        "STORE__URL": redis_server.url,
        "STORE__LEDGER": name,
        "STATE__KEY": f'["{STATE_KEY}"]',
        "READBACK__FIRST": "50ms",
    }


class Fleet:
    """Sidecars and hubs, each a process, on one ledger and before one stand-in."""

    def __init__(self, folder: Path, store: dict[str, str], stack: AsyncExitStack) -> None:
        self._folder = folder
        self._store = store
        self._stack = stack
        self.sidecars: list[Served] = []
        self.hubs: list[Served] = []

    async def add(self, command: str) -> Served:
        """Start one more."""
        members = self.hubs if command == "hub" else self.sidecars
        bench = Served(
            self._folder / f"{command}-{len(members)}",
            self._store,
            code=f"{QUICK}\n{OFTEN}",
            command=command,
            standin=self.sidecars[0].standin if self.sidecars else None,
        )
        members.append(await self._stack.enter_async_context(bench))
        return bench


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(store: dict[str, str], tmp_path: Path) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(tmp_path, store, stack)


async def killed(bench: Served) -> None:
    assert bench.process is not None
    await bench.process.end(signal.SIGKILL)


async def unknown_at(bench: Bench, charge: str, secret: str = SECRET) -> str:
    """Lose the answer of a refund; the action."""
    bench.fault("drop_after_commit")
    heard = await bench.refunded(charge, event=event(), headers={"Authorization": f"Bearer {secret}"})
    assert heard.code == "outcome_unknown"
    return heard.action_id


async def test_a_hub_settles_what_sidecars_that_died_had_in_flight(fleet: Fleet) -> None:
    one, two, hub = [await fleet.add(command) for command in ("serve", "serve", "hub")]
    faults, actions = [], []
    for bench in (one, two):
        fault, named = one.fault("hold_after_commit"), event()
        async with await bench.line() as line:
            await line.send(bench.refund(one.charge(), event=named))
            await reached(fault)
            [pending] = await hub.actions(event_id=named)
            assert pending["status"] == "pending"
            await killed(bench)
        faults.append(fault)
        actions.append(pending["action_id"])
    for action_id in actions:
        action = await hub.settled(action_id, "confirmed")
        assert (action["unknown_cause"], action["settled_by"]["source"]) == ("proxy_restart", "read_back")
        assert (action["grade"], action["delivery"], action["acceptance"]) == ("confirmed", "confirmed", "accepted")
    for fault in faults:
        fault.release()
    assert len(one.writes) == one.standin.executions() == 2


async def test_two_hubs_never_read_back_one_action_at_once(fleet: Fleet) -> None:
    sidecar, *hubs = [await fleet.add(command) for command in ("serve", "hub", "hub")]
    held = sidecar.fault("hold_before_commit", method="GET", path="/v1/events")
    first = await unknown_at(sidecar, sidecar.charge())
    await reached(held)
    sidecar.standin.journal.clear()
    others = [await unknown_at(sidecar, sidecar.charge(), f"{SECRET}{n}") for n in range(3)]
    for action_id in others:  # Meanwhile all of them look for what is due, and see to it.
        await hubs[0].settled(action_id, "confirmed")
    by = Counter(dict(a.headers).get(b"Authorization") for a in sidecar.standin.journal if a.method == "GET")
    assert by[f"Bearer {SECRET}".encode()] == 0, "somebody else asked about it while its answer was awaited"
    held.release()
    await hubs[1].settled(first, "confirmed")
    for action_id in (first, *others):
        assert [a["result"] for a in (await hubs[0].action(action_id))["attempts"]] == ["found"]


async def test_any_number_send_duplicates_once_and_give_one_answer(fleet: Fleet) -> None:
    for command in ("serve",) * SIDECARS + ("hub",) * HUBS:
        await fleet.add(command)
    one, named = fleet.sidecars[0], event()
    charge = one.charge()
    asked = [bench.refunded(charge, event=named) for bench in fleet.sidecars * 5]
    answers = await asyncio.gather(*asked)
    assert {(heard.status, heard.body, heard.action_id) for heard in answers} == {
        (200, answers[0].body, answers[0].action_id)
    }
    assert sum(heard.field("Idempotent-Replayed") == "true" for heard in answers) == len(answers) - 1
    assert len(one.writes) == one.standin.executions() == 1


async def test_a_hub_has_no_door_for_agents_and_shows_the_same_shared_state(
    fleet: Fleet, store: dict[str, str]
) -> None:
    store["READBACK__FIRST"] = "1h"
    sidecar, hub = [await fleet.add(command) for command in ("serve", "hub")]
    assert hub.ports.keys() == {"admin", "health"}
    assert hub.process is not None
    [ready] = [line for line in hub.process.printed if "is ready" in line]
    assert (ready.startswith("Doubtless hub is ready, ledger"), "http" in ready) == (True, False)
    lost = await unknown_at(sidecar, sidecar.charge())
    kind = {"provider": "stripe", "action_type": "stripe.refund.create"}
    for value in (1, 0):
        for bench in (sidecar, hub):
            await bench.until_metric("unknown_actions", value, **kind)
            await bench.until_metric("unknown_exposure_minor_units", 5400 * value, provider="stripe", currency="usd")
        if value:
            assert (await hub.reconcile(lost))["status"] == "confirmed"
    assert (await hub.probe("/readyz")).status == 200
    assert await hub.process.end() == 0
    assert "Traceback" not in hub.process.log


async def test_a_hub_outlives_its_store_and_says_that_it_is_not_ready(store: dict[str, str], fleet: Fleet) -> None:
    with running(shutil.which("redis-server")) as own:
        store["STORE__URL"] = own.url
        sidecar, hub = [await fleet.add(command) for command in ("serve", "hub")]
        own.stop()
        await hub.until_ready_says("the store does not answer")
        assert (await hub.probe("/livez")).status == 200
        own.start()
        await hub.until_ready_says("ok")
        lost = await unknown_at(sidecar, sidecar.charge())
        assert (await hub.settled(lost, "confirmed"))["unknown_cause"] == "connection_lost"
        for bench in (sidecar, hub):
            assert bench.process is not None
            await bench.process.end()
