"""Looks at what checks judge: a folder, a name, a file. Nothing here changes what it looks at, or takes it."""

import asyncio
import ipaddress
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

from proxy.edges.upstream import tls_context

RESOLVES_S: Final = 5.0


def folder_refuses(folder: Path) -> tuple[str | None, int]:
    """Say why nothing can be written in a folder, or None, and how many bytes are free there.

    A file is made in it and removed; no lock is taken, for whoever works there has it. Where the folder is not there
    yet, what it would be made in is looked at.
    """
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        if place == folder.absolute():
            with tempfile.NamedTemporaryFile(prefix=".looked-at-", dir=place) as file:
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
        elif not place.is_dir():
            return f"{place} is no folder", 0
        elif not os.access(place, os.W_OK | os.X_OK):
            return f"it is not there, and cannot be made in {place}", 0
        disk = os.statvfs(place)
    except OSError as error:
        return error.strerror or type(error).__name__, 0
    return None, disk.f_bavail * disk.f_frsize


async def unresolved(host: str, port: int) -> str | None:
    """Say why a host has no address here, or None."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return None
    try:
        async with asyncio.timeout(RESOLVES_S):
            await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return f"no answer within {RESOLVES_S:.0f} s"
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA refuses.
        return str(getattr(error, "strerror", None) or error)
    return None


def unreadable_authority(path: str) -> str | None:
    """Say why a file of certificates cannot be used, or None."""
    try:
        tls_context(path)
    except OSError as error:  # ssl.SSLError is one, and its text quotes nothing of the file.
        return error.strerror or "it holds no certificate"
    return None


def mode_of(path: Path) -> int | None:
    """Return a file's permissions, or None where they cannot be looked at."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
