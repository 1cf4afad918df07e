"""What every file owes its reader."""

import ast
import re
from pathlib import Path

from tests.house.sources import PRODUCT, ROOT, TESTS, Source, kept_files

LINES_MOST = 300
FUNCTION_LINES_MOST = 60
ARGUED = f"Longer than {LINES_MOST} lines"
MAP_LINES_MOST = 20

# Written in pieces: this file is one of those that are looked through.
MACHINE = ("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/tm" + "p/venv", "Use" + "rs/")
REGISTRIES = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.", "deb" + "ian.org", "golang" + ".org")
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
NO_CODE = re.compile(r"#\s*noqa(?!: [A-Z]+[0-9]+)|#\s*type:\s*ignore(?!\[[a-z-]+)")


EVERY = PRODUCT + TESTS
OF_TESTS = [source for source in TESTS if source.path.name.startswith("test_")]


def test_a_module_says_what_it_is_for() -> None:
    assert [str(source) for source in EVERY if not source.docstring] == []


def test_a_file_is_short_or_says_why_it_is_not() -> None:
    long = {str(source): source.lines for source in EVERY if source.lines > LINES_MOST}
    argued = {str(source) for source in EVERY if ARGUED in source.docstring}
    assert {name: lines for name, lines in long.items() if name not in argued} == {}
    assert argued <= set(long), "what is no longer long has nothing to argue"


def test_a_function_fits_on_a_screen() -> None:
    long = [
        f"{source}: {function.name}"
        for source in EVERY
        for function in source.functions
        if (function.end_lineno or 0) - function.lineno >= FUNCTION_LINES_MOST
    ]
    assert long == []


def test_an_exception_to_a_tool_names_its_rule() -> None:
    found = [f"{source}: {line}" for source in EVERY for line in source.text.splitlines() if NO_CODE.search(line)]
    assert found == []


def test_no_file_defers_work_or_names_a_machine_or_a_registry() -> None:
    found = []
    for path in kept_files():
        text = path.read_text("utf-8", errors="replace")
        words = [*LATER.findall(text), *(word for word in MACHINE + REGISTRIES if word in text)]
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert found == []


def test_the_map_at_the_door_is_short_and_names_every_room() -> None:
    (door,) = (source for source in PRODUCT if source.module == "proxy")
    rooms = {path.stem for path in (ROOT / "proxy").iterdir() if _is_a_module(path)} - {"__init__"}
    assert len(door.docstring.splitlines()) <= MAP_LINES_MOST
    assert {room for room in rooms if not re.search(rf"\b{room}\b", door.docstring)} == set()


def _is_a_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def test_a_file_of_tests_asserts_something() -> None:
    assert [str(source) for source in OF_TESTS if not _asserts(source)] == []


def _asserts(source: Source) -> bool:
    """Does it assert, or ask the questions of a suite that does?"""
    suites = {module for module in source.imports if module.startswith("tests.") and module.endswith("_suite")}
    return bool(suites) or any(isinstance(node, ast.Assert) for node in ast.walk(source.tree))


def test_a_test_is_called_by_a_sentence() -> None:
    names = [f.name for source in OF_TESTS for f in source.functions if f.name.startswith("test_")]
    assert [name for name in names if len(name.split("_")) < 4] == []


def test_no_two_files_of_tests_bear_one_name() -> None:
    names = [source.path.name for source in OF_TESTS]
    assert sorted(names) == sorted(set(names)), "pytest imports them by their names"
