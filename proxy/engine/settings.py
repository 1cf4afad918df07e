"""What the engine is told by the configuration, as plain values."""

from msgspec import Struct

from proxy.core.limits import Limit


class Settings(Struct, frozen=True):
    """Times in milliseconds; the defaults are CONTRACT 6's."""

    instance: str
    ledger: str = "default"
    connect_ms: int = 5_000
    answer_ms: int = 25_000
    harvest_ms: int = 120_000
    lease_ms: int = 10_000
    retry_window_ms: int = 20 * 3_600_000
    twin: bool = True
    derive: bool = True  # event.missing
    event_headers: tuple[str, ...] = ("Doubtless-Event-Id",)
    readback_first_ms: int = 30_000
    readback_max_ms: int = 3_600_000
    readback_attempts: int = 12
    min_age_ms: dict[str, int] = {}  # provider → instead of the adapter's
    same_credentials: dict[str, tuple[frozenset[str], ...]] = {}
    read_keys: dict[str, dict[str, str]] = {}  # provider → account ("" for any) → credential
    limits: tuple[Limit, ...] = ()
    quote_answer_ms: int = 500  # How long an answer waits for the price of what became unknown.
    kept_body_bytes: int = 256 << 10  # A larger request is not kept for a replay.
