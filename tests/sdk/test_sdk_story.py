"""The story that must always work (CONTRACT 7), told by every client that agents use."""

import pytest

from tests.sdk.clients import REFUND_MINOR, ROUTE, WRITE, Client, Wish, speaks_to_the_model
from tests.sdk.clients_node import each
from tests.sdk.stage import Stage

HELD = {"stripe": {"usd": REFUND_MINOR}, "resend": {}}


@each()
@pytest.mark.parametrize("event", [None, "T-1041"])
async def test_a_lost_answer_is_told_three_times_and_found_in_the_providers_record_and_was_sent_once(
    stage: Stage, client: Client, event: str | None
) -> None:
    stage.fault("drop_after_commit", path=WRITE[client.provider])
    same, reworded = Wish(event), Wish(event, reworded=True)
    shown: set[str | None] = set()

    for number, wish in enumerate((same, same, reworded), 1):
        told = await client.call(stage, wish)
        assert speaks_to_the_model(told)
        assert "may already have" in (told.text or "") or "whose outcome" in (told.text or "")
        assert (told.status, stage.asked, stage.statuses) == (423, number, [423] * number)
        assert told.code == ("outcome_unknown" if event or wish is same else "suspected_duplicate")
        shown.add(told.action_id)
    (unknown,) = await stage.actions("?status=unknown")
    assert shown == {unknown["action_id"]}
    assert (unknown["action_type"], unknown["grade"]) == (ROUTE[client.provider], "unknown")
    assert await stage.held() == HELD[client.provider]
    assert len(stage.writes) == 1

    settled = await stage.reconcile(unknown["action_id"])
    assert (settled["status"], settled["grade"]) == ("confirmed", "confirmed")
    assert settled["settled_by"]["source"] == "read_back"
    assert settled["provider_object_id"] == stage.writes[0].object_id
    assert await stage.held() == {}

    told = await client.call(stage, same)
    if client.provider == "stripe":
        assert (told.object_id, told.text) == (settled["provider_object_id"], None)
    else:
        assert (told.status, "has already happened" in (told.text or "")) == (423, True)
    assert (stage.asked, len(stage.writes), stage.provider.executions()) == (4, 1, 1)


@each()
async def test_the_key_at_the_provider_is_made_of_the_event_and_the_action(stage: Stage, client: Client) -> None:
    await client.call(stage, Wish("T-1041"))
    assert [write.key for write in stage.writes] == [f"T-1041:{ROUTE[client.provider]}"]
