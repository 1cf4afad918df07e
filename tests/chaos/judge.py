"""The judge: holds what the store says and what agents were told against the provider's own journal.

It knows nothing of how the product works: executions are counted where they happen.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from tests.chaos.story import Arrival, Errand, Evidence, Told

SENT_AGAIN_AFTER: Final = (425, 429)  # "I did not execute it": the only answers after which a key may come again.
_DENIED: Final = "denied_unresolved"


def judge(evidence: Evidence) -> list[str]:
    """Return every violation, each with its story; none: all that was promised held."""
    found: list[str] = []
    case = _Case(evidence)
    for question in (
        case.executed_twice,
        case.sent_again,
        case.without_action,
        case.untrue_states,
        case.not_settled,
        case.untrue_answers,
        case.forgotten,
        case.wrong_exposure,
        case.wrong_limits,
    ):
        found += question()
    return found


class _Case:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._by_key: dict[str, list[Arrival]] = defaultdict(list)
        self._by_errand: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in evidence.arrivals:
            self._by_errand[arrival.errand].append(arrival)
            if arrival.key is not None:
                self._by_key[arrival.key].append(arrival)
        self._actions = {action["action_id"]: action for action in evidence.actions}
        self._by_their_key = {action["idempotency_key"]: action for action in evidence.actions}
        self._errands = {errand.name: errand for errand in evidence.errands}

    def executed_twice(self) -> Iterator[str]:
        for name, arrivals in self._by_errand.items():
            if len(executed := [arrival for arrival in arrivals if arrival.executed]) > 1:
                yield self._story(f"executed {len(executed)} times", name)

    def sent_again(self) -> Iterator[str]:
        for key, arrivals in self._by_key.items():
            for earlier, later in pairwise(arrivals):
                if earlier.executed or earlier.status not in SENT_AGAIN_AFTER:
                    yield self._story(f"key {key} was sent again", later.errand)

    def without_action(self) -> Iterator[str]:
        for arrival in self._evidence.arrivals:
            if arrival.executed and arrival.key not in self._by_their_key:
                yield self._story(f"an execution under key {arrival.key} has no action", arrival.errand)

    def untrue_states(self) -> Iterator[str]:
        for action in self._evidence.actions:
            executed = self._executed(action)
            match action["status"]:
                case "confirmed" if not executed:
                    yield self._story("confirmed, and not executed", self._errand(action))
                case "failed" if executed:
                    yield self._story("called failed, and executed", self._errand(action))
                case _ if action["contradicted"]:
                    yield self._story("contradicted, and the provider never lied", self._errand(action))

    def not_settled(self) -> Iterator[str]:
        for action in self._evidence.actions:
            if action["status"] == "pending":
                yield self._story("still in flight", self._errand(action))
            elif action["status"] == _DENIED and self._executed(action):
                yield self._story("executed, readable, and not settled", self._errand(action))

    def untrue_answers(self) -> Iterator[str]:
        for errand in self._evidence.errands:
            for told in errand.told:
                if why := self._untrue(told):
                    yield self._story(f"{told.label} was told at {told.ended_ms}, and {why}", errand.name)
            done = [arrival for arrival in self._by_errand[errand.name] if arrival.executed]
            if done and errand.told and all(told.retry == "safe" for told in errand.told):
                yield self._story("only `safe` was told, and it was executed", errand.name)

    def _untrue(self, told: Told) -> str | None:
        """Say why an answer was not true when it was given; a 503 speaks of its own request only."""
        before = [a for a in self._by_errand[told.errand] if a.executed and a.at_ms <= told.ended_ms]
        if told.status is not None and 200 <= told.status < 300:
            return None if told.object_id in {a.object_id for a in before} else "no such object was made"
        if told.says == "confirmed" and not before:
            return "nothing was executed"
        denies = told.says == "failed" or (told.retry == "safe" and told.status != 503)
        named = self._actions.get(told.action_id or "")
        its = before if named is None else [a for a in before if a.key == named["idempotency_key"]]
        return "it was executed before that" if denies and its else None

    def forgotten(self) -> Iterator[str]:
        for errand in self._evidence.errands:
            for told in errand.told:
                if told.action_id is not None and told.action_id not in self._actions:
                    yield self._story(f"{told.action_id} was named, and nobody knows it", errand.name)

    def wrong_exposure(self) -> Iterator[str]:
        held: Counter[tuple[str, str, str]] = Counter()
        for action in self._evidence.actions:
            if action["status"] == _DENIED and action["currency"]:  # Without a currency it is held as unpriced.
                held[action["provider"], action["account"], action["currency"]] += action["amount"] or 0
        shown = {(r["provider"], r["account"], r["currency"] or ""): r["amount"] for r in self._evidence.exposure}
        if {k: v for k, v in held.items() if v} != {k: v for k, v in shown.items() if v}:
            yield f"EXPOSURE shown {shown}, and unresolved are {dict(held)}"
        count = sum(row["actions"] for row in self._evidence.exposure)
        unresolved = sum(a["status"] == _DENIED and a["effect"] == "money" for a in self._evidence.actions)
        if count != unresolved:
            yield f"EXPOSURE counts {count} actions, and {unresolved} are unresolved"

    def wrong_limits(self) -> Iterator[str]:
        for row in self._evidence.limits:
            mine = [a for a in self._evidence.actions if a["route"].startswith(row["match"].rstrip("*"))]
            due = {
                "consumed": _sum(a for a in mine if a["status"] == "confirmed"),
                "unknown": _sum(a for a in mine if a["status"] == _DENIED),
                "reserved": 0,
            }
            if due != {name: row[name] for name in due}:
                yield f"LIMIT {row['name']} shows {row}, and the actions make {due}"

    def _executed(self, action: Mapping[str, Any]) -> list[Arrival]:
        return [arrival for arrival in self._by_key[action["idempotency_key"]] if arrival.executed]

    def _errand(self, action: Mapping[str, Any]) -> str:
        """Return what an action was for: as the provider saw it, else as an agent was told."""
        for arrival in self._by_key[action["idempotency_key"]]:
            return arrival.errand
        told = (t for errand in self._evidence.errands for t in errand.told)
        return next((t.errand for t in told if t.action_id == action["action_id"]), action["event_id"])

    def _story(self, verdict: str, name: str) -> str:
        """Tell all that is known of an errand, in the order in which it happened."""
        errand = self._errands.get(name, Errand(name, "?", None))
        arrivals = self._by_errand[name]
        keys = {arrival.key for arrival in arrivals}
        ids = {told.action_id for told in errand.told}
        lines = [(a.at_ms, f"provider {_shown(a)}") for a in arrivals]
        lines += [(t.asked_ms, f"agent    asks {t.where}") for t in errand.told]
        lines += [(t.ended_ms, f"agent    is told {t.label} ({t.says}, {t.retry}, {t.action_id})") for t in errand.told]
        for action in self._evidence.actions:
            if action["idempotency_key"] in keys or action["action_id"] in ids or action["event_id"] == errand.event:
                lines.append((1 << 60, f"store    {_state(action)}"))
        told = "\n".join(f"    {at if at < 1 << 60 else '(end)':<14} {line}" for at, line in sorted(lines))
        return f"{verdict.upper()}: {name}, a {errand.kind}, event {errand.event}\n{told}"


def _sum(actions: Iterable[Mapping[str, Any]]) -> int:
    return sum(action["amount"] or 0 for action in actions)


def _shown(arrival: Arrival) -> str:
    done = f"executed {arrival.object_id}" if arrival.executed else "executed nothing"
    return f"{done}, answers {arrival.status}, fault {arrival.fault}, key {arrival.key}"


def _state(action: Mapping[str, Any]) -> str:
    pieces = [f"{e['at'][17:]} {e['source']}:{e['verdict']} {e['detail'] or ''}".strip() for e in action["evidence"]]
    state = f"{action['status']}/{action['delivery']}/{action['acceptance']} {action['cause'] or ''}"
    return f"{action['action_id']} run {action['run']} {state} made {action['created_at'][17:]}: {'; '.join(pieces)}"
