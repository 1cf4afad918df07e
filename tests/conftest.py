"""What a machine lacks is said in one loud line at the end of a run, and fails the run where CI=true.

A test says what it needs of the machine by `@pytest.mark.needs("node")`, or by a fixture that runs a server. Where that
is lacking the test is left out, and counted: a green run must not look like more than it was.
"""

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

MODULES: Final = Path(__file__).parent / "sdk" / "node_modules"
THERE: Final = {
    "node": lambda: shutil.which("node") is not None,
    "the Node SDKs (`make node`)": lambda: all((MODULES / name).is_dir() for name in ("stripe", "resend")),
    "/proc": lambda: Path("/proc/self/environ").exists(),
    "redis-server": lambda: shutil.which("redis-server") is not None,
}
NEEDED_BY_FIXTURE: Final = {"redis_server": "redis-server"}
LEFT_OUT: Final = pytest.StashKey[dict[str, int]]()


def in_ci() -> bool:
    """Is this CI, where nothing may be left out?"""
    return os.environ.get("CI") == "true"


def lacking(item: pytest.Item) -> tuple[str, ...]:
    """Return what the test needs and this machine has not."""
    marked = [need for mark in item.iter_markers("needs") for need in mark.args]
    by_fixture = [NEEDED_BY_FIXTURE[name] for name in getattr(item, "fixturenames", ()) if name in NEEDED_BY_FIXTURE]
    return tuple(need for need in dict.fromkeys([*marked, *by_fixture]) if not THERE[need]())


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(what, …): what the test needs of the machine; see tests/conftest.py")
    config.stash[LEFT_OUT] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, except in CI."""
    if in_ci():
        return
    out = [item for item in items if lacking(item)]
    if out:
        config.stash[LEFT_OUT] = dict(Counter(need for item in out for need in lacking(item)))
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In CI what cannot run fails."""
    if in_ci() and (needs := lacking(item)):
        pytest.fail(f"this machine lacks {', '.join(needs)}, and CI=true leaves nothing out", pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of xdist tell its controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Every worker collects the same: what one tells is what all left out."""
    del error
    told: dict[str, int] = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash[LEFT_OUT].update(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say it."""
    for need, count in sorted(config.stash[LEFT_OUT].items()):
        terminalreporter.write_line(f"NOT RUN: {count} tests, for this machine lacks {need}", red=True, bold=True)
