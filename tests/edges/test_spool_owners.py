"""Whoever finds a slot of the spool free knows that its owner is gone, and who that was."""

from pathlib import Path

from proxy.edges.spool import FileSpool
from proxy.ports import Observation

SEEN = Observation("a-1", b"event")


def test_the_next_owner_of_a_slot_learns_who_had_it(tmp_path: Path) -> None:
    first = FileSpool(str(tmp_path))
    assert first.dead_instances == ()
    first.write_instance("pod-1")
    first.close()

    assert FileSpool(str(tmp_path)).dead_instances == ("pod-1",)


def test_who_still_has_its_slot_is_not_taken_for_dead(tmp_path: Path) -> None:
    alive = FileSpool(str(tmp_path))
    alive.write_instance("pod-1")

    assert FileSpool(str(tmp_path)).dead_instances == ()


def test_all_who_left_a_slot_are_named_with_and_without_observations(tmp_path: Path) -> None:
    spools = [FileSpool(str(tmp_path)) for _ in range(3)]
    for number, spool in enumerate(spools):
        spool.write_instance(f"pod-{number}")
    spools[1].add(SEEN)
    for spool in spools:
        spool.close()

    assert sorted(FileSpool(str(tmp_path)).dead_instances) == ["pod-0", "pod-1", "pod-2"]


def test_the_dead_are_named_again_until_they_were_seen_to(tmp_path: Path) -> None:
    first = FileSpool(str(tmp_path))
    first.write_instance("pod-1")
    first.close()
    second = FileSpool(str(tmp_path))
    second.close()  # It crashed before it could bury the dead.
    third = FileSpool(str(tmp_path))
    assert third.dead_instances == ("pod-1",)

    third.write_instance("pod-3")
    third.forget_dead()
    third.close()

    assert FileSpool(str(tmp_path)).dead_instances == ("pod-3",)
