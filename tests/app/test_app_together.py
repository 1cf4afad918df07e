"""Many at once, and two sidecars on one store: one event is one dispatch, one limit is one limit (CONTRACT 2.3, 6)."""

import asyncio
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from proxy.app import instance
from proxy.edges import sampler
from tests.app.bench import SECRET, STATE_KEY, Bench, event, eventually, reached
from tests.app.line import Heard, request
from tests.app.rig import Rig
from tests.app.served import Served
from tests.conformance.server import Server, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
MANY = 20


async def all_at_once(benches: list[Bench], requests: list[bytes]) -> list[Heard]:
    """Send every request on a connection of its own, in turn to each sidecar, before any answer is read."""
    async with AsyncExitStack() as stack:
        turns = [benches[number % len(benches)] for number in range(len(requests))]
        lines = [await stack.enter_async_context(await bench.line()) for bench in turns]
        await asyncio.gather(*(line.send(data) for line, data in zip(lines, requests, strict=True)))
        return list(await asyncio.gather(*(line.hear() for line in lines)))


def check_one(bench: Bench, answers: list[Heard]) -> None:
    """One was sent, and everybody got its answer."""
    assert [heard.status for heard in answers] == [200] * MANY
    assert len({heard.body for heard in answers}) == 1
    assert len({heard.action_id for heard in answers}) == 1
    assert sorted(str(heard.field("Idempotent-Replayed")) for heard in answers) == ["None", *["true"] * (MANY - 1)]
    assert len(bench.writes) == bench.standin.executions() == 1


async def test_twenty_requests_of_one_event_are_one_dispatch_and_twenty_equal_answers(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    check_one(rig, await all_at_once([rig], [rig.refund(charge, event=named) for _ in range(MANY)]))


async def test_twenty_unnamed_requests_with_twenty_keys_are_one_dispatch(rig: Rig) -> None:
    charge = rig.charge()
    answers = await all_at_once([rig], [rig.refund(charge, key=str(uuid.uuid4())) for _ in range(MANY)])
    check_one(rig, answers)
    folded = [heard.field("Doubtless-Folded-Into") for heard in answers]
    assert sorted(map(str, folded)) == sorted(["None", *[answers[0].action_id] * (MANY - 1)])


async def test_twenty_that_wait_for_what_is_lost_are_all_told_that_it_is_unknown(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    rig.fault("drop_after_commit")
    answers = await all_at_once([rig], [rig.refund(charge, event=named) for _ in range(MANY)])
    assert {(heard.status, heard.code) for heard in answers} == {(423, "outcome_unknown")}
    assert len(rig.writes) == 1


async def test_twenty_events_are_twenty_dispatches(rig: Rig) -> None:
    answers = await all_at_once([rig], [rig.refund(rig.charge(), event=event()) for _ in range(MANY)])
    assert [heard.status for heard in answers] == [200] * MANY
    assert len({arrival.key for arrival in rig.writes}) == rig.standin.executions() == MANY


async def test_of_twenty_payloads_under_one_event_one_is_sent(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    requests = [rig.refund(charge, event=named, amount=str(amount)) for amount in range(1, MANY + 1)]
    answers = await all_at_once([rig], requests)
    assert sorted(heard.status for heard in answers) == [200, *[422] * (MANY - 1)]
    assert len(rig.writes) == 1


async def test_a_limit_lets_ten_of_twenty_through_and_holds_what_is_unknown(tmp_path: Path) -> None:
    limit = '[{"name": "l", "match": "stripe.payout.*", "amount": 1000, "currency": "usd", "period": "day"}]'
    async with Rig(tmp_path, {"LIMITS": limit}) as rig:
        rig.fault("drop_after_commit", path="/v1/payouts", times=None)
        form = {"amount": "100", "currency": "usd"}

        def payout() -> bytes:
            headers = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
            return request("POST", "/stripe/v1/payouts", form=form, headers=headers)

        answers = await all_at_once([rig], [payout() for _ in range(MANY)])
        assert sorted(str(heard.code) for heard in answers) == ["limit_exhausted"] * 10 + ["outcome_unknown"] * 10
        assert len(rig.writes) == 10
        [row] = (await rig.admin("GET", "exposure")).json["data"]
        assert (row["amount"], row["actions"]) == (1000, 10)
        assert (await all_at_once([rig], [payout()]))[0].code == "limit_exhausted"


# ── Two sidecars on one store ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def redis_server() -> Iterator[Server]:
    """Debian's redis-server, or another on PATH."""
    with running(shutil.which("redis-server")) as server:
        yield server


@pytest.fixture(scope="module")
def store(redis_server: Server) -> dict[str, str]:
    return {"STORE__URL": redis_server.url, "STATE__KEY": f'["{STATE_KEY}"]'}


@pytest.fixture(scope="module")
def often() -> Iterator[None]:
    """Let the shared state be sampled often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "EVERY_S", 0.05)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    store: dict[str, str], often: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Rig]]:
    one = Rig(tmp_path_factory.mktemp("one"), store)
    async with one, Rig(tmp_path_factory.mktemp("two"), store, standin=one.standin) as two:
        yield [one, two]


async def test_ten_requests_each_of_one_event_are_one_dispatch(pair: list[Rig]) -> None:
    pair[0].standin.reset()
    charge, named = pair[0].charge(), event()
    answers = await all_at_once([*pair], [pair[0].refund(charge, event=named) for _ in range(MANY)])
    check_one(pair[0], answers)


async def test_ten_unnamed_requests_each_with_keys_of_their_own_are_one_dispatch(pair: list[Rig]) -> None:
    pair[0].standin.reset()
    charge = pair[0].charge()
    answers = await all_at_once([*pair], [pair[0].refund(charge, key=str(uuid.uuid4())) for _ in range(MANY)])
    check_one(pair[0], answers)


async def test_what_one_sidecar_lost_the_other_does_not_send_and_may_settle(pair: list[Rig]) -> None:
    one, two = pair
    one.standin.reset()
    charge, named = one.charge(), event()
    one.fault("drop_after_commit")
    lost = await one.refunded(charge, event=named)
    told = await two.refunded(charge, event=named)
    assert (told.status, told.code, told.action_id) == (423, "outcome_unknown", lost.action_id)
    labels = {"provider": "stripe", "action_type": "stripe.refund.create"}
    for value in (1, 0):
        for rig in pair:  # Shared state is the same on each: max by, never sum.
            await rig.until_metric("unknown_actions", value, **labels)
        if value:
            assert (await two.reconcile(lost.action_id))["status"] == "confirmed"
    again = await one.refunded(charge, event=named)
    assert (again.status, len(one.writes)) == (200, 1)


async def test_what_a_dead_sidecar_had_in_flight_is_written_off_by_the_one_that_lives(
    store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "LEASE_MS", 1000)
    monkeypatch.setattr(instance, "BEAT_MS", 100)
    dead = Served(tmp_path / "one", store, code="import proxy.app.instance as a; a.LEASE_MS, a.BEAT_MS = 1000, 100")
    async with dead, Rig(tmp_path / "two", store, standin=dead.standin) as living:
        charge, named = dead.charge(), event()
        fault = dead.fault("hold_after_commit")
        async with await dead.line() as line:
            await line.send(dead.refund(charge, event=named))
            await reached(fault)
            [pending] = await living.actions(event_id=named)
            assert dead.process is not None
            await dead.process.end(signal.SIGKILL)
        action = await living.settled(pending["action_id"], "denied_unresolved")
        assert (action["cause"], action["delivery"]) == ("proxy_restart", "pending")
        assert (await living.refunded(charge, event=named)).code == "outcome_unknown"
        fault.release()
        assert (await living.reconcile(action["action_id"]))["status"] == "confirmed"
        assert len(living.writes) == 1


async def test_a_sidecar_that_ends_answers_those_that_wait_for_what_another_has_in_flight(
    store: dict[str, str], tmp_path: Path
) -> None:
    one = Rig(tmp_path / "one", store)
    async with one, Rig(tmp_path / "two", store, standin=one.standin) as two:
        charge, named = one.charge(), event()
        fault = one.fault("hold_after_commit")
        async with await one.line() as first, await two.line() as second, await two.line() as third:
            await first.send(one.refund(charge, event=named))
            await reached(fault)
            [action] = await two.actions(event_id=named)
            page = f"/_doubtless/actions/{action['action_id']}"
            await second.send(two.refund(charge, event=named))
            await third.send(request("GET", page, headers={"Prefer": "wait=20"}))
            await two.ask("GET", page)  # By now both of them wait.
            _, waited, shown = await asyncio.gather(two.stop(), second.hear(), third.hear())
            assert (waited.status, waited.code) == (423, "action_in_flight")
            assert (shown.status, shown.json["status"]) == (200, "pending")
            fault.release()
            assert (await first.hear()).status == 200
    assert len(one.writes) == 1


# ── Bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_more_connections_than_the_bound_are_told_so_and_the_rest_is_served(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"BOUNDS__CONNECTIONS": "2"}) as rig:
        page = request("GET", "/_doubtless/actions/none")
        async with await rig.line() as one, await rig.line() as two:
            assert [(await line.ask(page)).status for line in (one, two)] == [404, 404]
            async with await rig.line() as three:
                heard = await three.ask(rig.refund("ch_1", event=event()))
                assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (503, "overloaded", "safe")
            assert (await one.ask(rig.refund(rig.charge(), event=event()))).status == 200
        assert len(rig.writes) == 1


async def test_more_bodies_than_fit_are_told_so_and_room_comes_back(tmp_path: Path) -> None:
    bounds = {"BOUNDS__BODY_BYTES": "1000", "BOUNDS__RESPONSE_BYTES": "1000", "BOUNDS__BUFFERED_BYTES": "1500"}
    async with Rig(tmp_path, bounds) as rig:
        head = request("POST", "/stripe/v1/refunds", headers={"Doubtless-Event-Id": event()})[:-2]
        async with await rig.line() as slow:
            await slow.send(head + b"Content-Length: 1000\r\n\r\n" + b"x" * 900)
            fits = await rig.refunded("ch_1", event=event())
            over = await rig.refunded("ch_1", event=event(), reason="x" * 800)
            assert fits.code != "overloaded"
            assert (over.status, over.code, over.field("Doubtless-Retry")) == (503, "overloaded", "safe")
            slow.reset()

        async def fits_again() -> bool:
            return (await rig.refunded("ch_1", event=event(), reason="x" * 800)).code != "overloaded"

        await eventually(fits_again)
