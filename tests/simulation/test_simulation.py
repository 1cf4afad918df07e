"""Two thousand seeds: whatever happens, what must hold holds; and everything that can happen does.

`make simulate SEEDS=100000` runs more; `python -m tests.simulation --seed N --trace` tells one seed's story.
"""

from collections import Counter
from typing import Final

import pytest

from tests.simulation.chaos import TROUBLES
from tests.simulation.weather import CONNECTIONS, READS, STORE, WRITES
from tests.simulation.world import run

SEEDS: Final = 2_000
FORGETFUL: Final = 200
CHUNK: Final = 50
FAULTS: Final = {
    *(f"write: {fate}" for fate in WRITES),
    *(f"connection: {fate}" for fate in CONNECTIONS),
    *(f"read: {fate}" for fate in READS),
    *(f"store: {fate}" for fate in STORE),
    *(f"trouble: {trouble}" for trouble in TROUBLES),
    *("crash at a call", "pause at a call", "send_before had passed", "spooled"),
    *("agent: connection lost", "agent: hang-up", "agent: lost answer", "agent: other words"),
    *("operator: reconcile", "operator: note", "operator: right, happened", "operator: right, failed"),
    *("operator: wrong, happened", "operator: wrong, failed", "operator: replay, answered", "operator: replay, 401"),
    *("operator: replay, lost", "operator: replay, 500", "operator: replay, middlebox"),
}
OUTCOMES: Final = {
    *(f"became: confirmed {source}" for source in ("response", "late_response", "read_back", "replay", "manual")),
    *("became: failed not_sent transport", "became: failed not_executed response", "became: failed rejected response"),
    *("became: failed manual manual", "became: failed limit_exhausted", "became: failed amount_undeterminable"),
    *(
        f"became: denied_unresolved {cause}"
        for cause in ("timeout", "connection_lost", "server_error", "proxy_restart")
    ),
    *(f"became: denied_unresolved {cause}" for cause in ("idempotent_conflict", "key_reused", "malformed_response")),
    *(f"became: denied_unresolved {cause}" for cause in ("unrecognised_response", "shutdown")),
    *(f"read back: {finding}" for finding in ("found", "absent", "candidates", "several", "unreadable")),
    *(f"flag: {flag}" for flag in ("contradicted", "duplicate_suspected", "needs_operator", "prior_execution")),
    *(f"answer: {code}" for code in ("outcome_unknown", "action_in_flight", "suspected_duplicate", "already_settled")),
    *(f"answer: {code}" for code in ("payload_mismatch", "retry_of_required", "limit_exhausted", "not_sent")),
    *("answer: amount_undeterminable", "answer: store_unavailable", "answer: draining"),
    *("answer: 200", "answer: stored 200", "answer: 400", "answer: stored 400", "answer: 401", "answer: 402"),
    *("answer: 429", "flag: askers_gone"),
}


@pytest.mark.parametrize("first", range(1, SEEDS, CHUNK))
def test_what_must_hold_holds(first: int) -> None:
    broken = [one for seed in range(first, first + CHUNK) if (one := run(seed)).broken is not None]
    assert [f"seed {one.seed}: {one.broken}" for one in broken] == []


@pytest.mark.parametrize("first", range(1, FORGETFUL, CHUNK))
def test_a_store_that_forgets_makes_nobody_call_done_what_was_not(first: int) -> None:
    broken = [one for seed in range(first, first + CHUNK) if (one := run(seed, forgets=True)).broken is not None]
    assert [f"seed {one.seed}: {one.broken}" for one in broken] == []


def test_everything_that_can_happen_does() -> None:
    happened = Counter[str]()
    for seed in range(1, SEEDS + 1):
        happened.update(run(seed).tally)
        if {*FAULTS, *OUTCOMES} <= set(happened):
            break
    assert {*FAULTS, *OUTCOMES} - set(happened) == set()
