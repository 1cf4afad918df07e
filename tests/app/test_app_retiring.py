"""A sidecar that keeps actions for two seconds: what leaves its store, and what is still known of it."""

import json

import pytest

from tests.app.bench import event, eventually
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {
    "EVENT__RETRY_WINDOW": "1s",
    "DEADLINES__ANSWER": "1s",
    "DEADLINES__HARVEST": "1s",
    "STATE__KEEP": "2s",
    "STATE__ARCHIVE": "{folder}/settled.jsonl",
}


async def test_a_settled_action_leaves_for_the_archive_and_its_event_is_settled_all_the_same(rig: Rig) -> None:
    charge, name = rig.charge(), event()
    first = await rig.refunded(charge, event=name)
    action_id = str(first.field("doubtless-action-id"))
    assert first.status == 200

    async def has_left() -> bool:
        return (await rig.admin("GET", f"actions/{action_id}")).status == 404

    await eventually(has_left)
    archived = [json.loads(line) for line in (rig.folder / "settled.jsonl").read_text("utf-8").splitlines()]
    assert [(a["action_id"], a["status"], a["event_id"]) for a in archived if a["event_id"] == name] == [
        (action_id, "confirmed", name)
    ]
    again = await rig.refunded(charge, event=name)
    assert (again.status, again.json["error"]["code"]) == (423, "already_settled")
    assert len(rig.writes) == 1


async def test_an_unknown_action_stays(rig: Rig) -> None:
    charge, name = rig.charge(), event()
    rig.fault("drop_after_commit")
    lost = await rig.refunded(charge, event=name)
    assert lost.status == 423
    settled = await rig.refunded(rig.charge(), event=event())

    async def the_settled_one_has_left() -> bool:
        return (await rig.admin("GET", f"actions/{settled.field('doubtless-action-id')}")).status == 404

    await eventually(the_settled_one_has_left)
    assert (await rig.action(str(lost.field("doubtless-action-id"))))["status"] == "denied_unresolved"
