"""The stand-in provider: Stripe and Resend on a socket, honest, with faults on demand. One for tests, demo and sandbox.

server        StandIn: the handle; `doors` (listening sockets), `control` (the same handle over HTTP, /_standin/)
connection    one connection, byte for byte; `wire` (HTTP/1.1), `exchange` (a request's stages), `delivery` (how an
              answer leaves), `faults` (what can go wrong, where, for whom), `journal` (what arrived)
provider      what the server needs of a provider; `keys` (idempotency)
stripe        `stripe_world` (objects, events), `stripe_money`, `stripe_intents`, `stripe_records`, `stripe_reads`,
              `stripe_forms`, `stripe_errors`
resend        `resend_mail` (emails, logs)
scenes        what happens without a request: foreign objects, twins, later changes; `webhooks` (signed deliveries)

"Facts" in the comments is the research behind the product's adapters; the page it names was read on 2026-11-30.
Where the documentation is silent the stand-in takes the less kind reading: what it hides, no test would find.
"""

from proxy.edges.standin.doors import Listener
from proxy.edges.standin.faults import Chunk, Fault, Kind
from proxy.edges.standin.journal import Arrival, Journal
from proxy.edges.standin.server import StandIn
from proxy.edges.standin.wire import Framing

__all__ = ["Arrival", "Chunk", "Fault", "Framing", "Journal", "Kind", "Listener", "StandIn"]
