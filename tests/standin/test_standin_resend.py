"""Resend (facts, section 5): its keys, its lists without filters, its logs, its mark on every answer."""

import asyncio
from typing import Any

import pytest
from standin_client import DAY_MS, Client, Hands

from proxy.edges.standin import Fault, StandIn

MAIL: dict[str, Any] = {
    "from": "Acme <hello@acme.example>",
    "to": "ada@example.com",
    "subject": "Welcome",
    "html": "<b>Hello</b>",
    "tags": [{"name": "plan", "value": "pro"}],
}


async def test_the_same_key_and_payload_get_the_same_email(standin: StandIn, resend: Client) -> None:
    first = await resend.post("/emails", body=MAIL, key="k")
    again = await resend.post("/emails", body=dict(reversed(MAIL.items())), key="k")
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert "idempotent-replayed" not in again.headers
    assert len(standin.emails()) == standin.executions() == 1


async def test_another_payload_under_a_key_is_refused(standin: StandIn, resend: Client) -> None:
    await resend.post("/emails", body=MAIL, key="k")
    other = await resend.post("/emails", body=MAIL | {"subject": "Bye"}, key="k")
    assert (other.status, other.json["statusCode"], other.json["name"]) == (409, 409, "invalid_idempotent_request")
    assert len(standin.emails()) == 1


async def test_a_key_is_in_use_while_the_first_request_executes(standin: StandIn, resend: Client) -> None:
    hold = standin.faults.add(Fault("hold_before_commit"))
    first = await resend.sent("POST", "/emails", body=MAIL, key="k")
    await hold.reached()
    second = await resend.post("/emails", body=MAIL, key="k")
    assert (second.status, second.json["name"]) == (409, "concurrent_idempotent_requests")
    hold.release()
    assert (await first.hear()).json == {"id": standin.emails()[0]["id"]}


async def test_twenty_requests_with_one_key_send_one_email(standin: StandIn, resend: Client) -> None:
    lines = [await resend.sent("POST", "/emails", body=MAIL, key="k") for _ in range(20)]
    await asyncio.gather(*(line.hear() for line in lines))
    assert len(standin.emails()) == 1


async def test_a_key_has_1_to_256_characters(standin: StandIn, resend: Client) -> None:
    assert (await resend.post("/emails", body=MAIL, key="k" * 256)).status == 200
    for key in ("k" * 257, ""):
        wrong = await resend.post("/emails", body=MAIL, key=key)
        assert (wrong.status, wrong.json["name"]) == (400, "invalid_idempotency_key")


async def test_a_key_serves_24_hours(standin: StandIn, resend: Client, hands: Hands) -> None:
    for move in (0, DAY_MS - 1, 1):
        hands.move(move)
        await resend.post("/emails", body=MAIL, key="k")
    assert len(standin.emails()) == 2


async def test_keys_work_on_the_two_sending_endpoints_alone(standin: StandIn, resend: Client) -> None:
    for target in ("/emails", "/emails/batch", "/broadcasts"):
        body = [MAIL] if target.endswith("batch") else MAIL
        answers = [await resend.post(target, body=body, key="k-" + target) for _ in range(2)]
        assert (answers[0].body == answers[1].body) is (target != "/broadcasts")


async def test_an_error_is_not_kept_under_the_key(standin: StandIn, resend: Client) -> None:
    assert (await resend.post("/emails", body=MAIL | {"to": ""}, key="k")).json["name"] == "missing_required_field"
    assert (await resend.post("/emails", body=MAIL, key="k")).status == 200


async def test_whether_a_500_is_kept_is_not_documented_so_the_second_try_sends_again(
    standin: StandIn, resend: Client
) -> None:
    standin.faults.add(Fault("status_after_commit"))
    assert (await resend.post("/emails", body=MAIL, key="k")).status == 500
    assert (await resend.post("/emails", body=MAIL, key="k")).status == 200
    assert len(standin.emails()) == 2


async def test_a_test_may_say_that_a_500_is_kept(standin: StandIn, resend: Client) -> None:
    standin.faults.add(Fault("status_after_commit", kept=True))
    answers = [await resend.post("/emails", body=MAIL, key="k") for _ in range(2)]
    assert [answer.status for answer in answers] == [500, 500]
    assert len(standin.emails()) == 1


async def test_a_batch_is_sent_whole_or_not_at_all(standin: StandIn, resend: Client) -> None:
    sent = await resend.post("/emails/batch", body=[MAIL, MAIL | {"to": ["b@example.com", "c@example.com"]}])
    assert [row["id"] for row in sent.json["data"]] == [email["id"] for email in standin.emails()]
    wrong = await resend.post("/emails/batch", body=[MAIL, {"to": "b@example.com"}])
    assert (wrong.status, len(standin.emails())) == (422, 2)
    assert (await resend.post("/emails/batch", body=[MAIL] * 101)).status == 422


async def test_a_permissive_batch_sends_what_is_right_and_names_what_is_wrong(standin: StandIn, resend: Client) -> None:
    answer = await resend.post(
        "/emails/batch", body=[MAIL, {"to": "b@example.com"}], headers={"x-batch-validation": "permissive"}
    )
    assert (len(answer.json["data"]), [error["index"] for error in answer.json["errors"]]) == (1, [1])
    assert len(standin.emails()) == 1


async def test_a_list_shows_neither_bodies_nor_tags_and_has_no_filters(standin: StandIn, resend: Client) -> None:
    await resend.post("/emails", body=MAIL)
    await resend.post("/emails", body=MAIL | {"to": "b@example.com"})
    page = (await resend.get("/emails?to=ada@example.com")).json
    assert [row["to"] for row in page["data"]] == [["b@example.com"], ["ada@example.com"]]
    shown = {"id", "message_id", "to", "from", "created_at", "subject", "bcc", "cc"}
    assert set(page["data"][0]) == shown | {"reply_to", "last_event", "scheduled_at"}


async def test_pages_go_after_and_before_a_cursor(standin: StandIn, resend: Client) -> None:
    for n in range(25):
        standin.foreign_email(sender="them@acme.example", to="x@example.com", subject=str(n), text="hi")
    newest = [email["id"] for email in standin.emails()][::-1]
    page = (await resend.get("/emails")).json
    assert ([row["id"] for row in page["data"]], page["has_more"]) == (newest[:20], True)
    page = (await resend.get(f"/emails?limit=100&after={newest[19]}")).json
    assert ([row["id"] for row in page["data"]], page["has_more"]) == (newest[20:], False)
    page = (await resend.get(f"/emails?limit=3&before={newest[5]}")).json
    assert ([row["id"] for row in page["data"]], page["has_more"]) == (newest[2:5], True)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "after=a&before=b", "after=none"])
async def test_a_page_that_cannot_be_is_refused(resend: Client, query: str) -> None:
    assert (await resend.get(f"/emails?{query}")).json["name"] == "validation_error"


async def test_an_email_is_retrieved_with_its_body_and_without_its_tags(standin: StandIn, resend: Client) -> None:
    email_id = (await resend.post("/emails", body=MAIL)).json["id"]
    email = (await resend.get(f"/emails/{email_id}")).json
    assert (email["object"], email["html"], email["text"]) == ("email", "<b>Hello</b>", None)
    assert not {"tags", "headers"} & email.keys()
    assert standin.emails()[0]["tags"] == MAIL["tags"]
    assert (await resend.get("/emails/none")).json["name"] == "not_found"


async def test_a_scheduled_email_can_be_moved_and_canceled(standin: StandIn, resend: Client) -> None:
    email_id = (await resend.post("/emails", body=MAIL | {"scheduled_at": "2026-12-24T08:00:00Z"})).json["id"]
    moved = await resend.ask("PATCH", f"/emails/{email_id}", body={"scheduled_at": "2026-12-25T08:00:00Z"})
    assert moved.json == {"object": "email", "id": email_id}
    assert standin.emails()[0]["scheduled_at"] == "2026-12-25T08:00:00Z"
    assert (await resend.post(f"/emails/{email_id}/cancel")).json == {"object": "email", "id": email_id}
    assert (await resend.get(f"/emails/{email_id}")).json["last_event"] == "canceled"
    assert (await resend.post(f"/emails/{email_id}/cancel")).status == 422


async def test_the_log_shows_every_call_with_what_was_asked_and_answered(standin: StandIn, resend: Client) -> None:
    sent = await resend.post("/emails", body=MAIL, headers={"User-Agent": "doubtless/1 action-7"})
    await resend.post("/emails", body={})
    page = (await resend.get("/logs")).json
    assert [(row["method"], row["endpoint"], row["response_status"]) for row in page["data"]] == [
        ("POST", "/emails", 422),
        ("POST", "/emails", 200),
    ]
    assert page["data"][1]["user_agent"] == "doubtless/1 action-7"
    entry = (await resend.get(f"/logs/{page['data'][1]['id']}")).json
    assert (entry["request_body"], entry["response_body"]) == (MAIL, sent.json)
    assert (await resend.get("/logs/none")).status == 404


async def test_the_log_shows_what_resend_answered_and_not_what_a_middlebox_made_of_it(
    standin: StandIn, resend: Client
) -> None:
    standin.faults.add(Fault("html_502", commit=True))
    standin.faults.add(Fault("status_after_commit", status=500, skip=1))
    assert (await resend.post("/emails", body=MAIL)).status == 502
    assert (await resend.post("/emails", body=MAIL)).status == 500
    page = (await resend.get("/logs")).json
    assert [row["response_status"] for row in page["data"]] == [500, 200]


async def test_a_sending_key_may_only_send(standin: StandIn, resend: Client) -> None:
    resend.secret = "re_sending_only"
    assert (await resend.post("/emails", body=MAIL)).status == 200
    assert (await resend.post("/emails/batch", body=[MAIL])).status == 200
    for method, target in (("GET", "/emails"), ("GET", "/logs"), ("POST", "/emails/x/cancel"), ("POST", "/contacts")):
        refused = await resend.ask(method, target)
        assert (refused.status, refused.json["name"]) == (401, "restricted_api_key")


@pytest.mark.parametrize(
    ("secret", "status", "name"), [(None, 401, "missing_api_key"), ("sk_1", 403, "invalid_api_key")]
)
async def test_without_a_key_of_resends_nothing_is_done(
    standin: StandIn, resend: Client, secret: str | None, status: int, name: str
) -> None:
    resend.secret = secret
    refused = await resend.post("/emails", body=MAIL)
    assert (refused.status, refused.json["name"], standin.emails()) == (status, name, [])


async def test_every_answer_bears_the_rate_limits_headers(standin: StandIn, resend: Client) -> None:
    standin.faults.add(Fault("status_without_commit", status=429, method="POST", path="/emails"))
    for method, target in (("GET", "/emails"), ("GET", "/emails/none"), ("POST", "/emails"), ("DELETE", "/emails")):
        answer = await resend.ask(method, target)
        assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} <= answer.headers.keys()
        assert answer.status == 200 or answer.json["statusCode"] == answer.status


async def test_everything_else_holds_what_was_sent(standin: StandIn, resend: Client) -> None:
    made = (await resend.post("/contacts", body={"email": "a@example.com"})).json
    path = f"/contacts/{made['id']}"
    assert (await resend.ask("PATCH", path, body={"first_name": "Ada"})).status == 200
    assert (await resend.get(path)).json["first_name"] == "Ada"
    assert (await resend.get("/contacts")).json["data"][0]["email"] == "a@example.com"
    assert (await resend.post(f"{path}/verify")).json["id"] == made["id"]
    assert (await resend.ask("DELETE", path)).json["deleted"] is True
    assert (await resend.get(path)).status == 404
    assert (await resend.ask("DELETE", "/contacts")).json["name"] == "method_not_allowed"


@pytest.mark.parametrize("body", ["text", [1], 7, {"to": "a@example.com", "from": "b@example.com", "subject": "s"}])
async def test_what_is_no_email_is_refused(standin: StandIn, resend: Client, body: Any) -> None:
    assert (await resend.post("/emails", body=body)).status == 422
    assert (await resend.post("/contacts", body=[1])).status == 422
    assert (await resend.post("/emails", {"to": "not json"})).status == 422
    assert (await resend.get("/")).json["name"] == "not_found"
    assert standin.emails() == []
