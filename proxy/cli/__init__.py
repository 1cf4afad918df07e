"""The command line: `doubtless …` (CONTRACT 5)."""

from proxy.cli.main import main

__all__ = ["main"]
