"""The spool: observations in files, each on the disk before `add` returns (port `Spool`).

The folder may be shared by several processes: each takes a slot of its own, a numbered folder that it holds by a lock.
What a dead process left in its slot is taken over by the next one that starts, before its own.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import structlog

from proxy.edges.files import lock, private, private_folder, sync, sync_folder, write_whole
from proxy.edges.frames import frame, payload_of, scan
from proxy.ports import Observation, SpoolFull

BOUND_BYTES: Final = 64 << 20
DISK_FREE_MIN_BYTES: Final = 1 << 20
SLOTS_MAX: Final = 256
_log = structlog.get_logger(__name__)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Observation).decode


class Slot:
    """One file of observations, and the lock that makes it ours."""

    def __init__(self, folder: Path, held: int) -> None:
        self.path = folder / "observations"
        self.size = 0  # Of what was acknowledged: what a write that failed left behind it is none of it.
        self.damaged = 0
        self._held = held
        self._ends: list[int] = []
        self._broken = False
        for left in folder.glob(".observations-*"):
            left.unlink()  # A rewriting that a crash cut short.
        self._file = self._open()
        sync_folder(folder)
        self._take_in(self.path.read_bytes())

    def __len__(self) -> int:
        return len(self._ends)

    def read(self) -> list[Observation]:
        """Return what the file holds."""
        return self._take_in(self.path.read_bytes()[: self.size])

    def append(self, data: bytes) -> None:
        """Append a frame and wait until it is on the disk. Raises OSError; the frame is not there then."""
        self.heal()
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            sync(self._file)
        except OSError:
            self._broken = True
            with contextlib.suppress(OSError):
                self._cut(self.size)
                self._broken = False
            raise
        self.size += len(data)
        self._ends.append(self.size)

    def heal(self) -> None:
        """Where a write failed and could not be undone, write anew what stood before it.

        After a failed sync nobody knows what of the file is on the disk. Raises OSError where this fails too.
        """
        if self._broken:
            self._replace(self.path.read_bytes()[: self.size])
            self._broken = False

    def drop(self, count: int) -> None:
        """Drop the first frames, in one step: after a crash all of them are there, or none."""
        self.heal()
        if count == len(self._ends):
            self._cut(0)
        elif count:
            self._replace(self.path.read_bytes()[self._ends[count - 1] : self.size])
        cut = self._ends[count - 1] if count else 0
        self._ends = [end - cut for end in self._ends[count:]]
        self.size -= cut

    def close(self) -> None:
        """Let others have the slot."""
        os.close(self._file)
        os.close(self._held)

    def _take_in(self, data: bytes) -> list[Observation]:
        """Return what the data holds. What is torn is cut off; what is damaged is put aside, reported, and cut out."""
        found = scan(data)
        kept: list[tuple[int, int]] = []
        bad = list(found.damaged)
        observations: list[Observation] = []
        for place in found.frames:
            try:
                observations.append(_decode(payload_of(data, place)))
                kept.append(place)
            except msgspec.DecodeError:
                bad.append(place)
        if bad:
            self._put_aside(b"".join(data[start:end] for start, end in sorted(bad)), len(bad))
            self._replace(b"".join(data[start:end] for start, end in kept))
        elif found.torn_from is not None:
            self._cut(found.torn_from)
        ends, self.size = [], 0
        for start, end in kept:
            self.size += end - start
            ends.append(self.size)
        self._ends = ends
        return observations

    def _open(self) -> int:
        return private(str(self.path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        sync(self._file)

    def _replace(self, data: bytes) -> None:
        write_whole(self.path, data)
        os.close(self._file)
        self._file = self._open()

    def _put_aside(self, data: bytes, stretches: int) -> None:
        taken = {path.name for path in self.path.parent.glob("damaged-*")}
        aside = self.path.parent / next(name for n in range(len(taken) + 1) if (name := f"damaged-{n}") not in taken)
        write_whole(aside, data)
        self.damaged += stretches
        _log.error("the spool is damaged: observations are lost", stretches=stretches, kept_in=str(aside))


class FileSpool:
    """The spool of this process. `damaged` counts the stretches of the files that could not be read."""

    def __init__(self, folder: str, bound_bytes: int = BOUND_BYTES) -> None:
        """Take a slot, and what dead processes left in theirs. Raises OSError where the folder cannot be written."""
        self._folder = Path(folder).absolute()
        self._bound = bound_bytes
        self._reserve = bound_bytes // 4
        private_folder(self._folder)
        self._dead: list[str] = []
        self._own = self._free_slot()
        self._slots = [*self._left_behind(), self._own]

    def __len__(self) -> int:
        return sum(map(len, self._slots))

    @property
    def damaged(self) -> int:
        """How many stretches could not be read; they are kept in files `damaged-N` beside the observations."""
        return sum(slot.damaged for slot in self._slots)

    def add(self, observation: Observation) -> None:
        """Append and fsync.

        Raises:
            SpoolFull: there is no room; nothing was added.
            OSError: the disk refuses; nothing was added.
        """
        data = frame(_encode(observation))
        if self._size() + len(data) > self._bound:
            raise SpoolFull(f"the spool {self._folder} has reached {self._bound} bytes")
        self._own.append(data)

    def pending(self) -> list[Observation]:
        """Return what the store has not taken yet, in order; what dead processes left comes first."""
        return [observation for slot in self._slots for observation in slot.read()]

    def taken(self, count: int) -> None:
        """Drop the first `count` observations. Raises ValueError where there are fewer."""
        if not 0 <= count <= len(self):
            raise ValueError(f"{count} of {len(self)} observations cannot be taken")
        for slot in list(self._slots):
            part = min(count, len(slot))
            if part:
                slot.drop(part)
            count -= part
            if slot is not self._own and not len(slot):
                slot.close()
                self._slots.remove(slot)

    def check(self) -> None:
        """Raise SpoolFull or OSError where nothing could be added now.

        A quarter of the bound is kept for what is in flight already, and is not for new dispatches.
        """
        self._own.heal()
        if self._size() > self._bound - self._reserve:
            raise SpoolFull(f"the spool {self._folder} is nearly full: {self._size()} of {self._bound} bytes")
        disk = os.statvfs(self._folder)
        if disk.f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self._folder))
        if disk.f_bavail * disk.f_frsize < DISK_FREE_MIN_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))

    def close(self) -> None:
        """Let others have what is left."""
        for slot in self._slots:
            slot.close()

    @property
    def dead_instances(self) -> tuple[str, ...]:
        """Who wrote their names into slots that are free now: those processes are gone."""
        return tuple(self._dead)

    def write_instance(self, instance: str) -> None:
        """Say whose slot this is, for whoever finds it free."""
        write_whole(self._own.path.parent / "instance", instance.encode())

    def _note_owner(self, folder: Path) -> None:
        """Take down who had a slot that is ours now, and that nobody has it any more."""
        named = folder / "instance"
        if named.exists():
            self._dead.append(named.read_text("utf-8"))

    def forget_dead(self) -> None:
        """The dead were seen to: what they left in flight is due."""
        for slot in sorted(self._folder.iterdir()):
            named = slot / "instance"
            if slot.name.isdecimal() and named.exists() and named.read_text("utf-8") in self._dead:
                named.unlink()
        self._dead = []

    def _size(self) -> int:
        return sum(slot.size for slot in self._slots)

    def _free_slot(self) -> Slot:
        for number in range(SLOTS_MAX):
            folder = self._folder / str(number)
            private_folder(folder)
            if (held := lock(folder / "lock")) is not None:
                self._note_owner(folder)
                return Slot(folder, held)
        raise OSError(errno.EAGAIN, f"{SLOTS_MAX} processes use the spool already", str(self._folder))

    def _left_behind(self) -> Iterator[Slot]:
        for folder in sorted(self._folder.iterdir()):
            if not folder.name.isdecimal() or (held := lock(folder / "lock")) is None:
                continue
            self._note_owner(folder)
            slot = Slot(folder, held)
            if len(slot):
                yield slot
            else:
                slot.close()
