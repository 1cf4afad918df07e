"""The same questions, asked of every adapter that is shipped."""

import itertools
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxy.core.adapter import Adapter
from proxy.core.durations import parse_ms
from proxy.core.facts import Means, Outcome, ReadKind, Route
from proxy.core.http import Answered, Integrity
from proxy.core.model import Cause, Effect, Tier
from proxy.core.readback import fill
from proxy.core.verdict import Accepted, Rejected, Unclear, Verdict, of_dispatch
from tests.core.pure_adapters import ALL
from tests.core.pure_http import answered

UNPRICEABLE = {"stripe.subscription.create"}  # What a subscription moves, no read tells: a limit on money refuses it.
REJECTIONS = (Means.REJECTED, Means.REJECTED_BEFORE_EXECUTION, Means.ALREADY_DONE, Means.NOT_EXECUTED)
CERTAIN = (*REJECTIONS, Means.ACCEPTED, Means.PARTIAL)
OPEN = (*range(100, 200), *range(300, 400), 408, 409, 425, *range(500, 600))
SENTENCE = {
    Means.REJECTED: Rejected(),
    Means.REJECTED_BEFORE_EXECUTION: Rejected(before_execution=True),
    Means.ALREADY_DONE: Rejected(already_done=True),
    Means.NOT_EXECUTED: Rejected(not_executed=True),
    Means.IN_CONFLICT: Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True),
    Means.KEY_REUSED: Unclear(Cause.KEY_REUSED, delivered=True),
    Means.UNKNOWN: Unclear(Cause.UNRECOGNISED_RESPONSE),
}

every = pytest.mark.parametrize("adapter", ALL, ids=[adapter.name for adapter in ALL])


def examples(rule: Outcome) -> list[dict[str, Any]]:
    """Return a body for each of the values that the rule names."""
    options = [[(pointer, value) for value in _listed(want)] for pointer, want in rule.json.items()]
    return [_body(dict(chosen)) for chosen in itertools.product(*options)]


def _listed(want: object) -> list[object]:
    return want if isinstance(want, list) else [want]


def _body(values: dict[str, object]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for pointer, value in values.items():
        *above, last = pointer.split("/")[1:]
        here = body
        for step in above:
            here = here.setdefault(step, {})
        here[last] = value
        if last == "*":
            raise AssertionError("no rejection hangs on an item of a list")
    return body


def bears_mark(adapter: Adapter, status: int, body: object, integrity: Integrity = Integrity.WHOLE) -> Answered:
    assert adapter.doc.mark is not None
    further = [(name.encode(), b"1") for name in adapter.doc.mark.headers[:1]]
    return answered(status, body, *further, integrity=integrity)


def verdicts(adapter: Adapter, answer: Answered, *, keyed: bool = True) -> set[Verdict]:
    return {of_dispatch(answer, adapter, route, keyed=keyed) for route in adapter.doc.action}


def sample(path: str) -> str:
    return re.sub(r"\{[a-z_]+\}", "id_1", path)


def facts_of(route: Route) -> dict[str, str]:
    """Return a value for everything that a request of this route may tell."""
    parameters = [name for path in route.paths for name in re.findall(r"\{([a-z_]+)\}", path)]
    return dict.fromkeys([*parameters, *route.facts], "id_1")


@every
class TestEveryAdapter:
    def test_cites_page_and_date_for_each_fact_that_safety_rests_on(self, adapter: Adapter) -> None:
        doc = adapter.doc
        assert doc.mark is not None
        assert doc.key is not None
        cited = [doc.mark.source, doc.key.source, *(rule.source for rule in doc.outcome)]
        cited += [read.source for read in doc.read.values()] + ([doc.account.source] if doc.account else [])

        for source in cited:
            assert re.search(r"https://\S+\.\S+.*, read 20\d\d-\d\d-\d\d", source), source

    def test_is_certain_of_no_status_that_leaves_it_open(self, adapter: Adapter) -> None:
        for rule in adapter.doc.outcome:
            if rule.means in CERTAIN:
                assert rule.status, f"{rule} says nothing of the status"
                assert not set(rule.status) & set(OPEN)

    def test_stays_unknown_where_its_own_words_come_with_another_status(self, adapter: Adapter) -> None:
        for rule, status in itertools.product(adapter.doc.outcome, OPEN):
            if rule.means in REJECTIONS:
                for body in examples(rule):
                    assert all(isinstance(v, Unclear) for v in verdicts(adapter, bears_mark(adapter, status, body)))

    def test_reads_its_own_documented_answers_as_it_says(self, adapter: Adapter) -> None:
        for rule in adapter.doc.outcome:
            if rule.means in SENTENCE:
                for status, body in itertools.product(rule.status, examples(rule)):
                    assert verdicts(adapter, bears_mark(adapter, status, body)) == {SENTENCE[rule.means]}, (rule, body)

    def test_rejects_nothing_that_is_not_whole(self, adapter: Adapter) -> None:
        broken = [kind for kind in Integrity if kind is not Integrity.WHOLE]
        for rule, integrity in itertools.product(adapter.doc.outcome, broken):
            for status, body in itertools.product(rule.status, examples(rule) if rule.means in REJECTIONS else []):
                found = verdicts(adapter, bears_mark(adapter, status, body, integrity))
                assert found == {Unclear(Cause.UNRECOGNISED_RESPONSE)}

    def test_is_certain_of_nothing_in_a_body_of_nobodys_shape(self, adapter: Adapter) -> None:
        shapeless: list[object] = [b"", b"<html>", b"[]", b'"no"', {"message": "no"}]
        statuses = {s for rule in adapter.doc.outcome if rule.means in REJECTIONS for s in rule.status}
        for status, body in itertools.product(statuses, shapeless):
            assert not any(isinstance(v, Rejected) for v in verdicts(adapter, bears_mark(adapter, status, body)))
            assert not any(isinstance(v, Accepted) for v in verdicts(adapter, answered(200, body)))

    def test_can_replay_only_where_the_provider_takes_a_key_and_keeps_it(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            if route.replay:
                assert all(adapter.takes_key(route.method, sample(path)) is not None for path in route.paths), (
                    route.type
                )
        key = adapter.doc.key
        assert key is not None
        assert (parse_ms(key.retention) or 0) > (parse_ms(key.margin) or 0) > 0

    def test_fills_every_template_with_what_a_request_tells(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            facts = facts_of(route) | {"object": "id_1", "key": "k", "since": "1", "events": "e"}
            templates = [route.object_path, *(quote.path for quote in route.quotes)]
            for read in (adapter.doc.read[name] for name in route.readback):
                templates += [read.path, read.detail]
            for template in templates:
                filled = fill(template, facts)
                assert filled is not None, (route.type, template)
                assert "{" not in filled

    def test_asks_its_lists_by_facts_that_some_request_tells(self, adapter: Adapter) -> None:
        for name, read in adapter.doc.read.items():
            users = [route for route in adapter.doc.action if name in route.readback]
            known = {"key", "since", "events"}.union(*(facts_of(route) for route in users))
            asked = {place for template in read.query.values() for place in re.findall(r"\{(\w+)\}", template)}
            assert asked <= known, name

    def test_says_what_money_moves_or_that_a_limit_must_refuse_it(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            if route.effect is Effect.MONEY and not (route.amount or route.quotes):
                assert f"{adapter.name}.{route.type}" in UNPRICEABLE
            if route.amount is not None and not route.amount.currency:
                assert any(quote.currency for quote in route.quotes), f"{route.type} has no currency"

    def test_promises_no_tier_that_it_cannot_keep(self, adapter: Adapter) -> None:
        for route in [*adapter.doc.action, *([adapter.doc.generic] if adapter.doc.generic else [])]:
            kinds = {adapter.doc.read[name].kind for name in route.readback}
            if route.tier is Tier.FULL:
                assert route.echo, route.type
                assert ReadKind.SCAN in kinds, route.type
            elif route.tier is Tier.RECONCILABLE:
                assert kinds & {ReadKind.SCAN, ReadKind.CONTENT}, route.type
            elif route.tier is Tier.PARTIAL:
                assert ReadKind.OBJECT in kinds, route.type
            else:
                assert not kinds, route.type
            if route.same_shape:
                assert route.object_path, route.type
            if ReadKind.CONTENT in kinds:
                assert route.content, route.type
                assert route.effect is Effect.MESSAGE, route.type

    def test_names_exact_hosts_and_one_of_them_over_tls(self, adapter: Adapter) -> None:
        for host in adapter.doc.provider.hosts:
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", host)
        upstream = urlsplit(adapter.doc.provider.upstream)
        assert upstream.scheme == "https"
        assert upstream.hostname in adapter.doc.provider.hosts
        assert (upstream.path, upstream.query) == ("", "")

    def test_knows_each_of_its_routes_by_every_spelling(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            for path in route.paths:
                match = adapter.match(route.method, sample(path))
                assert (match.route, match.generic) == (route, False)
                assert adapter.route(match.route_type) is route

    def test_sends_nothing_governed_past_its_harmless_routes(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            if route.harmless:
                assert route.amount is None
                assert not route.readback
                assert route.effect is Effect.RECORD

    def test_tells_its_sdks_what_to_write(self, adapter: Adapter) -> None:
        assert adapter.doc.provider.sdk_lines
        for line in adapter.doc.provider.sdk_lines.values():
            assert "{base}" in line or ("{host}" in line and "{port}" in line)

    def test_names_each_event_for_one_purpose(self, adapter: Adapter) -> None:
        for route in adapter.doc.action:
            named = [*route.events, *route.failed_events]
            assert len(named) == len(set(named)), route.type
            assert not route.failed_events or route.events, route.type
