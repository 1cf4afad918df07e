"""A mistake in an adapter is one sentence that names the file, the key and the rule."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.core.facts_file import BadAdapter, load
from proxy.edges.adapter_files import SHIPPED, from_file, load_all, shipped
from tests.core.pure_adapters import SMALL_TOML

GOOD = """
schema = 1
[provider]
name = "acme"
hosts = ["api.acme.example"]
upstream = "https://api.acme.example"
[account]
agree = { live = { "/live" = true } }
source = "a page, read 2026-11-30"
[mark]
headers = ["Acme-Request-Id"]
shapes = [{ "/id" = "uuid" }]
source = "a page, read 2026-11-30"
[key]
header = "Idempotency-Key"
max_length = 64
retention = "24h"
margin = "1h"
replay_mark = "Acme-Replayed: true"
where = [{ methods = ["POST"], path = "/v1/*", retention = "30d" }]
source = "a page, read 2026-11-30"
[[outcome]]
status = [422]
json = { "/error/code" = "invalid" }
means = "rejected"
source = "a page, read 2026-11-30"
[read.events]
kind = "scan"
path = "/v1/events"
query = { since = "{since}", of = "{to}" }
items = "/data"
identity = "/key"
created = "/created"
cursor = { query = "after", item = "/id", more = "/more" }
before = "10m"
source = "a page, read 2026-11-30"
[read.object]
kind = "object"
source = "a page, read 2026-11-30"
[read.mails]
kind = "content"
path = "/v1/mails"
items = "/data"
created = "/created"
detail = "/v1/mails/{object}"
source = "a page, read 2026-11-30"
[generic]
type = "generic.write"
method = "*"
path = "/"
readback = ["events"]
[[action]]
type = "payout.create"
method = "POST"
path = "/v1/accounts/{account}/payouts"
effect = "money"
tier = "reconcilable"
replay = true
facts = { to = "/destination" }
targets = [{ of = ["to"], within = "15m" }]
amount = { value = "/amount", currency = "/currency" }
quotes = [{ needs = "account", path = "/v1/accounts/{account}", currency = "/currency" }]
object_id = "/id"
object_path = "/v1/payouts/{object}"
same = { "/destination" = "to" }
failed_when = { "/status" = "failed" }
readback = ["events"]
min_age = "10s"
[[action]]
type = "mail.send"
method = "POST"
path = "/v1/mails"
effect = "message"
tier = "reconcilable"
content = { to = "/to" }
readback = ["mails"]
"""


def test_the_example_that_is_broken_below_is_good() -> None:
    assert load(GOOD, "acme.toml").provider.name == "acme"


MISTAKES = {
    "not TOML": ("schema = 1", "schema = ", "not TOML"),
    "no schema": ("schema = 1", "", "schema"),
    "another schema": ("schema = 1", "schema = 2", "schema: this version reads schema 1"),
    "no provider": ("[provider]\n", "[elsewhere]\n", "elsewhere"),
    "an unknown key": ('name = "acme"', 'name = "acme"\nnmae = 1', "provider: Object contains unknown field `nmae`"),
    "an unknown key of a route": ('type = "mail.send"', 'type = "mail.send"\nabsent_means = 1', "action[1]: Object"),
    "an unknown key of a read": ('items = "/data"\ncreated', 'itmes = "/data"\ncreated', "read.mails: Object"),
    "an enumeration of a route": ('tier = "reconcilable"\nreplay', 'tier = "fully"\nreplay', "action[0].tier: Invalid"),
    "an enumeration of a rule": ('means = "rejected"', 'means = "retry_same_key"', "outcome[0].means: Invalid"),
    "an enumeration of a read": ('kind = "object"', 'kind = "list"', "read.object.kind: Invalid enum value 'list'"),
    "another type": ("max_length = 64", 'max_length = "64"', "key.max_length: Expected `int`"),
    "a float in a rule": ('"/error/code" = "invalid"', '"/error/code" = 1.5', "outcome[0].json"),
    "no source of the mark": ('shapes = [{ "/id" = "uuid" }]\nsource', "shapes = []\n# source", "mark: Object missing"),
    "an empty source": (
        'means = "rejected"\nsource = "a page, read 2026-11-30"',
        'means = "rejected"\nsource = " "',
        "outcome[0].source: name the page",
    ),
    "a reserved name": ('name = "acme"', 'name = "e"', "provider.name: lower-case"),
    "our own name": ('name = "acme"', 'name = "_doubtless"', "provider.name: lower-case"),
    "a name in capitals": ('name = "acme"', 'name = "Acme"', "provider.name: lower-case"),
    "no host": ('hosts = ["api.acme.example"]', "hosts = []", "provider.hosts: at least one"),
    "a host pattern": (
        'hosts = ["api.acme.example"]',
        'hosts = ["*.acme.example"]',
        "provider.hosts: '*.acme.example'",
    ),
    "a host with a port": (
        'hosts = ["api.acme.example"]',
        'hosts = ["acme.example:443"]',
        "provider.hosts: 'acme.example:443'",
    ),
    "an upstream without a scheme": ('"https://api.acme.example"', '"api.acme.example"', "provider.upstream:"),
    "an account's bad pointer": ('"/live" = true', '"live" = true', "account.agree.live: 'live' is no JSON pointer"),
    "a shape of no kind": ('"/id" = "uuid"', '"/id" = "number"', "mark.shapes: 'number' is none of"),
    "a mark that nothing bears": (
        'headers = ["Acme-Request-Id"]\nshapes = [{ "/id" = "uuid" }]',
        "",
        "mark.headers: without",
    ),
    "a short key": ("max_length = 64", "max_length = 31", "key.max_length: at least 32"),
    "a retention of no length": ('retention = "24h"', 'retention = "a day"', "key.retention: 'a day' is no duration"),
    "a retention of its own": ('retention = "30d"', 'retention = "30"', "key.where.retention: '30' is no duration"),
    "a replay mark without a value": ('"Acme-Replayed: true"', '"Acme-Replayed"', "key.replay_mark:"),
    "a rule that nothing decides": ('status = [422]\njson = { "/error/code" = "invalid" }', "", "outcome[0]: a status"),
    "a rule for a 5xx": ("status = [422]", "status = [422, 500]", "outcome[0].status: 500 and above"),
    "a rule's bad pointer": (
        '"/error/code" = "invalid"',
        '"error.code" = "invalid"',
        "outcome[0].json: 'error.code' is no",
    ),
    "a read's bad pointer": ('identity = "/key"', 'identity = "key"', "read.events.identity: 'key' is no JSON pointer"),
    "a cursor's bad pointer": ('more = "/more"', 'more = "more"', "read.events.cursor: 'more' is no JSON pointer"),
    "a scan without an identity": ('identity = "/key"\n', "", "read.events.identity: a scan needs"),
    "a content read without a detail": ('detail = "/v1/mails/{object}"\n', "", "read.mails.detail: a content read"),
    "a read's template of nothing": ('of = "{to}"', 'of = "{whom}"', "read.events.query: there is no fact 'whom'"),
    "a detail's template of nothing": (
        "/v1/mails/{object}",
        "/v1/mails/{id}",
        "read.mails.detail: there is no fact 'id'",
    ),
    "a read's path": ('"/v1/events"', '"v1/events"', "read.events.path: begins with `/`"),
    "a read's path of nothing": ('"/v1/events"', '"/v1/{x}"', "readback (events): there is no fact 'x'"),
    "a read's window": ('before = "10m"', 'before = "ten"', "read.events.before: 'ten' is no duration"),
    "an unknown read": (
        'readback = ["mails"]',
        'readback = ["emails"]',
        "action[1] (mail.send).readback: there is no [read.emails]",
    ),
    "an unknown read of the generic route": (
        'path = "/"\nreadback = ["events"]',
        'path = "/"\nreadback = ["evens"]',
        "generic.readback",
    ),
    "a promise without a read": ('readback = ["mails"]', "", "action[1] (mail.send).readback: tier reconcilable"),
    "an object that is read nowhere": (
        'readback = ["mails"]',
        'readback = ["mails", "object"]',
        "object_path: [read.object]",
    ),
    "content on money": ('effect = "message"', 'effect = "money"', "action[1] (mail.send).content: only messages"),
    "a content read without content": ('content = { to = "/to" }\n', "", "action[1] (mail.send).content: [read.mails]"),
    "a type without a verb": ('type = "mail.send"', 'type = "mail"', "action[1] (mail).type: object.verb"),
    "a type in capitals": ('type = "mail.send"', 'type = "Mail.Send"', "action[1] (Mail.Send).type: object.verb"),
    "a type twice": ('type = "mail.send"', 'type = "payout.create"', "action[1].type: payout.create is there twice"),
    "a path twice": ('path = "/v1/mails"\neffect', 'path = "/v1/accounts/{x}/payouts"\neffect', "(mail.send).path:"),
    "a method in small letters": (
        'method = "POST"\npath = "/v1/mails"',
        'method = "post"\npath = "/v1/mails"',
        "(mail.send).method: 'post'",
    ),
    "a path without a slash": ('path = "/v1/mails"\neffect', 'path = "v1/mails"\neffect', "(mail.send).path: begins"),
    "an extension that the path lacks": (
        'type = "mail.send"',
        'type = "mail.send"\nextends = ["id"]',
        "(mail.send).extends",
    ),
    "a fact's bad pointer": ('to = "/destination"', 'to = "destination"', "(payout.create).facts: 'destination' is no"),
    "an amount's bad pointer": ('value = "/amount"', 'value = "amount"', "(payout.create).amount: 'amount' is no"),
    "an object's bad pointer": ('object_id = "/id"', 'object_id = "id"', "(payout.create).object_id: 'id' is no"),
    "a sameness of no fact": (
        '"/destination" = "to"',
        '"/destination" = "from"',
        "(payout.create).same: there is no fact 'from'",
    ),
    "a target of no fact": ('of = ["to"]', 'of = ["whom"]', "(payout.create).targets: there is no fact 'whom'"),
    "a target's time": ('within = "15m"', 'within = "soon"', "(payout.create).targets.within: 'soon' is no duration"),
    "a quote of no fact": (
        'needs = "account"',
        'needs = "wallet"',
        "(payout.create).quotes: there is no fact 'wallet'",
    ),
    "a quote's template of nothing": (
        'path = "/v1/accounts/{account}", c',
        'path = "/v1/{x}", c',
        "quotes: there is no fact 'x'",
    ),
    "an object's path of nothing": ("/v1/payouts/{object}", "/v1/payouts/{id}", "object_path: there is no fact 'id'"),
    "a failure's bad pointer": ('"/status" = "failed"', 'status = "failed"', "(payout.create).failed_when: 'status'"),
    "an age of no length": (
        'min_age = "10s"',
        'min_age = "10 sec"',
        "(payout.create).min_age: '10 sec' is no duration",
    ),
    "a replay where no key is taken": (
        'methods = ["POST"]',
        'methods = ["PUT"]',
        "(payout.create).replay: the provider takes no key",
    ),
}


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_with_file_key_and_rule(old: str, new: str, said: str) -> None:
    assert GOOD.count(old) == 1

    with pytest.raises(BadAdapter) as wrong:
        load(GOOD.replace(old, new), "acme.toml")

    sentence = str(wrong.value)
    assert sentence.startswith("acme.toml: ")
    assert said in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_missing(folder: Path) -> str:
    return str(folder / "none.toml")


def of_other_bytes(folder: Path) -> str:
    (folder / "acme.toml").write_bytes(b"name = '\xff'")
    return str(folder / "acme.toml")


@pytest.mark.parametrize(("make", "said"), [(of_missing, "cannot be read"), (of_other_bytes, "not UTF-8")])
def test_a_file_that_cannot_be_read_is_named(make: Callable[[Path], str], said: str, tmp_path: Path) -> None:
    path = make(tmp_path)

    with pytest.raises(BadAdapter, match=said) as wrong:
        from_file(path)

    assert str(wrong.value).startswith(path)


def test_the_shipped_adapters_load_by_name_and_a_users_own_by_its_file(tmp_path: Path) -> None:
    own = tmp_path / "slack.toml"
    own.write_text(SMALL_TOML)

    loaded = load_all({"slack": str(own)} | dict.fromkeys(SHIPPED))

    assert set(loaded) == {"slack", *SHIPPED}
    assert loaded["stripe"].doc == shipped("stripe").doc


def test_a_provider_is_called_what_the_configuration_calls_it(tmp_path: Path) -> None:
    own = tmp_path / "slack.toml"
    own.write_text(SMALL_TOML)

    with pytest.raises(BadAdapter, match=r"provider\.name: it is 'slack', but the configuration calls it 'chat'"):
        load_all({"chat": str(own)})
