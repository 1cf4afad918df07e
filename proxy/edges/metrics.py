"""Every metric, in one place and on a registry of our own (CONTRACT 6). No IDs as labels; units last in the name.

Counters are this instance's. Gauges of shared state are read from the store, at most 15 s old, and equal on every
instance that exports them: `max by`, never `sum`.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from proxy import __version__
from proxy.core.events import Moment
from proxy.core.limits import Limit
from proxy.core.model import Action, Source
from proxy.edges import logs
from proxy.ports import ExposureRow, LimitUse

TYPES_MOST: Final = 200
_SHARED: Final = "State shared by all instances and equal on each: use max by, never sum."
_FINDINGS: Final = ("found", "several", "candidates", "absent", "unreadable")
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CERTAINTY: Final = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 259_200)


class Metrics:
    """The registry, and the Meter port on it.

    `providers` are exported at 0 from the start, and so are `types`: (provider, route's type).
    """

    def __init__(self, providers: Iterable[str], types: Iterable[tuple[str, str]] = ()) -> None:
        # A series more for each, which CONTRACT 6 does not name.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._types: set[str] = set()
        self._providers = tuple(providers)
        self._unknown_of: set[tuple[str, str]] = set()
        self._held_in: set[tuple[str, str]] = set()
        self._counters()
        self._gauges()
        self._durations()
        for provider in self._providers:
            self._zero(provider)
        for provider, kind in types:
            self._zero_type(provider, self.type_label(kind))

    def _counters(self) -> None:
        self.actions = self._counter(
            "actions", "Actions that came to a status.", "provider", "action_type", "status", "cause"
        )
        self.retries_blocked = self._counter(
            "retries_blocked",
            "Requests that were answered without sending, for an action stands in the way.",
            "provider",
            "action_type",
        )
        self.stored_answers = self._counter("stored_answers", "Stored answers of the provider given again.", "provider")
        self.provider_replays = self._counter(
            "provider_replays", "Replays sent by operators, by what they ended in.", "provider", "result"
        )
        self.readbacks = self._counter(
            "readbacks", "Readings of the provider's own record, by what was found.", "provider", "result"
        )
        self.late_responses = self._counter(
            "late_responses", "Responses after the action had become unknown.", "provider"
        )
        self.webhooks = self._counter("webhooks", "Webhook deliveries, by what became of them.", "provider", "result")

    def _gauges(self) -> None:
        self.unknown = self._gauge("unknown_actions", "Actions whose outcome is unknown.", "provider", "action_type")
        self.exposure = self._gauge(
            "unknown_exposure_minor_units",
            "Held for unknown actions, in minor units: it may have moved.",
            "provider",
            "currency",
        )
        self.unpriced = self._gauge(
            "unknown_unpriced_actions", "Unknown actions whose amount is not known.", "provider"
        )
        self.oldest = self._gauge(
            "unknown_oldest_timestamp_seconds",
            "Since when the oldest unknown action is unknown; 0 for none.",
            "provider",
        )
        self.needs_operator = self._gauge(
            "needs_operator_actions", "Unknown actions that only a person can settle.", "provider"
        )
        self.contradicted = self._gauge(
            "contradicted_actions", "Settled actions with evidence against them.", "provider"
        )
        self.readbacks_due = self._gauge("readbacks_due", "Read-backs that are due now.")
        self.window_closing = self._gauge(
            "replay_window_closing_actions", "Unknown actions whose replay window ends within an hour.", "provider"
        )
        self.limits = {
            part: self._gauge(
                f"limit_{part}_minor_units",
                f"What of a limit is {part} (a count where it counts).",
                "limit",
                "currency",
            )
            for part in ("cap", "consumed", "reserved", "unknown", "available")
        }
        self.sampled_at = self._gauge("state_sample_timestamp_seconds", "When the shared state was last read.")
        self.store_up = Gauge("doubtless_store_up", "1 while the store answers this instance.", registry=self.registry)
        self.spooled = Gauge(
            "doubtless_spool_observations",
            "Observations of this instance that the store has not taken yet.",
            registry=self.registry,
        )
        self.reloaded = Gauge(
            "doubtless_config_last_reload_successful",
            "1 where the last reading of the configuration was taken.",
            registry=self.registry,
        )
        self.reloaded.set(1)
        build = Gauge("doubtless_build_info", "The version that runs.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)

    def _durations(self) -> None:
        self.settlement = Histogram(
            "doubtless_settlement_duration_seconds",
            "From becoming unknown to being settled, by the evidence that settled it.",
            ("provider", "source"),
            buckets=_CERTAINTY,
            registry=self.registry,
        )
        self.proxy_seconds = Histogram(
            "doubtless_proxy_duration_seconds",
            "Time that a governed write spends in the proxy, the wait for the provider excluded.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.upstream_seconds = Histogram(
            "doubtless_upstream_duration_seconds",
            "Time that the provider takes to answer.",
            ("provider",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.store_seconds = Histogram(
            "doubtless_store_duration_seconds",
            "Round trips to the store.",
            ("op",),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"doubtless_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"doubtless_{name}", f"{text} {_SHARED}", labels, registry=self.registry)

    def _zero(self, provider: str) -> None:
        """Export a provider that is known, before anything has happened."""
        for counter in (self.stored_answers, self.late_responses, self.upstream_seconds):
            counter.labels(provider)
        for result in _FINDINGS:
            self.readbacks.labels(provider, result)
        for source in Source:
            self.settlement.labels(provider, source.value)
        for gauge in (self.unpriced, self.oldest, self.needs_operator, self.contradicted, self.window_closing):
            gauge.labels(provider).set(0)

    def _zero_type(self, provider: str, kind: str) -> None:
        self._unknown_of.add((provider, kind))
        self.unknown.labels(provider, kind).set(0)
        self.retries_blocked.labels(provider, kind)

    def type_label(self, route_type: str) -> str:
        """Return the route's type as a label; past 200 of them, `other`."""
        if route_type not in self._types:
            if len(self._types) >= TYPES_MOST:
                return "other"
            self._types.add(route_type)
        return route_type

    # ── The Meter port ────────────────────────────────────────────────────────────────────────────────────────────────

    def action(self, action: Action) -> None:
        """An action came to a new status."""
        logs.action_line(action)
        ident, cause = action.identity, action.cause
        self.actions.labels(
            ident.provider, self.type_label(ident.route), action.status.value, cause.value if cause is not None else ""
        ).inc()

    def blocked(self, action: Action) -> None:
        """A retry was answered without sending."""
        self.retries_blocked.labels(action.identity.provider, self.type_label(action.identity.route)).inc()

    def stored_answer(self, provider: str) -> None:
        """A stored response was replayed to the agent."""
        self.stored_answers.labels(provider).inc()

    def readback(self, provider: str, result: str) -> None:
        """A read-back ended."""
        self.readbacks.labels(provider, result).inc()

    def settled(self, action: Action, moment: Moment) -> None:
        """An unknown action was settled."""
        logs.settled_line(action)
        if action.unknown_since_ms is not None and action.settled_by is not None:
            took_s = max(0, moment.now_ms - action.unknown_since_ms) / 1000
            self.settlement.labels(action.identity.provider, action.settled_by.source.value).observe(took_s)

    def upstream(self, provider: str, seconds: float) -> None:
        """An exchange with the provider ended."""
        self.upstream_seconds.labels(provider).observe(seconds)

    def late(self, provider: str) -> None:
        """A response came after the action had become unknown."""
        self.late_responses.labels(provider).inc()

    # ── Shared state ──────────────────────────────────────────────────────────────────────────────────────────────────

    def sample(
        self,
        *,
        unknown: list[Action],
        needs_operator: list[Action],
        contradicted: list[Action],
        closing: list[Action],
        exposure: list[ExposureRow],
        due: int,
        now_ms: int,
    ) -> None:
        """Take over what was read from the store."""
        counts = Tally((a.identity.provider, self.type_label(a.identity.route)) for a in unknown)
        self._unknown_of |= set(counts)  # What was there once goes back to 0: a series that ends alarms nobody.
        for provider, kind in self._unknown_of:
            self.unknown.labels(provider, kind).set(counts[provider, kind])
        held: Tally[tuple[str, str]] = Tally()
        unpriced: Tally[str] = Tally()
        for row in exposure:
            if row.currency is None:
                unpriced[row.provider] += row.actions
            else:
                held[row.provider, row.currency] += row.amount
        self._held_in |= set(held)
        for provider, currency in self._held_in:
            self.exposure.labels(provider, currency).set(held[provider, currency])
        for provider in {*self._providers, *(a.identity.provider for a in (*unknown, *contradicted))}:
            self.unpriced.labels(provider).set(unpriced[provider])
            since = [a.unknown_since_ms or 0 for a in unknown if a.identity.provider == provider]
            self.oldest.labels(provider).set(min(since, default=0) / 1000)
            self.needs_operator.labels(provider).set(_count(needs_operator, provider))
            self.contradicted.labels(provider).set(_count(contradicted, provider))
            self.window_closing.labels(provider).set(_count(closing, provider))
        self.readbacks_due.set(due)
        self.sampled_at.set(now_ms / 1000)

    def sample_limits(self, limits: Mapping[str, Limit], uses: Iterable[LimitUse]) -> None:
        """Take over the use of the limits."""
        for use in uses:
            limit = limits[use.name]
            taken = use.consumed + use.reserved + use.unknown
            values = {
                "cap": limit.cap,
                "consumed": use.consumed,
                "reserved": use.reserved,
                "unknown": use.unknown,
                "available": max(0, limit.cap - taken),
            }
            for part, value in values.items():
                self.limits[part].labels(use.name, limit.currency or "").set(value)

    def text(self) -> bytes:
        """Return the exposition."""
        return generate_latest(self.registry)


def _count(actions: list[Action], provider: str) -> int:
    return sum(1 for action in actions if action.identity.provider == provider)
