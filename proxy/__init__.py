"""Doubtless, the reconciliation sidecar for AI agents: a map of the rooms.

app, cli, demo    build each thing once, start, drain; the commands; the story of a lost answer
config            settings, or every complaint at once
edges/            sockets, Redis, clocks, TLS, metrics, pages: `agents` (the agent's side), `upstream` (the provider's),
                  `store/` (commit.lua and its client), `admin`, `vault`, `spool`, `archive`,
                  `standin/` (the stand-in provider)
engine            one governed write from its first commit to its answer; every await of the product's logic
reconciler        what is due: read-backs, the pending actions of the dead, the spool
ports             what those two need of the world, as Protocols
core/             every decision, as values and functions: `lifecycle` (all states and transitions), `verdict` (what a
                  response proves), `second` (a second request), `identity`, `readback`, `answers`, `money`, `adapter`
../adapters/      facts about providers, in TOML; their schema is core/facts

A floor imports only from those below it. A change of behaviour starts in core/, with its row in a test's table.
"""

__version__ = "0.1.0"
