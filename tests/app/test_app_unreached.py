"""No connection, no answer in time, and TLS: what provably did not leave, and what may have (CONTRACT 2.1)."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from tests.app.bench import SECRET, event, reached
from tests.app.line import Heard
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
AUTH = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def authority() -> trustme.CA:
    """A certificate authority that only a `ca_file` makes known."""
    return trustme.CA()


@pytest.fixture
def certified(authority: trustme.CA) -> ssl.SSLContext:
    """What the stand-in shows for `localhost`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest_asyncio.fixture(loop_scope="module")
async def mute() -> AsyncIterator[int]:
    """A port that takes connections and says nothing."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in writers:
        writer.transport.abort()


@pytest_asyncio.fixture(loop_scope="module")
async def plain() -> AsyncIterator[int]:
    """A port that answers whatever comes in plain HTTP."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def check_unsent(rig: Rig, heard: Heard, error: str) -> None:
    """The agent is told that it is safe to try again, and the record says why."""
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (502, "not_sent", "safe")
    assert heard.field("Proxy-Status") == f'doubtless; error={error}; details="not_sent"'
    assert (heard.field("Stripe-Should-Retry"), heard.field("x-should-retry")) == (None, None)
    action = await rig.action(heard.action_id)
    assert (action["status"], action["delivery"], action["acceptance"]) == ("failed", "failed", "pending")
    assert (action["cause"], action["grade"], action["retry"]) == ("not_sent", "failed", "safe")
    assert [(e["source"], e["verdict"], e["detail"]) for e in action["evidence"]] == [("transport", "not_sent", error)]
    assert rig.writes == []


async def test_a_refused_connection_is_not_sent_and_the_next_try_is_the_same_action(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        charge, named = rig.charge(), event()
        await rig.standin.shut("stripe")
        first = await rig.refunded(charge, event=named)
        await check_unsent(rig, first, "connection_refused")
        await rig.standin.open("stripe")
        second = await rig.refunded(charge, event=named)
        action = await rig.action(first.action_id)
        assert (second.status, second.action_id, action["status"]) == (200, first.action_id, "confirmed")
        assert len({dispatch["dispatch_id"] for dispatch in action["dispatches"]}) == 2
        assert [arrival.key for arrival in rig.writes] == [f"{named}:stripe.refund.create"]
        assert rig.standin.executions() == 1


async def test_a_read_that_reaches_nobody_is_told_so_and_leaves_no_record(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.standin.shut("stripe")
        heard = await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (502, "not_sent", "safe")
        assert heard.field("Doubtless-Action-Id") is None
        assert await rig.actions() == []


@pytest.mark.parametrize(
    ("kind", "how"), [("drop_after_read", "fin"), ("drop_after_read", "rst"), ("garbage_after_commit", "fin")]
)
async def test_a_read_that_is_cut_before_its_answer_is_safe_to_repeat(rig: Rig, kind: str, how: str) -> None:
    rig.fault(kind, method="GET", path=None, how=how, where="head")
    heard = await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (502, "read_failed", "safe")
    assert len(rig.standin.journal) == 1


async def test_a_stale_pooled_connection_costs_nothing(rig: Rig) -> None:
    fault = rig.fault("close_idle_after", gated=True)
    assert (await rig.refunded(rig.charge(), event=event())).status == 200
    fault.release()
    await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)  # Its FIN has come by then, or this one meets it.
    assert (await rig.refunded(rig.charge(), event=event())).status == 200
    assert rig.standin.executions() == len(rig.writes) == 2


async def test_a_name_that_nobody_knows_is_not_sent(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"PROVIDERS__STRIPE__UPSTREAM": "http://nowhere.invalid"}) as rig:
        await check_unsent(rig, await rig.refunded("ch_1", event=event()), "dns_error")


async def test_a_certificate_of_somebody_else_is_not_sent(tmp_path: Path, certified: ssl.SSLContext) -> None:
    async with Rig(tmp_path, ssl_context=certified) as rig:
        await check_unsent(rig, await rig.refunded(rig.charge(), event=event()), "tls_certificate_error")


async def test_a_certificate_for_another_name_is_not_sent(tmp_path: Path, authority: trustme.CA) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    more = {"PROVIDERS__STRIPE__CA_FILE": "{folder}/ca.pem"}
    async with Rig(tmp_path, more, ssl_context=context) as rig:
        await check_unsent(rig, await rig.refunded(rig.charge(), event=event()), "tls_certificate_error")


async def test_a_plain_server_behind_https_is_not_sent(tmp_path: Path, plain: int) -> None:
    async with Rig(tmp_path, {"PROVIDERS__STRIPE__UPSTREAM": f"https://127.0.0.1:{plain}"}) as rig:
        await check_unsent(rig, await rig.refunded("ch_1", event=event()), "tls_protocol_error")


async def test_a_handshake_that_hangs_is_not_sent(tmp_path: Path, mute: int) -> None:
    more = {"PROVIDERS__STRIPE__UPSTREAM": f"https://127.0.0.1:{mute}", "DEADLINES__CONNECT": "100ms"}
    async with Rig(tmp_path, more) as rig:
        await check_unsent(rig, await rig.refunded("ch_1", event=event()), "connection_timeout")


async def test_over_verified_tls_it_is_as_over_plain_tcp(
    tmp_path: Path, authority: trustme.CA, certified: ssl.SSLContext
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with Rig(tmp_path, {"PROVIDERS__STRIPE__CA_FILE": "{folder}/ca.pem"}, ssl_context=certified) as rig:
        charge, named = rig.charge(), event()
        rig.fault("drop_after_commit")
        heard = await rig.refunded(charge, event=named)
        assert (heard.status, heard.code) == (423, "outcome_unknown")
        settled = await rig.reconcile(heard.action_id)
        assert (settled["status"], settled["grade"]) == ("confirmed", "confirmed")
        read = await rig.ask("GET", f"/stripe/v1/refunds/{settled['provider_object_id']}", headers=AUTH)
        again = await rig.refunded(charge, event=named)
        assert (again.status, again.json) == (200, read.json)
        assert rig.standin.executions() == 1


# ── Time ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_at_the_answer_deadline_it_is_unknown_and_a_late_answer_is_evidence(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"DEADLINES__ANSWER": "300ms"}) as rig:
        fault = rig.fault("hold_after_commit")
        charge, named = rig.charge(), event()
        async with await rig.line() as first, await rig.line() as second:
            await first.send(rig.refund(charge, event=named))
            await reached(fault)
            await second.send(rig.refund(charge, event=named))
            told = [await first.hear(), await second.hear()]
        assert [(heard.status, heard.code) for heard in told] == [(423, "outcome_unknown")] * 2
        assert told[0].field("Proxy-Status") == 'doubtless; error=http_response_timeout; details="outcome_unknown"'
        action = await rig.action(told[0].action_id)
        assert (action["status"], action["cause"], action["delivery"]) == ("denied_unresolved", "timeout", "pending")
        fault.release()
        settled = await rig.settled(action["action_id"], "confirmed")
        assert [e["source"] for e in settled["evidence"]] == ["transport", "late_response"]
        assert (settled["was_unknown"], settled["unknown_cause"], settled["cause"]) == (True, "timeout", None)
        assert settled["settled_by"]["source"] == "late_response"
        again = await rig.refunded(charge, event=named)
        assert (again.status, again.field("Idempotent-Replayed"), rig.standin.executions()) == (200, "true", 1)
        assert await rig.metric("late_responses_total", provider="stripe") == 1


async def test_after_the_harvest_end_nobody_listens_and_only_the_record_can_tell(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"DEADLINES__ANSWER": "200ms", "DEADLINES__HARVEST": "300ms"}) as rig:
        fault = rig.fault("hang")
        heard = await rig.refunded(rig.charge(), event=event())
        assert (heard.status, heard.code) == (423, "outcome_unknown")
        await rig.stop()  # The drain waits for what is in flight: until the harvest end.
        fault.release()
        await rig.standin.journal.until(lambda journal: journal[0].executed)
        await rig.start()
        action = await rig.action(heard.action_id)
        assert (action["status"], action["cause"]) == ("denied_unresolved", "timeout")
        assert [e["source"] for e in action["evidence"]] == ["transport"]
        assert (await rig.reconcile(heard.action_id))["status"] == "confirmed"
        assert len(rig.writes) == 1


async def test_an_answer_before_the_upload_ended_proves_nothing(rig: Rig) -> None:
    rig.fault("answer_before_upload_ends", after_bytes=10, status=400)
    note = "x" * 12_000_000
    heard = await rig.refunded(rig.charge(), event=event(), **{"metadata[note]": note})
    action = await rig.action(heard.action_id)
    assert (heard.status, action["cause"], action["delivery"]) == (423, "unrecognised_response", "pending")
