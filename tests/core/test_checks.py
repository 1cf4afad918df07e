"""The judgements of `doctor` that are no store's: every row, as values."""

import pytest

from proxy.core import checks
from proxy.core.checks import Level

DAY = 86_400_000
NOW = 1_790_000_000_000
KEEP = 400 * DAY


@pytest.mark.parametrize(
    ("known", "level"),
    [
        ({}, Level.GOOD),
        ({"new": NOW}, Level.GOOD),
        ({"old": NOW}, Level.GOOD),
        ({"old": NOW, "new": NOW}, Level.GOOD),
        ({"strange": NOW}, Level.BAD),
        ({"strange": NOW - KEEP - 1}, Level.BAD),
        ({"old": NOW, "strange": NOW}, Level.WARNING),
        ({"old": NOW, "strange": NOW - KEEP + 1}, Level.WARNING),
        ({"old": NOW, "strange": NOW - KEEP}, Level.GOOD),
    ],
)
def test_a_key_is_judged_by_those_that_the_ledger_was_written_with(known: dict[str, int], level: Level) -> None:
    found = checks.state_key(("new", "old"), known, NOW, KEEP)
    assert (found.level, found.stops) == (level, level is Level.BAD)


def test_a_key_that_is_left_out_is_told_with_the_day_on_which_it_was_last_taken_up() -> None:
    found = checks.state_key(("a",), {"a": 0, "b": NOW - DAY, "c": NOW}, NOW, KEEP)
    assert "2 further keys" in found.found
    assert "2026-09-21" in found.found


@pytest.mark.parametrize(
    ("mode", "is_token", "level"),
    [
        (0o600, True, Level.GOOD),
        (0o400, True, Level.GOOD),
        (0o640, True, Level.WARNING),
        (0o644, True, Level.BAD),
        (0o604, True, Level.BAD),
        (0o644, False, Level.WARNING),
        (0o622, True, Level.GOOD),
        (None, True, Level.UNVERIFIABLE),
    ],
)
def test_a_secret_s_file_is_judged_by_who_may_read_it(mode: int | None, is_token: bool, level: Level) -> None:
    found = checks.secret_file("admin.tokens[0].token[0]", "/t", mode, is_token=is_token)
    assert (found.level, "chmod 600 /t" in found.do) == (level, level is not Level.GOOD)


def test_a_spool_without_room_is_a_warning_and_one_that_refuses_is_bad() -> None:
    assert checks.spool("s", None, 64 << 20).level == Level.GOOD
    assert checks.spool("s", None, (64 << 20) - 1).level == Level.WARNING
    assert checks.spool("s", "Read-only file system", 1 << 40).level == Level.BAD


def test_whether_operators_have_a_token_is_told() -> None:
    assert checks.token(["ops", "eyes"], "t", is_there=False).found == "configured: ops, eyes"
    assert checks.token([], "t", is_there=True).found == "t"
    assert checks.token([], "t", is_there=False).found == "t: made, mode 0600, at the first start"
    assert "listen.admin is off" in checks.token([], None, is_there=False).found


def test_what_came_out_how_often_is_counted_the_worst_last() -> None:
    some = [checks.upstream("a", "h", None), checks.upstream("b", "h", "?"), checks.upstream("c", "h", "?")]
    assert list(checks.counted(some).items()) == [
        (Level.GOOD, 1),
        (Level.UNVERIFIABLE, 0),
        (Level.WARNING, 0),
        (Level.BAD, 2),
    ]
