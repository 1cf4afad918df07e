"""The adapters that tests ask: the shipped ones, a provider of which nothing but its host is known, and small ones."""

from typing import Final

from proxy.core.adapter import Adapter
from proxy.core.facts import Document, Key, Provider, Route
from proxy.core.facts_file import load
from proxy.edges.adapter_files import SHIPPED, shipped

STRIPE: Final = shipped("stripe")
RESEND: Final = shipped("resend")
ALL: Final = tuple(shipped(name) for name in SHIPPED)
HOST_ONLY: Final = Adapter(
    Document(schema=1, provider=Provider(name="acme", hosts=("api.acme.example",), upstream="https://api.acme.example"))
)

SMALL_TOML: Final = """
schema = 1

[provider]
name = "slack"
hosts = ["slack.com"]
upstream = "https://slack.com"

[mark]
headers = ["X-Slack-Req-Id"]
source = "a page, read 2026-11-30"

[[outcome]]
json = { "/ok" = false, "/error" = ["fatal_error", "internal_error"] }
means = "unknown"
source = "a page, read 2026-11-30"

[[outcome]]
status = [200]
json = { "/ok" = false }
means = "rejected"
source = "a page, read 2026-11-30"

[[outcome]]
status = [202]
json = { "/state" = ["queued", "running"] }
means = "not_terminal"
source = "a page, read 2026-11-30"

[[outcome]]
status = [207]
header = { "X-Result" = "some" }
means = "partial"
source = "a page, read 2026-11-30"

[[action]]
type = "message.post"
method = "POST"
path = "/api/chat.postMessage"
effect = "message"
object_id = "/ts"
amount = { value = "/price", currency = "/currency", unit = "major" }
settle_within = "1h"
"""
THINGS_TOML: Final = """
schema = 1

[provider]
name = "things"
hosts = ["things.example"]
upstream = "https://things.example"

[key]
header = "Idempotency-Key"
max_length = 64
retention = "24h"
where = [{ methods = ["POST"], path = "/*" }]
source = "a page, read 2026-11-30"

[[outcome]]
status = [409]
json = { "/code" = "exists" }
means = "accepted"
source = "a page, read 2026-11-30"

[read.by_key]
kind = "scan"
path = "/by-key/{key}"
items = "/data"
identity = "/key"
source = "a page, read 2026-11-30"

[read.alike]
kind = "similar"
path = "/things"
query = { owner = "{owner}" }
items = "/data"
source = "a page, read 2026-11-30"

[read.one]
kind = "object"
source = "a page, read 2026-11-30"

[[action]]
type = "thing.make"
method = "POST"
path = "/things"
tier = "reconcilable"
facts = { owner = "/owner" }
object_id = "/id"
same = { "/owner" = "owner" }
readback = ["by_key", "alike"]

[[action]]
type = "thing.start"
method = "POST"
path = "/jobs"
tier = "partial"
object_id = "/id"
object_path = "/jobs/{object}"
failed_when = { "/state" = "failed" }
readback = ["one"]
"""
THINGS: Final = Adapter(load(THINGS_TOML, "things.toml"))
SLACK: Final = Adapter(load(SMALL_TOML, "slack.toml"))


def route(adapter: Adapter, type_: str) -> Route:
    """Return a route that is there, and not the generic one."""
    found = adapter.route(f"{adapter.name}.{type_}")
    assert found.type == type_
    return found


def key_of(adapter: Adapter) -> Key:
    """Return the key rule of a provider that has one."""
    assert adapter.doc.key is not None
    return adapter.doc.key
