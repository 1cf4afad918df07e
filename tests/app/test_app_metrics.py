"""Probes and metrics: on their own port alone, every metric there, known providers at 0, and values that move."""

import re
from pathlib import Path

import pytest

from proxy import __version__
from proxy.edges import sampler
from tests.app.bench import SECRET, event, sample
from tests.app.line import Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {
    "LIMITS": '[{"name": "refunds", "match": "stripe.refund.*", "amount": 10000, "currency": "usd", "period": "day"}]'
}
EVERY = {
    **dict.fromkeys(("actions_total", "retries_blocked_total", "stored_answers_total"), "counter"),
    **dict.fromkeys(("provider_replays_total", "readbacks_total"), "counter"),
    **dict.fromkeys(("late_responses_total", "webhooks_total"), "counter"),
    **dict.fromkeys(("unknown_actions", "unknown_exposure_minor_units", "unknown_unpriced_actions"), "gauge"),
    **dict.fromkeys(("unknown_oldest_timestamp_seconds", "needs_operator_actions", "contradicted_actions"), "gauge"),
    **dict.fromkeys(("readbacks_due", "replay_window_closing_actions", "state_sample_timestamp_seconds"), "gauge"),
    **{f"limit_{part}_minor_units": "gauge" for part in ("cap", "consumed", "reserved", "unknown", "available")},
    **dict.fromkeys(("store_up", "spool_observations", "config_last_reload_successful", "build_info"), "gauge"),
    **dict.fromkeys(("settlement_duration_seconds", "proxy_duration_seconds"), "histogram"),
    **dict.fromkeys(("upstream_duration_seconds", "store_duration_seconds"), "histogram"),
}
OF_THIS_INSTANCE = {"store_up", "spool_observations", "config_last_reload_successful", "build_info"}
SHARED = {name for name, kind in EVERY.items() if kind == "gauge"} - OF_THIS_INSTANCE


async def text(rig: Rig) -> str:
    return (await rig.probe("/metrics")).body.decode()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample the shared state often."""
    monkeypatch.setattr(sampler, "EVERY_S", 0.02)


async def test_every_metric_is_there_with_its_kind_and_its_help(rig: Rig) -> None:
    exposition = await text(rig)
    helps = dict(re.findall(r"# HELP doubtless_(\w+) (.+)", exposition))
    kinds = dict(re.findall(r"# TYPE doubtless_(\w+) (\w+)", exposition))
    assert EVERY.items() <= kinds.items()
    assert all(len(helps[name]) > 15 for name in EVERY)
    assert [name for name in SHARED if "use max by, never sum" not in helps[name]] == []
    assert [name for name in EVERY if name not in SHARED and "max by" in helps[name]] == []
    assert kinds.keys() == EVERY.keys(), "a metric that CONTRACT 6 does not name"


async def test_known_providers_and_their_types_are_at_0_before_anything_happens(tmp_path: Path) -> None:
    async with Rig(tmp_path, SETTINGS) as rig:
        await rig.until_metric("store_up", 1)
        exposition = await text(rig)
    for provider in ("stripe", "resend"):
        for name in (
            *("stored_answers_total", "late_responses_total", "unknown_unpriced_actions", "needs_operator_actions"),
            *("contradicted_actions", "replay_window_closing_actions", "unknown_oldest_timestamp_seconds"),
            "upstream_duration_seconds_count",
        ):
            assert sample(exposition, name, provider=provider) == 0, name
        for result in ("found", "several", "candidates", "absent", "unreadable"):
            assert sample(exposition, "readbacks_total", provider=provider, result=result) == 0
        for source in ("late_response", "read_back", "webhook", "replay", "manual"):
            count = sample(exposition, "settlement_duration_seconds_count", provider=provider, source=source)
            assert count == 0
    for provider, kind in (("stripe", "stripe.refund.create"), ("resend", "resend.email.send")):
        for name in ("unknown_actions", "retries_blocked_total"):
            assert sample(exposition, name, provider=provider, action_type=kind) == 0
    for name in ("readbacks_due", "spool_observations"):
        assert sample(exposition, name) == 0
    assert sample(exposition, "build_info", version=__version__) == 1
    assert sample(exposition, "config_last_reload_successful") == 1
    for part, value in (("cap", 10_000), ("consumed", 0), ("reserved", 0), ("unknown", 0), ("available", 10_000)):
        assert sample(exposition, f"limit_{part}_minor_units", limit="refunds", currency="usd") == value


async def test_the_story_moves_the_values_and_settles_them_again(tmp_path: Path) -> None:
    kind = {"provider": "stripe", "action_type": "stripe.refund.create"}
    limit = {"limit": "refunds", "currency": "usd"}
    async with Rig(tmp_path, SETTINGS) as rig:
        charge, named = rig.charge(), event()
        rig.fault("drop_after_commit")
        heard = await rig.refunded(charge, event=named)
        again = await rig.refunded(charge, event=named)
        assert (heard.status, again.status) == (423, 423)
        await rig.until_metric("unknown_actions", 1, **kind)
        during = await text(rig)
        assert sample(during, "actions_total", **kind, status="pending", cause="") == 1
        assert sample(during, "actions_total", **kind, status="denied_unresolved", cause="connection_lost") == 1
        assert sample(during, "retries_blocked_total", **kind) == 1
        assert sample(during, "unknown_exposure_minor_units", provider="stripe", currency="usd") == 5400
        assert (sample(during, "unknown_oldest_timestamp_seconds", provider="stripe") or 0) > 1_700_000_000
        assert sample(during, "limit_unknown_minor_units", **limit) == 5400
        assert sample(during, "limit_available_minor_units", **limit) == 4600
        assert (sample(during, "state_sample_timestamp_seconds") or 0) > 1_700_000_000
        await rig.reconcile(heard.action_id)
        assert (await rig.refunded(charge, event=named)).status == 200
        await rig.until_metric("unknown_actions", 0, **kind)
        after = await text(rig)
        assert sample(after, "actions_total", **kind, status="confirmed", cause="") == 1
        assert sample(after, "readbacks_total", provider="stripe", result="found") == 1
        assert sample(after, "stored_answers_total", provider="stripe") == 1
        assert sample(after, "unknown_exposure_minor_units", provider="stripe", currency="usd") == 0
        assert sample(after, "unknown_oldest_timestamp_seconds", provider="stripe") == 0
        assert sample(after, "limit_consumed_minor_units", **limit) == 5400
        assert sample(after, "settlement_duration_seconds_count", provider="stripe", source="read_back") == 1
        assert sample(after, "upstream_duration_seconds_count", provider="stripe") == 1
        assert sample(after, "proxy_duration_seconds_count") == 3
        assert (sample(after, "store_duration_seconds_count", op="commit") or 0) >= 3


async def test_what_needs_a_person_and_what_has_no_price_is_counted(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        rig.fault("status_without_commit", path="/v1/unheard_of", status=500)
        named = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
        await rig.ask("POST", "/stripe/v1/unheard_of", form={}, headers=named)
        rig.fault("status_without_commit", status=400, body=b'{"error": {"type": "idempotency_error"}}')
        await rig.refunded(rig.charge(), event=event())
        await rig.until_metric("unknown_unpriced_actions", 1, provider="stripe")
        await rig.until_metric("needs_operator_actions", 1, provider="stripe")


async def test_no_id_is_a_label(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    rig.fault("drop_after_commit")
    heard = await rig.refunded(charge, event=named, headers={"Doubtless-Action-Type": "/second-of-mine"})
    await rig.reconcile(heard.action_id)
    headers = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
    for path in ("customers/cus_123", "payment_intents/pi_123/confirm", "odd/4242424242424242/x", f"odd/{'z' * 40}"):
        await rig.ask("POST", f"/stripe/v1/{path}", form={}, headers=headers)
    exposition = await text(rig)
    object_id = rig.standin.refunds()[0]["id"]
    for secret in (heard.action_id, named, charge, object_id, "second-of-mine", "cus_123", "pi_123", "42424", "zzzz"):
        assert secret not in exposition
    assert 'action_type="stripe.post./v1/odd/*/x"' in exposition


async def test_past_200_types_there_is_other(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig, await rig.line() as line:
        for number in range(201):
            word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
            headers = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
            await line.ask(request("POST", f"/stripe/v1/thing_{word}", form={}, headers=headers))
        exposition = await text(rig)
        kinds = set(re.findall(r'action_type="([^"]+)"', exposition))
        assert (len(kinds), "other" in kinds) == (201, True)
        labels = {"provider": "stripe", "action_type": "other", "status": "confirmed", "cause": ""}
        assert (sample(exposition, "actions_total", **labels) or 0) > 0


# ── The health port ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_probes_answer_on_their_port_and_nothing_else_does(rig: Rig) -> None:
    for path in ("/livez", "/healthz", "/readyz", "/startupz", "/metrics"):
        assert (await rig.probe(path)).status == 200
    assert (await rig.probe("/metrics")).field("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    for path in ("/", "/api/v1/actions", "/stripe/v1/charges", "/metrics/", "/admin"):
        assert (await rig.probe(path)).status == 404
    for port in ("proxy", "admin", "providers.stripe"):
        async with await Line.open(rig.ports[port]) as line:
            for path in ("/metrics", "/livez", "/readyz"):
                heard = await line.ask(request("GET", path))
                assert (heard.status >= 400, b"doubtless_" in heard.body) == (True, False)


async def test_a_port_that_is_off_is_off_and_the_rest_serves(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"LISTEN__ADMIN": "", "LISTEN__HEALTH": "", "PROVIDERS__STRIPE__LISTEN": ""}) as rig:
        assert set(rig.ports) == {"proxy"}
        assert (await rig.refunded(rig.charge(), event=event())).status == 200
        said = "\n".join(rig.running.said if rig.running else ())
        assert "operators" not in said
        assert "probes" not in said
        assert "NodeBindings" not in said
        node = await rig.ask("GET", "/v1/charges", headers={"User-Agent": "Stripe/v1 NodeBindings/23.1.0"})
        assert "providers.stripe.listen" in node.json["message"]


async def test_without_a_port_for_agents_operators_are_served(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"LISTEN__PROXY": "", "PROVIDERS__STRIPE__LISTEN": ""}) as rig:
        assert set(rig.ports) == {"admin", "health"}
        assert (await rig.admin("GET", "actions")).json == {"data": [], "next_cursor": None}
        assert "None" not in "\n".join(rig.running.said if rig.running else ())
