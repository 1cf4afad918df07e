"""Whatever leaves the outcome unknown: one dispatch, one request by the client, and our message in its hands."""

from typing import Any

import pytest

from tests.sdk.clients import WRITE, Client, Wish, speaks_to_the_model
from tests.sdk.clients_node import each
from tests.sdk.fixtures import Staged

RETRY = ((b"Stripe-Should-Retry", b"true"), (b"Retry-After", b"0"), (b"x-should-retry", b"true"))
LOSSES: dict[str, dict[str, Any]] = {
    "no answer in time": {"kind": "hold_after_commit"},
    "a reset": {"kind": "drop_after_commit", "how": "rst"},
    "a 500 of the provider's": {"kind": "status_after_commit", "status": 500, "headers": RETRY},
    "a 409 of the provider's": {"kind": "status_without_commit", "status": 409, "headers": RETRY},
    "a middlebox's 502": {"kind": "html_502", "commit": True},
    "a 200 cut short": {"kind": "truncate_after_commit"},
}


@each()
@pytest.mark.parametrize("loss", LOSSES)
async def test_an_unknown_outcome_is_told_once_and_no_client_sends_it_again(
    staged: Staged, client: Client, loss: str
) -> None:
    async with staged(DEADLINES__ANSWER="400ms") as stage:
        stage.fault(path=WRITE[client.provider], method="POST", **LOSSES[loss])
        told = await client.call(stage)
        assert speaks_to_the_model(told), told
        assert (stage.asked, stage.statuses, len(stage.writes)) == (1, [423], 1)
        (answer,) = stage.answers
        assert (answer["Stripe-Should-Retry"], answer["x-should-retry"], answer["Retry-After"]) == (
            "false",
            "false",
            None,
        )

        again = await client.call(stage, Wish(reworded=True))
        assert speaks_to_the_model(again), again
        assert (stage.asked, stage.statuses, len(stage.writes)) == (2, [423, 423], 1)
