"""Observations are on the disk when `add` returns, and what a crash or a disk does to them is told apart.

Longer than 300 lines: every way in which a disk can fail between two steps stands here once.
"""

import errno
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from proxy.edges import files
from proxy.edges.frames import frame, payload_of, scan
from proxy.edges.spool import FileSpool
from proxy.ports import Observation, SpoolFull

ONE, TWO, THREE = (Observation(action_id=f"a{n}", event=b"e" * 20 * n, response=b"r" * n) for n in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def filled(path: Path, *observations: Observation) -> FileSpool:
    spool = FileSpool(str(path))
    for observation in observations:
        spool.add(observation)
    return spool


def crashed(path: Path, *observations: Observation) -> Path:
    """Leave a spool as a crash does; return its file."""
    filled(path, *observations).close()
    return path / "0" / "observations"


def payload(observation: Observation) -> bytes:
    return msgspec.msgpack.encode(observation)


def test_what_was_added_is_pending_in_order_also_for_the_next_process(path: Path) -> None:
    spool = filled(path, ONE, TWO, THREE)
    assert spool.pending() == [ONE, TWO, THREE]
    spool.close()

    assert FileSpool(str(path)).pending() == [ONE, TWO, THREE]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_was_taken_is_gone_and_the_rest_stays(path: Path, count: int) -> None:
    spool = filled(path, ONE, TWO, THREE)

    spool.taken(count)
    spool.add(ONE)

    rest = [*[ONE, TWO, THREE][count:], ONE]
    assert (spool.pending(), len(spool)) == (rest, len(rest))
    spool.close()
    assert FileSpool(str(path)).pending() == rest


def test_more_than_there_are_cannot_be_taken(path: Path) -> None:
    spool = filled(path, ONE)

    with pytest.raises(ValueError, match="2 of 1"):
        spool.taken(2)
    assert spool.pending() == [ONE]


def test_each_observation_is_synced_before_add_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = filled(path)
    synced: list[int] = []
    file = path / "0" / "observations"
    monkeypatch.setattr("proxy.edges.spool.sync", lambda _: synced.append(file.stat().st_size))

    spool.add(ONE)
    spool.add(TWO)

    assert synced == [len(file.read_bytes()) - len(frame(b"")) - len(payload(TWO)), file.stat().st_size]


def test_a_frame_cut_anywhere_was_never_acknowledged_and_is_ignored(path: Path) -> None:
    file = crashed(path, ONE, TWO)
    whole = file.read_bytes()
    first = scan(whole).frames[0][1]

    for end in range(first, len(whole)):
        file.write_bytes(whole[:end])
        spool = FileSpool(str(path))
        assert (spool.pending(), spool.damaged) == ([ONE], 0)
        spool.add(THREE)
        assert spool.pending() == [ONE, THREE]
        spool.close()


def test_zeros_that_a_file_system_left_at_the_end_are_ignored(path: Path) -> None:
    file = crashed(path, ONE)
    file.write_bytes(file.read_bytes() + bytes(4096))

    spool = FileSpool(str(path))

    assert (spool.pending(), spool.damaged) == ([ONE], 0)
    assert scan(file.read_bytes()).torn_from is None


def test_a_frame_with_any_byte_changed_is_reported_and_the_others_are_kept(path: Path) -> None:
    file = crashed(path, ONE, TWO, THREE)
    whole = file.read_bytes()
    (_, start), (_, end), _ = scan(whole).frames

    for at in range(start, end):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with capture_logs() as logs:
            spool = FileSpool(str(path))
        assert (spool.pending(), spool.damaged) == ([ONE, THREE], 1)
        assert [log["log_level"] for log in logs] == ["error"]
        spool.close()


def test_a_damaged_frame_is_put_aside_whole_and_told_once(path: Path) -> None:
    file = crashed(path, ONE, TWO)
    whole = bytearray(file.read_bytes())
    whole[20] ^= 1
    file.write_bytes(whole)

    FileSpool(str(path)).close()

    assert (path / "0" / "damaged-0").read_bytes() == bytes(whole[: scan(bytes(whole)).damaged[0][1]])
    again = FileSpool(str(path))
    assert (again.pending(), again.damaged) == ([TWO], 0)


def test_a_last_frame_that_is_whole_but_wrong_may_have_been_acknowledged_and_is_reported(path: Path) -> None:
    file = crashed(path, ONE, TWO)
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)

    spool = FileSpool(str(path))

    assert (spool.pending(), spool.damaged) == ([ONE], 1)


def test_a_frame_that_is_no_observation_is_reported(path: Path) -> None:
    file = crashed(path, ONE)
    file.write_bytes(frame(b"not msgpack") + file.read_bytes())

    spool = FileSpool(str(path))

    assert (spool.pending(), spool.damaged) == ([ONE], 1)


def test_a_full_spool_says_so_and_adds_nothing(path: Path) -> None:
    size = len(frame(payload(ONE)))
    spool = FileSpool(str(path), bound_bytes=2 * size)
    spool.add(ONE)
    spool.add(ONE)

    with pytest.raises(SpoolFull):
        spool.add(ONE)

    assert spool.pending() == [ONE, ONE]
    spool.taken(1)
    spool.add(ONE)


def test_a_quarter_is_kept_for_what_is_in_flight_already(path: Path) -> None:
    size = len(frame(payload(ONE)))
    spool = FileSpool(str(path), bound_bytes=4 * size)
    for _ in range(3):
        spool.check()
        spool.add(ONE)
    spool.check()
    smaller = FileSpool(str(path), bound_bytes=4 * size - 4)
    for _ in range(3):
        smaller.add(ONE)

    with pytest.raises(SpoolFull):
        smaller.check()


def test_a_disk_that_is_nearly_full_or_read_only_is_told_before_a_dispatch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(path)
    disk = os.statvfs(path)
    real = list(disk)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:4], 0, *real[5:])))
    with pytest.raises(OSError, match="No space left"):
        spool.check()
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:8], real[8] | os.ST_RDONLY, *real[9:])))
    with pytest.raises(OSError, match="Read-only"):
        spool.check()


def test_a_write_that_the_disk_refuses_half_way_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(path, ONE)
    write = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space left"):
            spool.add(TWO)

    assert spool.pending() == [ONE]
    spool.add(THREE)
    assert spool.pending() == [ONE, THREE]
    assert spool.damaged == 0


def test_after_a_sync_that_failed_nothing_is_dispatched_until_the_file_was_written_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = filled(path, ONE)

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("proxy.edges.spool.sync", refuse)
        patch.setattr(files, "sync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            spool.add(TWO)
        with pytest.raises(OSError, match="Input/output"):
            spool.check()
        assert spool.pending() == [ONE]

    before = (path / "0" / "observations").stat().st_ino
    spool.check()
    assert (path / "0" / "observations").stat().st_ino != before
    spool.add(THREE)
    assert spool.pending() == [ONE, THREE]


@pytest.mark.parametrize("step", ["tempfile.mkstemp", "proxy.edges.files.sync", "pathlib.Path.replace"])
def test_a_crash_between_the_steps_of_taking_loses_nothing(
    path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    spool = filled(path, ONE, TWO, THREE)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # A killed process tidies nothing up.
        patch.setattr(step, die)
        with pytest.raises(Killed):
            spool.taken(1)
    spool.close()

    again = FileSpool(str(path))
    assert again.pending() == [ONE, TWO, THREE]
    assert sorted(p.name for p in (path / "0").iterdir()) == ["lock", "observations"]


def test_only_its_owner_may_look_into_it(path: Path) -> None:
    filled(path, ONE)

    assert path.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.rglob("*") if p.stat().st_mode & 0o077] == []


def test_two_processes_that_share_a_folder_have_a_slot_each(path: Path) -> None:
    first, second = filled(path, ONE), filled(path, TWO)

    assert (first.pending(), second.pending()) == ([ONE], [TWO])
    assert sorted(p.name for p in path.iterdir()) == ["0", "1"]


def test_what_a_dead_process_left_is_taken_over_before_ones_own(path: Path) -> None:
    living, dead = filled(path, ONE), filled(path, TWO, THREE)
    dead.close()

    heir = filled(path, ONE)  # It takes the dead one's slot.
    assert heir.pending() == [TWO, THREE, ONE]
    assert living.pending() == [ONE]
    heir.close()
    living.close()

    last = filled(path, THREE)  # It takes the first slot, and the second one over.
    assert last.pending() == [TWO, THREE, ONE, ONE, THREE]
    last.taken(4)
    assert (last.pending(), len(last)) == ([THREE], 1)
    third = filled(path)
    assert third.pending() == []  # The second slot is free again, and empty.


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="Not a directory"):
        FileSpool(str(tmp_path / "file" / "spool"))


@given(st.lists(st.binary(max_size=40), max_size=6), st.binary(max_size=40))
def test_frames_are_found_again_whatever_stands_between_them(payloads: list[bytes], noise: bytes) -> None:
    data = b"".join(noise + frame(payload) for payload in payloads)

    found = scan(data)

    if b"\xd0\x0b" not in noise:
        assert [payload_of(data, at) for at in found.frames] == payloads
        assert len(found.damaged) == (len(payloads) if noise else 0)
