"""Every setting: its default, a value it takes, and one it refuses by name, value and rule."""

from collections.abc import Callable
from ipaddress import ip_network
from typing import NamedTuple

import pytest

from proxy.config import Address as At
from proxy.config import Complaint, Config, Origin, Secret, StoreKind, StoreUrl, load, settings

DAY_MS = 86_400_000
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
LIMIT = '[[limits]]\nname = "r"\nmatch = "*"\nperiod = "day"\ncount = 1\n'
MONEY = '[[limits]]\nname = "r"\nmatch = "*"\nperiod = "day"\namount = 1\ncurrency = "usd"\n'
TOKEN = '[[admin.tokens]]\nname = "ops"\nrole = "viewer"\ntoken = "t"\n'
NOTIFY = '[[notify]]\nurl = "https://hooks.example/x"\n'
ONE = "sha256:" + "0a" * 16
TWO = "sha256:" + "0b" * 16
A, B = Secret("a"), Secret("b")
UNSET = ('"env:UNSET"', "UNSET is not set")


def embedded(folder: str) -> StoreUrl:
    return StoreUrl(kind=StoreKind.EMBEDDED, shown=f"embedded:{folder}", folder=folder)


EMBEDDED = embedded(".doubtless")


class Row(NamedTuple):
    """A setting: its default, a good value in TOML and what is kept of it, a bad one and the rule that it breaks."""

    name: str
    default: object
    good: str
    kept: object
    bad: str
    rule: str
    around: str = ""  # The table it stands in, where that is one of a list.

    def of(self, config: Config) -> object:
        """Return what the configuration has; durations are kept under a name with their unit."""
        value: object = config
        for part in self.name.split("."):
            if value == ():
                return value
            value = value[0] if isinstance(value, tuple) else value
            unit = part if isinstance(value, dict) or hasattr(value, part) else f"{part}_ms"
            value = value[part] if isinstance(value, dict) else getattr(value, unit)
        return value


ROWS = [
    Row("listen.proxy", At("127.0.0.1", 7411), '"[::1]:80"', At("::1", 80), '"here"', "host:port"),
    Row("listen.admin", At("127.0.0.1", 7412), '""', None, '"127.0.0.1"', "host:port"),
    Row("listen.health", At("127.0.0.1", 7413), '"10.0.0.1:1"', At("10.0.0.1", 1), "7413", "host:port"),
    Row("listen.webhooks", None, '"localhost:1"', At("localhost", 1), '"::1:80"', "host:port"),
    Row("listen.transparent", None, '"127.9.9.9:0"', At("127.9.9.9", 0), '"127.0.0.1:65536"', "host:port"),
    Row("listen.remote", False, "true", True, '"yes"', "true or false"),
    Row("store.url", EMBEDDED, '"embedded:/x"', embedded("/x"), '"postgres://h/db"', "must begin with"),
    Row("store.ledger", "default", '"team-a"', "team-a", '"a{b}"', "letters"),
    Row("store.wait_replicas", 0, "0", 0, "-1", "whole number"),
    Row("store.allow_ephemeral", False, "true", True, "1", "true or false"),
    Row("event.headers", ("Doubtless-Event-Id",), '["ce", "baggage:a.b"]', ("ce", "baggage:a.b"),
        '["X-Job", "traceparent"]', "names a trace"),
    Row("event.missing", "derive", '"require"', "require", '"maybe"', "derive, require"),
    Row("event.retry_window", 72_000_000, '"2d"', 2 * DAY_MS, '"0s"', "at least 1 ms"),
    Row("event.twin", True, "false", False, "0", "true or false"),
    Row("deadlines.connect", 5_000, '"300ms"', 300, '"5"', "duration"),
    Row("deadlines.answer", 25_000, '"1.3s"', 1_300, '"soon"', "duration"),
    Row("deadlines.harvest", 120_000, '"1m"', 60_000, '"-1m"', "duration"),
    Row("deadlines.drain", 20_000, '"0s"', 0, "20", "duration"),
    Row("bounds.body_bytes", 16_777_216, "20000", 20_000, "0", "whole number"),
    Row("bounds.response_bytes", 16_777_216, "1", 1, '"16MB"', "whole number"),
    Row("bounds.buffered_bytes", 268_435_456, "33554432", 33_554_432, "1.5", "whole number"),
    Row("bounds.connections", 8192, "1", 1, "true", "whole number"),
    Row("readback.first", 30_000, '"0.3s"', 300, '"fast"', "duration"),
    Row("readback.max", 3_600_000, '"2h"', 7_200_000, '"2 hours"', "duration"),
    Row("readback.attempts", 12, "4", 4, "0", "whole number"),
    Row("providers.resend.upstream", Origin(tls=True, address=At("api.resend.com", 443)),
        '"http://127.0.0.1:9"', Origin(tls=False, address=At("127.0.0.1", 9)),
        '"https://api.resend.com/v1"', "at most a port"),
    Row("providers.resend.listen", None, '"127.0.0.1:7422"', At("127.0.0.1", 7422), '":7422"', "host:port"),
    Row("providers.resend.read_key", {}, '{live = "a", test = "b"}', {"live": A, "test": B}, *UNSET),
    Row("providers.resend.min_age", None, '"0s"', 0, '"young"', "duration"),
    Row("providers.resend.webhook_secret", (), '["a", "b"]', (A, B), '["a", "env:UNSET"]', UNSET[1]),
    Row("providers.resend.stamp", False, "true", True, "[]", "true or false"),
    Row("providers.resend.same_credentials", (), f'[["{ONE}", "{TWO}"]]', ((ONE, TWO),), f'[["{ONE}"]]', "two or more"),
    Row("providers.resend.ca_file", None, '""', None, '"absent.pem"', "must be a file"),
    Row("providers.resend.adapter", None, '""', None, '"absent.toml"', "must be a file"),
    Row("limits.name", (), '"s"', "s", '""', "1 to 64", LIMIT),
    Row("limits.match", (), '"stripe.refund.*"', "stripe.refund.*", '"a b"', "action type", LIMIT),
    Row("limits.period", (), '"total"', "total", '"year"', "day, month, total", LIMIT),
    Row("limits.amount", (), "9007199254740991", 2**53 - 1, "9007199254740992", "whole number", MONEY),
    Row("limits.currency", (), '"eur"', "eur", '"USD"', "lower case", MONEY),
    Row("limits.count", (), "20", 20, "0", "whole number", LIMIT),
    Row("limits.provider", (), '"stripe"', "stripe", "1", "a string", LIMIT),
    Row("limits.account", (), '"live"', "live", "[]", "a string", LIMIT),
    Row("egress.default", "deny", '"tunnel"', "tunnel", '"allow"', "deny, tunnel"),
    Row("egress.allow", (), '["api.example:443"]', (At("api.example", 443),), '["api.example"]', "host:port"),
    Row("admin.tokens.name", (), '"me"', "me", "5", "a string", TOKEN),
    Row("admin.tokens.role", (), '"operator"', "operator", '"boss"', "operator, viewer", TOKEN),
    Row("admin.tokens.token", (), '["a", "b"]', (A, B), *UNSET, TOKEN),
    Row("admin.user_header", "X-Forwarded-Email", '""', "", '"a b"', "header's name"),
    Row("admin.trusted_proxies", (), '["10.0.0.0/8", "::1"]', (ip_network("10.0.0.0/8"), ip_network("::1/128")),
        '["10.0.0.1/8"]', "IP address or a network"),
    Row("admin.four_eyes_above", {}, "{usd = 10000}", {"usd": 10_000}, "{usd = 1.5}", "whole number"),
    Row("state.key", (), f'["{KEY}", "{KEY[:-1]}"]', (Secret(KEY), Secret(KEY[:-1])), *UNSET),
    Row("state.keep", 90 * DAY_MS, '"3d"', 3 * DAY_MS, '"forever"', "duration"),
    Row("state.keep_scopes", 400 * DAY_MS, '"90d"', 90 * DAY_MS, "90", "duration"),
    Row("state.archive", None, '"settled.jsonl"', "settled.jsonl", "false", "a string"),
    Row("state.spool", ".doubtless/spool", '"/var/spool/x"', "/var/spool/x", '""', "must not be empty"),
    Row("notify.url", (), '"https://h.example/y"', Secret("https://h.example/y"), *UNSET, NOTIFY),
    Row("notify.secret", (), '"a"', (A,), '["file:absent"]', "No such file", NOTIFY),
    Row("notify.events", (), '["digest"]', ("digest",), '["all"]', "window_closing, digest", NOTIFY),
    Row("log.level", "info", '"debug"', "debug", '"loud"', "debug, info, warning, error"),
    Row("log.format", "console", '"json"', "json", '"xml"', "console, json"),
]  # fmt: skip
each_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])


def written(row: Row, value: str) -> str:
    section, _, name = row.name.rpartition(".")
    if not row.around:
        return f"[{section}]\n{name} = {value}\n"
    others = [line for line in row.around.splitlines() if not line.startswith(f"{name} =")]
    others = [line for line in others if not (name == "amount" and line.startswith("count"))]
    return "\n".join([*others, f"{name} = {value}\n"])


def test_the_table_has_every_setting() -> None:
    assert [row.name.replace("providers.resend", "providers.<name>") for row in ROWS] == list(settings())


@each_row
def test_a_setting_that_is_not_written_has_its_default(row: Row) -> None:
    assert row.of(load(None, {})) == row.default


@each_row
def test_a_setting_that_is_written_is_kept(row: Row, loaded: Callable[..., Config]) -> None:
    config = loaded(written(row, row.good))

    assert row.of(config) == row.kept
    assert row.name in {name.replace("[0]", "") for name in config.given} or row.around


@each_row
def test_a_bad_value_is_complained_of_by_setting_value_and_rule(
    row: Row, complaints: Callable[..., list[Complaint]]
) -> None:
    (complaint,) = complaints(written(row, row.bad))

    assert row.name in complaint.setting.replace("[0]", "").replace("[1]", "")
    assert row.rule in complaint.rule
    assert complaint.value


def test_the_default_providers_are_stripe_with_a_port_of_its_own_and_resend() -> None:
    providers = load(None, {}).providers

    assert list(providers) == ["stripe", "resend"]
    assert str(providers["stripe"].upstream) == "https://api.stripe.com:443"
    assert providers["stripe"].listen == At("127.0.0.1", 7421)


def test_a_setting_of_a_default_provider_leaves_its_other_defaults(loaded: Callable[..., Config]) -> None:
    stripe = loaded('[providers.stripe]\nread_key = "rk_1"\n').providers["stripe"]

    assert stripe.listen == At("127.0.0.1", 7421)
    assert stripe.read_key_for("live") == Secret("rk_1")


def test_a_read_key_by_account_is_for_that_account_alone(loaded: Callable[..., Config]) -> None:
    stripe = loaded('[providers.stripe]\nread_key = {"live/acct_1" = "rk_1"}\n').providers["stripe"]

    assert stripe.read_key_for("live/acct_1") == Secret("rk_1")
    assert stripe.read_key_for("live") is None


@pytest.mark.parametrize("text", ['webhook_secret = "one"', 'webhook_secret = ["one"]'])
def test_a_single_string_stands_for_a_list_of_one(text: str, loaded: Callable[..., Config]) -> None:
    assert loaded(f"[providers.stripe]\n{text}\n").providers["stripe"].webhook_secret == (Secret("one"),)


def test_the_durations_the_contract_writes_are_read(loaded: Callable[..., Config]) -> None:
    text = '[event]\nretry_window = "20h"\n[deadlines]\nconnect = "300ms"\nanswer = "1s"\nharvest = "1.3s"\n'
    config = loaded(text + '[state]\nkeep = "90d"\n[readback]\nfirst = "1m"\n')

    assert (config.deadlines.harvest_ms, config.readback.first_ms) == (1_300, 60_000)
    assert (config.event.retry_window_ms, config.state.keep_ms) == (72_000_000, 90 * DAY_MS)
