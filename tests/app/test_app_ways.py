"""Ways in: base URLs, a provider's own port, pages of our own, and what leads nowhere (CONTRACT 3)."""

import pytest

from tests.app.bench import SECRET, event, nothing_sent, reached
from tests.app.line import Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {"PROVIDERS__RESEND__LISTEN": "127.0.0.1:0"}
AUTH = {"Authorization": f"Bearer {SECRET}"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("/stripe/v1/charges?limit=3", "/v1/charges?limit=3"),
        ("/stripe/v1/charges?", "/v1/charges?"),
        ("/stripe//v1/../v1/charges/", "//v1/../v1/charges/"),
        ("/stripe", "/"),
        ("/stripe/", "/"),
        ("/stripe?limit=3", "/?limit=3"),
        ("/e/ticket%2F17/stripe/v1/charges", "/v1/charges"),
        ("/e/e/stripe/e/x/stripe", "/e/x/stripe"),
    ],
)
async def test_a_base_url_leaves_the_providers_own_path(rig: Rig, ours: str, theirs: str) -> None:
    await rig.ask("GET", ours, headers=AUTH)
    assert [arrival.target for arrival in rig.standin.journal] == [theirs]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ticket-17", "ticket-17"),
        ("ticket%2F17%3Fa%25", "ticket/17?a%"),
        ("caf%C3%A9", "café"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("stripe", "stripe"),
    ],
)
async def test_the_url_carries_the_event_percent_encoded(rig: Rig, written: str, meant: str) -> None:
    heard = await rig.ask(
        "POST", f"/e/{written}/stripe/v1/refunds", form={"charge": rig.charge(), "amount": "5400"}, headers=AUTH
    )
    assert heard.status == 200
    action = await rig.action(heard.action_id)
    assert (action["event_id"], action["explicit_event"]) == (meant, True)


async def test_our_header_is_asked_before_the_url(rig: Rig) -> None:
    named = event()
    heard = await rig.ask(
        "POST",
        f"/e/{event()}/stripe/v1/refunds",
        form={"charge": rig.charge()},
        headers={**AUTH, "Doubtless-Event-Id": named},
    )
    assert (await rig.action(heard.action_id))["event_id"] == named


async def test_one_event_is_one_action_by_every_way(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    form = {"charge": charge, "amount": "5400"}
    first = await rig.ask("POST", f"/e/{named}/stripe/v1/refunds", form=form, headers=AUTH)
    async with await Line.open(rig.app.ports["providers.stripe"]) as line:
        own = await line.ask(request("POST", "/v1/refunds", form=form, headers={**AUTH, "Doubtless-Event-Id": named}))
    assert (first.status, own.status, own.body) == (200, 200, first.body)
    assert own.field("Idempotent-Replayed") == "true"
    assert own.action_id == first.action_id
    assert rig.standin.executions() == 1


async def test_a_providers_own_port_takes_its_paths_as_they_are(rig: Rig) -> None:
    for name, target in (("stripe", "/v1/charges"), ("stripe", "/stripe/v1/x"), ("resend", "/e/x/emails")):
        async with await Line.open(rig.app.ports[f"providers.{name}"]) as line:
            await line.ask(request("GET", target, headers=AUTH))
        last = rig.standin.journal[-1]
        assert (last.provider, last.target) == (name, target)


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        ("Stripe/v1 PythonBindings/16.1.0", 'stripe.api_base = "{base}/stripe"'),
        ("Stripe/v1 NodeBindings/23.1.0 AIAgent/x", 'host: "127.0.0.1", port: {stripe}, protocol: "http"'),
        ("resend-python:2.52.0", "RESEND_API_URL={base}/resend"),
        ("resend-node:6.38.0", 'baseUrl: "{base}/resend"'),
        ("curl/8", "{base}/stripe/…, {base}/resend/…"),
    ],
)
async def test_an_unknown_path_is_told_the_line_for_its_sdk(rig: Rig, agent: str, line: str) -> None:
    base = f"http://127.0.0.1:{rig.port}"
    wanted = line.replace("{base}", base).replace("{stripe}", str(rig.app.ports["providers.stripe"]))
    async with nothing_sent(rig):
        heard = await rig.ask(
            "POST",
            "/v1/refunds",
            form={"charge": "ch_1"},
            headers={"User-Agent": agent, "Host": f"127.0.0.1:{rig.port}"},
        )
    assert (heard.status, heard.code) == (404, "unknown_provider")
    assert wanted in heard.json["message"]


async def test_without_a_port_of_its_own_no_port_is_named_that_is_not_there(rig: Rig) -> None:
    said = "\n".join(rig.running.said if rig.running else ())
    assert f"port: {rig.app.ports['providers.stripe']}" in said
    assert ":0" not in said
    for name in ("proxy", "admin", "health"):
        assert f"127.0.0.1:{rig.app.ports[name]}" in said


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/e",
        "/e/",
        "/e/ticket",
        "/e/ticket/",
        "/e/ticket/nobody/v1",
        "/nobody/v1/x",
        "/Stripe/v1/charges",
        "/%73tripe/v1/charges",
        "/stripe.evil.example/v1",
        "//stripe/v1/charges",
        "/_doubtless",
        "/_doubtless/",
        "/_doubtless/actions",
        "/_doubtless/actions/",
        "/_doubtless/nothing/x",
        "/_doubtless/actions/no-such-action",
        "/webhooks/stripe",
        "/api/v1/actions",
        "/metrics",
        "/readyz",
    ],
)
async def test_what_leads_nowhere_is_a_404_of_ours_and_reaches_nobody(rig: Rig, method: str, target: str) -> None:
    async with nothing_sent(rig):
        heard = await rig.ask(method, target, body=b"" if method == "POST" else None, headers=AUTH)
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (404, "unknown_provider", "never")
    assert heard.field("Content-Type") == "application/json"
    assert heard.field("Proxy-Status") == 'doubtless; error=destination_not_found; details="unknown_provider"'
    assert heard.json["error"]["type"] == "api_error"


# ── Pages of our own ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_agent_can_ask_for_the_state_of_an_action_and_change_nothing(rig: Rig) -> None:
    rig.fault("drop_after_commit")
    told = (await rig.refunded(rig.charge(), event=event())).json["doubtless"]
    path = f"/_doubtless/actions/{told['action_id']}"
    assert told["status_url"].endswith(path)
    for port in (rig.port, rig.app.ports["providers.stripe"]):
        async with nothing_sent(rig), await Line.open(port) as line:
            shown = await line.ask(request("GET", path))
            assert shown.status == 200
            assert {**shown.json, "status_url": None} == {**told, "status_url": None}
            empty = await line.ask(request("HEAD", path), head_only=True)
            assert (empty.status, empty.field("Content-Length")) == (200, shown.field("Content-Length"))
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert (await line.ask(request(method, path, body=b"{}"))).status == 404
            assert (await line.ask(request("GET", f"{path}?status=confirmed"))).json["status"] == "denied_unresolved"
    assert (await rig.action(told["action_id"]))["status"] == "denied_unresolved"


async def test_the_page_shows_no_more_than_the_agent_was_told(rig: Rig) -> None:
    heard = await rig.refunded(rig.charge(), event=event())
    shown = (await rig.ask("GET", f"/_doubtless/actions/{heard.action_id}")).json
    assert set(shown) == {
        *("action_id", "event_id", "action_type", "provider", "account", "idempotency_key", "status", "delivery"),
        *("acceptance", "grade", "cause", "upstream_status", "amount", "currency", "retry", "readbacks"),
        *("next_readback_at", "last_safe_replay_at", "contradicted", "status_url"),
    }
    assert (shown["action_type"], shown["account"], shown["amount"]) == ("stripe.refund.create", "test", 5400)


async def test_an_agent_that_asks_can_wait_for_the_end_of_what_is_in_flight(rig: Rig) -> None:
    fault = rig.fault("hold_after_commit")
    charge, named = rig.charge(), event()
    async with await rig.line() as first, await rig.line() as second:
        await first.send(rig.refund(charge, event=named))
        await reached(fault)
        [action] = await rig.actions(event_id=named)
        path = f"/_doubtless/actions/{action['action_id']}"
        assert (await rig.ask("GET", path)).json["status"] == "pending"
        at_once = await rig.ask("GET", path, headers={"Prefer": "wait=0"})
        assert (at_once.json["status"], at_once.field("Preference-Applied")) == ("pending", "wait=0")
        await second.send(request("GET", path, headers={"Prefer": "respond-async, wait=20"}))
        fault.release()
        heard = await second.hear()
        assert (heard.json["status"], heard.field("Preference-Applied")) == ("confirmed", "wait=20")
        assert (await first.hear()).status == 200


# ── What is not a path ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT api.stripe.com:443 HTTP/1.1\r\nHost: api.stripe.com:443\r\n",
        "CONNECT api.stripe.com:443 HTTP/1.1\r\n",
        "CONNECT api.stripe.com:443 HTTP/1.0\r\n",
        "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n",
        "GET http://api.stripe.com/v1/charges HTTP/1.1\r\nHost: api.stripe.com\r\n",
        "POST https://api.stripe.com/v1/refunds HTTP/1.1\r\nHost: api.stripe.com\r\nContent-Length: 0\r\n",
        "GET http://127.0.0.1/stripe/v1/charges HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    ],
)
async def test_the_forward_proxy_is_shut_and_makes_no_connection(rig: Rig, head: str) -> None:
    async with nothing_sent(rig), await rig.line() as line:
        heard = await line.ask(f"{head}Authorization: Bearer {SECRET}\r\n\r\n".encode())
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (403, "egress_denied", "never")
    assert (await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)).status == 200
