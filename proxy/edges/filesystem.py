"""What a folder is on: a file system that forgets would lose acknowledged records."""

import re
from pathlib import Path
from typing import Final

FORGETS: Final = frozenset({"tmpfs", "ramfs", "overlay", "aufs", "fuse.fuse-overlayfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


def kind_of(folder: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system that a folder, there or not, is or would be on.

    Empty where it cannot be told: macOS has no such file, and no tmpfs either. Fields as in proc(5).
    """
    place = folder.resolve()
    try:
        lines = mounts.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    deepest, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mounted = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split(" ")[4]))
        depth = len(mounted.parts)
        if place.is_relative_to(mounted) and depth >= deepest:  # Of two on one point the later one hides the earlier.
            deepest, kind = depth, after.partition(" ")[0]
    return kind
