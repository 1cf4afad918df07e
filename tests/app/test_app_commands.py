"""Commands that need no sidecar: demo, sandbox, adapters, configurations, and what is no command (CONTRACT 5)."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from proxy import __version__
from tests.app.served import COMMAND, Process, environ

BROKEN_ADAPTER = 'schema = 1\n[provider]\nname = "acme"\nhosts = []\nupstream = "https://api.acme.example"\n'
BAD = """
[listen]
proxy = "0.0.0.0:7411"
colour = "blue"
[deadlines]
answer = "soon"
harvest = "1s"
[admin]
tokens = [{name = "ops", role = "king", token = "swordfish"}]
[store]
url = "redis://:swordfish@127.0.0.1:6379"
"""


def run(
    *arguments: str, code: str | None = None, cwd: Path | None = None, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run `doubtless`; `code` runs before it, in its process."""
    command = COMMAND if code is None else (sys.executable, "-c", f"{code}\nfrom proxy.cli import main; main()")
    return subprocess.run(
        [*command, *arguments], env=environ(more), cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def refused(ran: "subprocess.CompletedProcess[str]", code: int, *texts: str) -> None:
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    assert [text for text in texts if text not in ran.stderr] == []
    assert "Traceback" not in ran.stderr


# ── The demo ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_demo_tells_the_story_with_measured_numbers_and_exits_0() -> None:
    ran = run("demo")
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert [line[:2].strip() for line in lines if line[:2].strip().isdigit()] == [str(n) for n in range(1, 9)]
    assert "is told 423" in ran.stdout
    assert ran.stdout.count("→ 423, nothing was sent") == 2
    assert "UNKNOWN: not failed, never sent again by itself · 54.00 USD held" in ran.stdout
    assert "HAPPENED, verified" in ran.stdout
    assert " Stripe executed, with Doubtless     1 refund, of one POST" in lines
    assert " Stripe executed, without it         3 refunds" in ran.stdout


def test_what_happens_without_doubtless_is_counted_not_told() -> None:
    once = "import proxy.demo as d\nasync def insist(self): return [await self.refund(), await self.refund()]\n"
    ran = run("demo", code=f"{once}d.Agent.insist = insist")
    assert ran.returncode == 0
    assert " Stripe executed, without it         2 refunds" in ran.stdout
    assert "connection lost, 200)" in ran.stdout


BREAKS = {
    "no answer is lost": (
        "import proxy.demo as d; from proxy.edges.standin.faults import Faults; Faults.add = lambda self, fault: fault",
        "the agent is told 423",
    ),
    "nothing is held": (
        "import proxy.demo as d\nasync def held(self): return 0\nd.Operator.held = held",
        "5400 is held as unknown exposure",
    ),
    "a retry gets through": (
        "import proxy.engine.admission as a; from proxy.core.second import Decision, Verb\n"
        "import proxy.core.second as s; a.decide = lambda first, asking: Decision(Verb.NEW_RUN)",
        "the same request again sends nothing",
    ),
    "a double is hidden": (
        "import proxy.demo as d\nasync def without(session): return 1, []\nd.without_us = without",
        "the same script, without us, refunds more than once",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_where_the_promise_is_broken_the_demo_says_so_and_exits_1(name: str) -> None:
    code, promise = BREAKS[name]
    ran = run("demo", code=code)
    assert ran.returncode == 1, ran.stdout
    assert f"The story does not hold: not true that {promise}." in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_the_demo_can_stay_to_be_looked_at(tmp_path: Path) -> None:
    code = "import proxy.demo as d; old = d.sidecar\nd.sidecar = lambda *where, stay: old(*where, stay=False)"
    process = Process(("demo", "--stay"), tmp_path, {}, code=code)
    try:
        await process.until_printed("_standin/faults")
        export = next(line for line in process.printed if "DOUBTLESS_ADMIN_URL=" in line)
        pairs = dict(word.split("=", 1) for word in export.split() if "=" in word)
        listed = run("actions", "list", "--json", **pairs)
        assert [row["status"] for row in json.loads(listed.stdout)["data"]] == ["confirmed"]
        assert await process.end(signal.SIGINT) == 0
        assert "Traceback" not in process.log
    finally:
        await process.tidy()


async def test_the_sandbox_runs_the_stand_in_alone(tmp_path: Path) -> None:
    process = Process(("sandbox", "--stripe-port", "0", "--resend-port", "0"), tmp_path, {})
    try:
        await process.until_printed("_standin/journal")
        url = next(word for line in process.printed for word in line.split() if word.startswith("http://"))
        with urllib.request.urlopen(f"{url}/_standin/journal", timeout=10) as answer:  # noqa: ASYNC210, S310
            assert json.load(answer) == []
        taken = run("sandbox", "--stripe-port", url.rpartition(":")[2], "--resend-port", "0")
        refused(taken, 2, "Cannot start: Address already in use")
        assert await process.end() == 0
        assert "Traceback" not in process.log
    finally:
        await process.tidy()


# ── Adapters and configurations ───────────────────────────────────────────────────────────────────────────────────────


def test_adapters_are_listed_shown_and_checked(tmp_path: Path) -> None:
    listed = run("adapters", "list")
    assert (listed.returncode, [line.split()[0] for line in listed.stdout.splitlines()]) == (0, ["stripe", "resend"])
    rows = {row["action_type"]: row for row in json.loads(run("adapters", "show", "stripe", "--json").stdout)["data"]}
    assert (rows["stripe.refund.create"]["tier"], rows["stripe.refund.create"]["replay"]) == ("full", True)
    assert "stripe.refund.create" in run("adapters", "show", "stripe").stdout
    refused(run("adapters", "show", "nobody"), 1, "There is no adapter 'nobody'; there are stripe, resend.")
    refused(run("adapters", "show"), 2, "Missing argument")
    (tmp_path / "acme.toml").write_text(BROKEN_ADAPTER.replace("[]", '["api.acme.example"]'), "utf-8")
    good = run("adapters", "check", "acme.toml", cwd=tmp_path)
    assert (good.returncode, good.stdout) == (0, "acme.toml: good. acme: 0 action types.\n")


@pytest.mark.parametrize(
    "command", [("adapters", "check", "acme.toml"), ("config", "check", "d.toml"), ("serve", "--config", "d.toml")]
)
def test_a_broken_adapter_file_is_one_sentence_and_exits_2(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "acme.toml").write_text(BROKEN_ADAPTER, "utf-8")
    (tmp_path / "d.toml").write_text('[providers.acme]\nadapter = "acme.toml"\n', "utf-8")
    ran = run(*command, cwd=tmp_path)
    refused(ran, 2, "acme.toml: provider.hosts: ")
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [("config", "check", "d.toml"), ("serve", "--config", "d.toml"), ("actions", "list", "--config", "d.toml")],
)
def test_every_complaint_comes_at_once_with_setting_value_and_rule_and_no_secret(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "d.toml").write_text(BAD, "utf-8")
    ran = run(*command, cwd=tmp_path, DOUBTLESS_EVENT__MISSING="maybe", DOUBTLESS_EVNT__TWIN="true")
    settings = (
        "listen.proxy = ",
        "listen.colour",
        "deadlines.answer = ",
        "admin.tokens[0].role",
        "state.key = ",
        "event.missing = ",
        "DOUBTLESS_EVNT__TWIN",
    )
    refused(ran, 2, "The configuration cannot be used (", *settings)
    assert "swordfish" not in ran.stderr
    count = int(ran.stderr.partition("(")[2].partition(")")[0])
    assert count == len(ran.stderr.splitlines()) - 1 >= len(settings)
    assert not (tmp_path / ".doubtless").exists()


def test_a_good_configuration_is_called_good_and_an_upstream_without_an_address_is_told(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text('[providers.stripe]\nupstream = "http://nowhere.invalid"\n', "utf-8")
    offline = run("config", "check", "d.toml", "--offline", cwd=tmp_path)
    assert (offline.returncode, offline.stdout) == (0, "d.toml: good. Providers: stripe, resend.\n")
    online = run("config", "check", "--config", "d.toml", cwd=tmp_path)
    assert (online.returncode, "nowhere.invalid has no address here" in online.stderr) == (1, True)
    default = run("config", "check", "--offline", cwd=tmp_path)
    assert (default.returncode, default.stdout) == (0, "The default configuration: good. Providers: stripe, resend.\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("x = [", "is not TOML"), ("\xff", "is not UTF-8 text"), (None, "cannot be read: No such file")],
)
def test_a_file_that_is_no_configuration_exits_2(tmp_path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / "d.toml").write_bytes(text.encode("latin-1"))
    for command in (("config", "check", "d.toml"), ("serve", "--config", "d.toml")):
        refused(run(*command, cwd=tmp_path), 2, complaint)


def test_an_address_in_use_is_one_sentence_and_exits_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", cwd=tmp_path, DOUBTLESS_LISTEN__HEALTH=f"127.0.0.1:{port}")
    refused(ran, 2, "Cannot start: ", "address already in use", str(port))
    assert len(ran.stderr.splitlines()) == 1


def test_a_hub_on_the_embedded_store_is_a_mistake_and_exits_2(tmp_path: Path) -> None:
    refused(run("hub", cwd=tmp_path), 2, "store.url = ", "embedded:.doubtless", "name a Redis or Valkey")
    assert not (tmp_path / ".doubtless").exists()


# ── What is no command ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_version_is_told() -> None:
    ran = run("version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"doubtless {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("actions", "nonsense"),
        ("actions", "show"),
        ("actions", "list", "--limit", "0"),
        ("serve", "--nonsense"),
        ("sandbox", "--stripe-port", "99999"),
        ("demo", "x"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    refused(run(*arguments), 2, "Error: ")


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("serve", "--help"), ("actions", "reconcile", "-h")])
def test_help_is_there(arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert (ran.returncode, "Usage: " in ran.stdout) == (0, True)
