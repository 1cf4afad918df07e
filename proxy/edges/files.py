"""Files that survive a crash: written whole, synced to the disk, readable by their owner alone."""

import base64
import contextlib
import fcntl
import os
import secrets
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700


def private(path: str, flags: int) -> int:
    """Open a file, made readable by its owner alone; an opener for `open`."""
    return os.open(path, flags, 0o600)


def sync(fd: int) -> None:
    """Wait until what was written is on the disk. On macOS fsync stops at the drive's cache (fsync(2) there)."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):  # Not every file system has it: some network ones do not.
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a new file's name is not synced with the file."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it, that only we may enter; one of ours that is there is closed to others.

    A folder that is not for us alone is left as it is: another user's (the root of a mounted volume often is), a
    shared one such as /tmp, one that we or the user stand in.
    """
    for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
        with contextlib.suppress(FileExistsError):  # Another process of ours was faster.
            missing.mkdir(mode=FOLDER_MODE)
            sync_folder(missing.parent)
    found = folder.stat()
    shared = found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX
    stood_in = any(place.is_relative_to(folder.resolve()) for place in (Path.cwd(), Path.home()))
    if found.st_mode & 0o077 and not shared and not stood_in:
        folder.chmod(FOLDER_MODE)


def write_whole(path: Path, data: bytes) -> None:
    """Put a file of mode 0600 in place in one step: after a crash it is the old one or the new one."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def lock(path: Path) -> int | None:
    """Lock a file, made where it is missing; return its descriptor, or None where somebody else holds it.

    The lock is the kernel's (flock): it ends when the last process that has the descriptor is gone, however it went.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def secret_text(path: Path) -> str:
    """Return the text of a file of 32 random bytes in base64url, mode 0600; made where it is absent."""
    if not path.exists():
        write_whole(path, base64.urlsafe_b64encode(secrets.token_bytes(32)) + b"\n")
    elif path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text("ascii").strip()
