"""Credentials, bodies, tokens and secrets are nowhere they can be read: not while an action is unknown, not after."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from proxy.core.http import first
from tests.app.bench import RESEND_SECRET, SECRET, TOKEN, VIEWER, event
from tests.app.line import Heard
from tests.app.served import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
BODY: Final = "marker-of-a-body-5d41402a"
MAIL: Final = "marker-of-a-mail-7d793037"
OTHER: Final = "sk_test_" + "somebody" * 3
READ_KEY: Final = "rk_test_" + "reads" * 5
HOOK: Final = "whsec_" + "hook" * 6
STATE: Final = "c3RhdGUta2V5LW9mLXRoZS10ZXN0cy0zMi1ieXRlcy4"
WRONG: Final = "a-token-that-nobody-gave"
SECRETS: Final = {
    "the agent's Stripe key": SECRET,
    "another agent's key": OTHER,
    "the agent's Resend key": RESEND_SECRET,
    "a body": BODY,
    "a mail": MAIL,
    "the reading key": READ_KEY,
    "the webhook secret": HOOK,
    "the state key": STATE,
    "the operator's token": TOKEN,
    "the viewer's token": VIEWER,
    "a wrong token": WRONG,
}
MORE: Final = {
    "PROVIDERS__STRIPE__READ_KEY": READ_KEY,
    "PROVIDERS__STRIPE__WEBHOOK_SECRET": json.dumps([HOOK]),
    "STATE__KEY": json.dumps([STATE]),
}


class Looked:
    """Where one can look, at one time: the text of every place."""

    def __init__(self) -> None:
        self.places: dict[str, bytes] = {}
        self.kept: set[str] = set()

    async def look(self, bench: Served, answers: list[Heard], action_ids: list[str]) -> None:
        """Look everywhere."""
        assert bench.process is not None
        self.places["the log"] = bench.process.log.encode()
        assert all(action_id in bench.process.log for action_id in action_ids), "an action leaves a line"
        self.places["what it prints"] = "\n".join(bench.process.printed).encode()
        self.places["the metrics"] = (await bench.probe("/metrics")).body
        self.places["the list"] = (await bench.admin("GET", "actions?limit=200")).body
        shown = [await bench.admin("GET", f"actions/{action_id}") for action_id in action_ids]
        self.places["the actions"] = b"\n".join(heard.body for heard in shown)
        asked = [await bench.ask("GET", f"/_doubtless/actions/{action_id}") for action_id in action_ids]
        self.places["the agents' page"] = b"\n".join(heard.body for heard in asked)
        own = [heard for heard in answers if heard.code is not None]
        assert len(own) > 4
        self.places["our own answers"] = b"\n".join(heard.head + heard.body for heard in own)
        self.places["our headers"] = b"\n".join(heard.head for heard in answers)
        self.places["the store"] = await self._dump(bench.folder / "store" / "store.sock")
        files = [path for path in bench.folder.rglob("*") if path.is_file() and path.name != "doubtless.toml"]
        assert any("appendonly" in str(path) for path in files)
        self.places["the files"] = b"\n".join(path.read_bytes() for path in files)

    async def _dump(self, socket: Path) -> bytes:
        out: list[bytes] = []
        async with Redis.from_url(f"unix://{socket}") as client:
            async for key in client.scan_iter(count=1000):
                kind = await client.type(key)
                assert kind in (b"hash", b"zset"), kind
                value = await (client.hgetall(key) if kind == b"hash" else client.zrange(key, 0, -1))
                pairs = [part for pair in value.items() for part in pair] if kind == b"hash" else value
                out += [key, *pairs]
                if key.endswith(b":kept"):
                    self.kept = {field.decode() for field in value}
        assert len(out) > 40
        return b"\n".join(out)


class Story:
    """What was looked at while actions were unknown, and after they were settled."""

    def __init__(self) -> None:
        self.unknown, self.settled = Looked(), Looked()
        self.lost: list[str] = []


async def traffic(bench: Served) -> tuple[list[Heard], list[str]]:
    """Confirmed, rejected, mismatching, foreign and unknown actions with marked bodies; the answers, the unknown."""
    note = {"metadata[note]": BODY}
    named, charge = event(), bench.charge()
    answers = [
        await bench.refunded(charge, event=named, **note),
        await bench.refunded(charge, event=named, **note),
        await bench.refunded(charge, event=named, **{"metadata[note]": BODY + "-changed"}),
        await bench.refunded(charge, event=named, headers={"Authorization": f"Bearer {OTHER}"}, **note),
        await bench.refunded("ch_none", event=event(), **note),
        await bench.ask("POST", f"/nobody/{BODY}", body=BODY.encode(), headers={"Authorization": f"Bearer {SECRET}"}),
        await bench.refunded(charge, event=event() + "\t", **note),
    ]
    lost = []
    bench.fault("drop_after_commit")
    answers.append(await bench.refunded(charge, event=event(), amount="100", **note))
    lost.append(answers[-1].action_id)
    bench.fault("drop_after_commit", path="/emails")
    mail = {"from": "a@acme.example", "to": ["b@acme.example"], "subject": event(), "html": f"<p>{MAIL}</p>"}
    headers = {"Authorization": f"Bearer {RESEND_SECRET}", "Content-Type": "application/json"}
    sent = [await bench.ask("POST", "/resend/emails", body=json.dumps(mail).encode(), headers=headers) for _ in "12"]
    answers += sent
    lost.append(sent[0].action_id)
    for token in (WRONG, VIEWER, None):
        await bench.admin("POST", f"actions/{lost[0]}/reconcile", token=token)
    await bench.admin("GET", f"actions?status=unknown&{WRONG}=1")
    return answers, lost


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    async with Served(tmp_path_factory.mktemp("secrets"), MORE) as bench:
        story = Story()
        answers, story.lost = await traffic(bench)
        ids = [heard.action_id for heard in answers if heard.values("Doubtless-Action-Id")]
        await story.unknown.look(bench, answers, ids)
        for action_id in story.lost:
            assert (await bench.reconcile(action_id))["status"] == "confirmed"
        await story.settled.look(bench, answers, ids)
        scans = [a for a in bench.standin.journal if a.target.startswith("/v1/events")]
        assert {first(scan.headers, b"authorization") for scan in scans} == {f"Bearer {READ_KEY}".encode()}
        yield story


PLACES = [
    *("the log", "what it prints", "the metrics", "the list", "the actions", "the agents' page", "our own answers"),
    *("our headers", "the store", "the files"),
]


@pytest.mark.parametrize("place", PLACES)
async def test_while_actions_are_unknown_no_secret_can_be_read(story: Story, place: str) -> None:
    check(story.unknown, place)


@pytest.mark.parametrize("place", PLACES)
async def test_after_they_are_settled_no_secret_can_be_read(story: Story, place: str) -> None:
    check(story.settled, place)


def check(looked: Looked, place: str) -> None:
    assert looked.places[place]
    assert [name for name, secret in SECRETS.items() if secret.encode() in looked.places[place]] == []


async def test_a_credential_is_kept_while_it_may_be_needed_and_dropped_when_it_is_not(story: Story) -> None:
    needed = {f"{action_id}:credential" for action_id in story.lost}
    assert needed <= story.unknown.kept
    assert not [name for name in story.settled.kept if name.endswith((":credential", ":request"))]


async def test_what_holds_secrets_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        async with Served(tmp_path, {"ADMIN__TOKENS": "[]"}) as bench:
            assert (await bench.refunded(bench.charge(), event=event())).status == 200
            for name in ("state.key", "admin.token"):
                assert stat.S_IMODE((tmp_path / "store" / name).stat().st_mode) == 0o600
            for folder in (tmp_path / "store", tmp_path / "spool"):
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            made = (tmp_path / "store" / "admin.token").read_text("ascii").strip()
            assert (await bench.admin("GET", "actions", token=made)).status == 200
            assert (await bench.admin("GET", "actions", token=TOKEN)).status == 401
            assert bench.process is not None
            assert made not in bench.process.log + "".join(bench.process.printed)
            assert str(tmp_path / "store" / "admin.token") in "".join(bench.process.printed)
    finally:
        os.umask(old)
