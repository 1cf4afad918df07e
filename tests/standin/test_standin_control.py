"""The same handle over HTTP, for whoever runs the sandbox: /_standin/ on the providers' own ports."""

from typing import Any

import pytest
from standin_client import Client

from proxy.edges.standin import Chunk, StandIn
from proxy.edges.standin.control import fault_from


async def test_the_journal_is_readable_and_does_not_show_its_readers(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/customers", {"email": "a@example.com"}, headers={"X-Latin": "café"})
    (arrival,) = (await stripe.get("/_standin/journal")).json
    assert (arrival["n"], arrival["method"], arrival["executed"]) == (1, "POST", True)
    assert ["X-Latin", "café"] in arrival["headers"]
    assert arrival["body"] == "email=a%40example.com"
    assert arrival["head"].startswith("POST /v1/customers HTTP/1.1\r\n")
    assert len(standin.journal) == 1


async def test_a_fault_can_be_armed_and_released(standin: StandIn, stripe: Client) -> None:
    armed = await stripe.post("/_standin/faults", body={"kind": "hold_before_commit", "path": "/v1/customers"})
    assert armed.json == {"number": 1}
    line = await stripe.sent("POST", "/v1/customers", {})
    await next(iter(standin.faults)).reached()
    shown = (await stripe.get("/_standin/faults")).json[0]
    assert (shown["number"], shown["kind"], shown["hits"]) == (1, "hold_before_commit", 1)
    assert (await stripe.post("/_standin/faults/1/release")).status == 200
    assert (await line.hear()).status == 200


async def test_all_faults_can_be_disarmed_and_let_go(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/_standin/faults", body={"kind": "hold_before_commit", "path": "/v1/customers"})
    await stripe.post("/_standin/faults", body={"kind": "drop_after_commit", "path": "/v1/customers"})
    line = await stripe.sent("POST", "/v1/customers", {})
    await next(iter(standin.faults)).reached()
    assert (await stripe.post("/_standin/faults/clear")).status == 200
    assert (await line.hear()).status == 200
    assert (await stripe.post("/v1/customers", {})).status == 200
    assert (await stripe.get("/_standin/faults")).json == []


async def test_bytes_and_headers_of_a_fault_are_written_as_text() -> None:
    fault = fault_from(
        {
            "kind": "raw",
            "body": "\xe9",
            "headers": [["X", "y"]],
            "chunks": [{"data": "HTTP/1.1 \xff", "gated": True, "delay_ms": 2}],
            "gate": "is ours",
        }
    )
    assert (fault.body, fault.headers) == (b"\xe9", ((b"X", b"y"),))
    assert fault.chunks == (Chunk(b"HTTP/1.1 \xff", gated=True, delay_ms=2),)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "drop_everything"},
        {"kind": "html_502", "colour": "red"},
        {},
        {"kind": "html_502", "path": "("},
        {"kind": "html_502", "body": "☃"},
        {"kind": "html_502", "how": "softly"},
        {"kind": "html_502", "headers": [["one"]]},
        {"kind": "raw", "chunks": [{"text": "x"}]},
    ],
)
async def test_what_is_no_fault_is_refused(standin: StandIn, stripe: Client, body: dict[str, Any]) -> None:
    assert (await stripe.post("/_standin/faults", body=body)).status == 400
    assert list(standin.faults) == []


async def test_charges_can_be_seeded_and_everything_seen_and_forgotten(standin: StandIn, stripe: Client) -> None:
    seeded = await stripe.post("/_standin/charges", body={"amount": 700, "charge_id": "ch_7", "mode": "live"})
    assert (seeded.json["id"], seeded.json["livemode"]) == ("ch_7", True)
    (world,) = (await stripe.get("/_standin/objects")).json["stripe"]
    assert (world["mode"], [item["id"] for item in world["objects"]]) == ("live", ["ch_7"])
    assert (await stripe.post("/_standin/reset")).json == {}
    assert (await stripe.get("/_standin/objects")).json["stripe"] == []


async def test_it_is_on_resends_port_too_and_needs_no_key(standin: StandIn, resend: Client) -> None:
    resend.secret = None
    standin.foreign_email(sender="a@acme.example", to="b@example.com", subject="s", text="t")
    objects = (await resend.get("/_standin/objects", headers={"Expect": "100-continue", "Connection": "close"})).raw
    assert objects == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/_standin/nothing", None),
        ("DELETE", "/_standin/journal", None),
        ("POST", "/_standin/faults/9/release", None),
        ("POST", "/_standin/faults/x/release", None),
        ("POST", "/_standin/charges", {"colour": "red"}),
        ("POST", "/_standin/charges", {"amount": "much"}),
        ("POST", "/_standin/charges", [1]),
        ("POST", "/_standin/faults", [1]),
    ],
)
async def test_what_control_does_not_have_is_refused(stripe: Client, method: str, target: str, body: Any) -> None:
    refused = await stripe.ask(method, target, body=body)
    assert (refused.status, bool(refused.json["message"])) == (400, True)


async def test_control_uses_up_no_fault(standin: StandIn, stripe: Client) -> None:
    for kind in ("drop_before_read", "drop_after_head", "drop_after_read", "html_502"):
        await stripe.post("/_standin/faults", body={"kind": kind})
    assert (await stripe.get("/_standin/journal")).json == []
    assert {fault.hits for fault in standin.faults} == {0}
