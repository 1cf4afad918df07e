"""The command line against a sidecar that runs: what it shows, and what it exits with (CONTRACT 5)."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.app.bench import TOKEN, VIEWER, event
from tests.app.rig import Rig
from tests.app.served import COMMAND, environ

pytestmark = pytest.mark.asyncio(loop_scope="module")
Ran = subprocess.CompletedProcess[str]


class Shell:
    """Runs `doubtless` as somebody would in a terminal beside the sidecar."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self._folder = folder
        self._environ = {"DOUBTLESS_ADMIN_URL": self.url, "DOUBTLESS_ADMIN_TOKEN": TOKEN}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rig.ports['admin']}"

    async def run(self, *arguments: str, **more: str) -> Ran:
        """Run it, and wait for its end while the loop goes on."""
        env = environ({name: value for name, value in (self._environ | more).items() if value})
        command = [*COMMAND, *arguments]
        return await asyncio.to_thread(
            subprocess.run, command, env=env, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )

    async def json(self, *arguments: str) -> Any:
        ran = await self.run(*arguments, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(shared: Rig, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    yield Shell(shared, tmp_path_factory.mktemp("shell"))


def refused(ran: Ran, code: int, text: str) -> None:
    """It says why in a sentence, and nothing else."""
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    assert text in ran.stderr
    assert "Traceback" not in ran.stderr


async def lost(rig: Rig, named: str) -> str:
    """Lose the answer of a refund; the action."""
    rig.fault("drop_after_commit")
    return (await rig.refunded(rig.charge(), event=named)).action_id


async def test_the_queue_is_listed_shown_and_settled(rig: Rig, shell: Shell) -> None:
    named = event()
    action_id = await lost(rig, named)
    listed = await shell.run("actions", "list", "--status", "unknown", "--event", named)
    assert listed.returncode == 0
    [head, row] = listed.stdout.splitlines()
    assert head.split() == ["STATE", "ACTION", "AMOUNT", "EVENT", "CAUSE", "SINCE", "ACTION", "ID"]
    for part in ("UNKNOWN", "stripe.refund.create", "54.00 USD", named, "connection_lost", action_id):
        assert part in row
    shown = await shell.run("actions", "show", action_id)
    assert shown.returncode == 0
    for part in ("UNKNOWN", "delivery pending · acceptance pending", f"{named}:stripe.refund.create", "transport"):
        assert part in shown.stdout
    settled = await shell.run("actions", "reconcile", action_id)
    assert (settled.returncode, settled.stdout) == (0, "happened (verified) · the record was asked: found\n")
    again = await shell.run("actions", "reconcile", action_id)
    refused(again, 1, "already_settled: ")
    assert (await shell.json("actions", "show", action_id))["status"] == "confirmed"


async def test_what_cannot_be_settled_exits_1(rig: Rig, shell: Shell) -> None:
    rig.fault("drop_after_read")
    action_id = (await rig.refunded(rig.charge(), event=event())).action_id
    ran = await shell.run("actions", "reconcile", action_id)
    assert (ran.returncode, ran.stdout) == (1, "UNKNOWN · the record was asked: absent\n")


async def test_lists_are_paged_and_filtered(rig: Rig, shell: Shell) -> None:
    ids = [(await rig.refunded(rig.charge(), event=event())).action_id for _ in range(3)]
    page = await shell.json("actions", "list", "--limit", "2", "--provider", "stripe")
    assert [row["action_id"] for row in page["data"]] == ids[:0:-1]
    more = await shell.json("actions", "list", "--limit", "1", "--cursor", page["next_cursor"])
    assert more["data"][0]["action_id"] == ids[0]
    told = await shell.run("actions", "list", "--limit", "1")
    assert told.stdout.splitlines()[-1] == f"More: --cursor {ids[2]}"
    none = await shell.run("actions", "list", "--needs-operator", "--type", "stripe.payout.create")
    assert (none.returncode, none.stdout) == (0, "No actions.\n")


async def test_an_event_id_is_shown_as_it_is_whatever_it_looks_like(rig: Rig, shell: Shell) -> None:
    named = f"[red]{event()}[/nothing]"
    await rig.refunded(rig.charge(), event=named)
    listed = await shell.run("actions", "list", "--event", named)
    assert (listed.returncode, named in listed.stdout) == (0, True)


async def test_who_may_not_is_told_so(rig: Rig, shell: Shell) -> None:
    action_id = await lost(rig, event())
    refused(await shell.run("actions", "list", DOUBTLESS_ADMIN_TOKEN="wrong"), 1, "unauthorized: ")
    refused(await shell.run("actions", "reconcile", action_id, DOUBTLESS_ADMIN_TOKEN=VIEWER), 1, "forbidden: ")
    refused(await shell.run("actions", "show", "no/such?action"), 1, "not_found: ")
    assert (await shell.run("actions", "show", action_id, DOUBTLESS_ADMIN_TOKEN=VIEWER)).returncode == 0


async def test_an_admin_port_that_does_not_answer_is_named(rig: Rig, shell: Shell) -> None:
    away = await shell.run("actions", "list", DOUBTLESS_ADMIN_URL="http://127.0.0.1:1")
    refused(away, 1, "does not answer at http://127.0.0.1:1 (Connection refused)")
    health = f"http://127.0.0.1:{rig.ports['health']}"
    refused(await shell.run("actions", "list", DOUBTLESS_ADMIN_URL=health), 1, "The admin port answered 404.")
    refused(await shell.run("actions", "list", DOUBTLESS_ADMIN_URL=f"{health}/livez?"), 1, "is no admin port")
    wrong = await shell.run("actions", "list", DOUBTLESS_ADMIN_URL="file:///etc")
    refused(wrong, 2, "must begin with http:// or https://")


async def test_the_port_and_the_token_come_from_the_configuration(rig: Rig, shell: Shell, tmp_path: Path) -> None:
    viewer = f'{{name = "eyes", role = "viewer", token = "{VIEWER}"}}'
    operator = f'{{name = "ops", role = "operator", token = "{TOKEN}"}}'
    tokens = f"tokens = [{viewer}, {operator}]"
    file = tmp_path / "doubtless.toml"
    file.write_text(f'[listen]\nadmin = "127.0.0.1:{rig.ports["admin"]}"\n[admin]\n{tokens}\n', "utf-8")
    action_id = await lost(rig, event())
    none = {"DOUBTLESS_ADMIN_URL": "", "DOUBTLESS_ADMIN_TOKEN": ""}
    ran = await shell.run("actions", "reconcile", action_id, "--config", str(file), **none)
    assert (ran.returncode, ran.stderr) == (0, "")
    by_variable = await shell.run("actions", "show", action_id, **none, DOUBTLESS_CONFIG=str(file))
    assert by_variable.returncode == 0
    refused_without = await shell.run("actions", "list", **none)
    refused(refused_without, 2, "No token: ")


async def test_the_token_that_was_made_is_found_in_the_folder(shell: Shell, tmp_path: Path) -> None:
    async with Rig(tmp_path, {"ADMIN__TOKENS": "[]"}) as rig:
        file = tmp_path / "doubtless.toml"
        url = f'url = "embedded:{tmp_path}/store"'
        file.write_text(f'[listen]\nadmin = "127.0.0.1:{rig.ports["admin"]}"\n[store]\n{url}\n', "utf-8")
        none = {"DOUBTLESS_ADMIN_URL": "", "DOUBTLESS_ADMIN_TOKEN": ""}
        ran = await shell.run("actions", "list", "--config", str(file), **none)
        assert (ran.returncode, ran.stdout) == (0, "No actions.\n")
