"""A test that this machine cannot run is left out loudly, and never in CI (tests/conftest.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

TESTS = """
import pytest

@pytest.fixture
def redis_server():
    raise AssertionError("nothing is started that is not there")

@pytest.mark.needs("node")
def test_by_mark(): ...

@pytest.mark.needs("node", "redis-server")
def test_by_two_marks(): ...

def test_by_fixture(redis_server): ...

def test_that_needs_nothing(): ...
"""


def run(folder: Path, *options: str, ci: str = "") -> tuple[int, str]:
    """Run those tests where neither node nor redis-server is on the PATH."""
    (folder / "test_them.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    environ = {**os.environ, "PATH": str(folder), "CI": ci, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *options, str(folder)]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_what_cannot_run_here_is_counted_aloud(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, said = run(tmp_path, *options, "--color=yes")
    red = "\x1b[31m"
    assert "1 passed" in said
    for line in (
        "NOT RUN: 2 tests, for this machine lacks node",
        "NOT RUN: 2 tests, for this machine lacks redis-server",
    ):
        assert any(line in text and red in text for text in said.splitlines()), said
    assert (code, "skipped" in said) == (0, False)


def test_in_ci_what_cannot_run_fails(tmp_path: Path) -> None:
    code, said = run(tmp_path, ci="true")
    assert (code, "1 passed" in said) == (1, True)
    assert "this machine lacks redis-server, and CI=true leaves nothing out" in said
    assert "this machine lacks node, and CI=true leaves nothing out" in said
    assert "NOT RUN" not in said
