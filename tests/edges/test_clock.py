"""Time as values, the store's time as an estimate, and identifiers that are not guessed."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.edges.clock import SystemClock, SystemEntropy

MS = 1_000_000
WALL_MS = 1_790_000_000_000
STORE_MS = 1_800_000_000_000


class Hands:
    """A clock's hands, moved by the test; the store's clock is STORE_MS ahead of the monotonic one."""

    def __init__(self) -> None:
        self.monotonic_ms = 10_000
        self.clock = SystemClock(lambda: self.monotonic_ms * MS, lambda: WALL_MS * MS)

    def ask(self, *, there_ms: int, back_ms: int, ahead_ms: int = STORE_MS) -> None:
        asked = self.monotonic_ms
        self.monotonic_ms += there_ms
        said = ahead_ms + self.monotonic_ms
        self.monotonic_ms += back_ms
        self.clock.heard(said, asked)

    @property
    def error_ms(self) -> int:
        return self.clock.store_ms() - (STORE_MS + self.monotonic_ms)


def test_the_machines_clocks_are_in_milliseconds() -> None:
    clock = Hands().clock

    assert (clock.monotonic_ms(), clock.wall_ms()) == (10_000, WALL_MS)


def test_the_real_clocks_run() -> None:
    clock = SystemClock()

    assert 0 < clock.monotonic_ms() <= clock.monotonic_ms()
    assert clock.wall_ms() > WALL_MS - 400 * 86_400_000


def test_until_the_store_was_heard_its_time_is_taken_for_ours() -> None:
    hands = Hands()
    assert hands.clock.store_ms() == WALL_MS

    hands.ask(there_ms=0, back_ms=0, ahead_ms=-5_000)

    assert hands.clock.store_ms() == 5_000  # Ours was ahead by years, and holds nothing back.


def test_the_store_is_taken_to_have_answered_midway() -> None:
    hands = Hands()
    hands.ask(there_ms=20, back_ms=20)
    assert hands.error_ms == 0

    hands.monotonic_ms += 1_000
    assert hands.error_ms == 0


def test_the_shortest_round_trip_of_the_last_minute_counts() -> None:
    hands = Hands()
    hands.ask(there_ms=1, back_ms=1)
    hands.ask(there_ms=0, back_ms=400)
    assert hands.error_ms == 0

    hands.monotonic_ms += 61_000
    hands.ask(there_ms=0, back_ms=40)
    assert hands.error_ms == -20


def test_of_two_that_are_as_short_the_later_counts() -> None:
    hands = Hands()
    hands.ask(there_ms=1, back_ms=1)
    hands.ask(there_ms=1, back_ms=1, ahead_ms=STORE_MS + 5)

    assert hands.error_ms == 5


def test_a_store_whose_clock_was_set_forward_is_believed_at_once() -> None:
    hands = Hands()
    hands.ask(there_ms=1, back_ms=1)
    hands.ask(there_ms=10, back_ms=10, ahead_ms=STORE_MS + 3_600_000)

    assert hands.error_ms == 3_600_000


def test_a_store_whose_clock_was_set_back_stands_still_until_it_has_caught_up() -> None:
    hands = Hands()
    hands.ask(there_ms=1, back_ms=1)
    before = hands.clock.store_ms()
    hands.ask(there_ms=1, back_ms=1, ahead_ms=STORE_MS - 1_000)
    assert hands.clock.store_ms() == before

    hands.monotonic_ms += 2_000
    assert hands.error_ms == -1_000


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 90_000)), max_size=60))
def test_the_estimate_is_never_off_by_more_than_half_the_shortest_round_trip_and_never_goes_back(
    trips: list[tuple[int, int, int]],
) -> None:
    hands, last = Hands(), 0
    for there_ms, back_ms, pause_ms in trips:
        hands.ask(there_ms=there_ms, back_ms=back_ms)
        assert abs(hands.error_ms) <= 500
        assert hands.clock.store_ms() >= last
        last = hands.clock.store_ms()
        hands.monotonic_ms += pause_ms


@pytest.mark.parametrize("now_ms", [0, STORE_MS, (1 << 48) - 1])
def test_an_action_id_is_a_uuid_of_version_7_that_tells_its_time(now_ms: int) -> None:
    made = uuid.UUID(text := SystemEntropy().action_id(now_ms))

    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, now_ms)
    assert text == str(made)


def test_action_ids_sort_by_time_and_differ_in_all_74_bits() -> None:
    entropy = SystemEntropy()
    ids = [uuid.UUID(entropy.action_id(STORE_MS)).int for _ in range(200)]
    ever_one, ever_zero = 0, 0
    for made in ids:
        ever_one |= made
        ever_zero |= ~made

    assert len(set(ids)) == 200
    assert (ever_one & ever_zero & ((1 << 128) - 1)).bit_count() == 74
    assert entropy.action_id(STORE_MS) < entropy.action_id(STORE_MS + 1)


def test_a_token_has_16_hexadecimal_digits() -> None:
    tokens = {SystemEntropy().token() for _ in range(100)}

    assert len(tokens) == 100
    assert {len(bytes.fromhex(token)) for token in tokens} == {8}
