"""Where nothing goes wrong nothing is different: the library's own object, the provider's own errors."""

from typing import Any

import resend
import stripe

from tests.sdk.clients import ROUTE, Client, Wish, in_a_thread
from tests.sdk.clients_node import each
from tests.sdk.stage import PAID_MINOR, Stage


@each()
async def test_the_library_returns_its_own_object(stage: Stage, client: Client) -> None:
    told = await client.call(stage)
    assert isinstance(told.made, client.makes)
    assert told.object_id == stage.writes[0].object_id
    assert (stage.asked, stage.statuses) == (1, [200])
    assert (stage.answers[0]["Doubtless-Status"], stage.answers[0]["Doubtless-Retry"]) == ("confirmed", "never")


@each()
async def test_the_same_event_again_returns_the_same_object_and_sends_nothing(stage: Stage, client: Client) -> None:
    first, second = [await client.call(stage, Wish("T-1041")) for _ in range(2)]
    assert first.object_id == second.object_id
    assert [answer["Idempotent-Replayed"] for answer in stage.answers] == [None, "true"]
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)


@each()
async def test_another_event_is_another_action(stage: Stage, client: Client) -> None:
    first, second = [await client.call(stage, Wish(event)) for event in ("T-1041", "T-1042")]
    assert first.object_id != second.object_id
    assert [write.key for write in stage.writes] == [
        f"{event}:{ROUTE[client.provider]}" for event in ("T-1041", "T-1042")
    ]


@each()
async def test_the_providers_own_refusal_arrives_as_the_librarys_own_error(stage: Stage, client: Client) -> None:
    stage.fault("status_without_commit", status=403)
    told = await client.call(stage)
    assert told.status == 403
    assert "Doubtless" not in (told.text or "")
    assert (stage.asked, stage.answers[0]["Doubtless-Status"]) == (1, "failed")


async def test_reads_go_through_as_they_are(stage: Stage) -> None:
    stage.provider.foreign_refund("ch_1", 100)

    def read() -> tuple[Any, ...]:
        client = stripe.StripeClient("sk_test_mine", base_addresses={"api": f"{stage.door.url}/stripe"})
        found = client.v1.refunds.list({"charge": "ch_1"})
        resend.api_key, resend.api_url = "re_full", f"{stage.door.url}/resend"
        return found.data[0].amount, client.v1.charges.retrieve("ch_1").amount, resend.Emails.list()["data"]

    assert await in_a_thread(read) == (100, PAID_MINOR, [])
    assert await stage.actions() == []
    assert stage.answers[0]["Doubtless-Action-Id"] is None
