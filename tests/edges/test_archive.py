"""The archive file: lines that are on the disk, whole, whoever moves the file meanwhile."""

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest

from proxy.edges import archive as archive_module
from proxy.edges.archive import FileArchive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the archive is to be."""
    return tmp_path / "settled.jsonl"


def held(path: Path) -> bytes:
    """Return what a file holds."""
    return path.read_bytes()


def moved_away(path: Path) -> Path:
    """Do as logrotate does."""
    return path.rename(path.with_suffix(".1"))


def mode(path: Path) -> int:
    """Return who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def cut_short(path: Path) -> Path:
    """Return an archive whose last line a crash cut short."""
    path.write_bytes(b'one\n{"cut sh')
    return path


async def test_lines_are_appended_to_a_file_that_only_we_may_read(path: Path) -> None:
    await FileArchive(str(path)).append([b'{"a": 1}', b'{"b": 2}'])
    await FileArchive(str(path)).append([b'{"c": 3}'])
    assert held(path) == b'{"a": 1}\n{"b": 2}\n{"c": 3}\n'
    assert mode(path) == 0o600


async def test_they_are_on_the_disk_when_it_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(archive_module, "sync", lambda fd: synced.append(os.pread(fd, 100, 0)))
    await FileArchive(str(path)).append([b"one"])
    assert synced == [b"one\n"]


async def test_a_file_that_was_moved_away_is_begun_anew(path: Path) -> None:
    archive = FileArchive(str(path))
    await archive.append([b"one"])
    old = moved_away(path)
    await archive.append([b"two"])
    assert (held(old), held(path)) == (b"one\n", b"two\n")


async def test_a_line_that_a_crash_cut_short_does_not_swallow_the_next(cut_short: Path) -> None:
    await FileArchive(str(cut_short)).append([b"two"])
    assert held(cut_short) == b'one\n{"cut sh\ntwo\n'


async def test_what_the_disk_refuses_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = FileArchive(str(path))
    await archive.append([b"one"])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(archive_module, "sync", full)
    with pytest.raises(OSError, match="No space"):
        await archive.append([b"two"])
    assert held(path) == b"one\n"


async def test_a_folder_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await FileArchive(str(tmp_path / "none" / "settled.jsonl")).append([b"one"])


async def test_several_may_append_at_once_and_no_line_is_torn(path: Path) -> None:
    lines = [bytes([65 + n]) * 100_000 for n in range(8)]
    await asyncio.gather(*(FileArchive(str(path)).append([line, line]) for line in lines))
    assert sorted(held(path).split(b"\n")[:-1]) == sorted(lines + lines)
