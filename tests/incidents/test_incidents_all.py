"""Every incident that is to be covered is, by a test that bears its number and names its report."""

import ast
import re
from pathlib import Path

COVERED = {1, 2, 4, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 19, 21, 23, 24, 26, 27, 29, 32, 34, 35}


def test_every_incident_has_a_test_that_names_its_public_report() -> None:
    found: dict[str, str] = {}
    for path in Path(__file__).parent.glob("test_incidents_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"test_\d", node.name):
                found[node.name] = ast.get_docstring(node) or ""
    assert {int(name.split("_")[1]) for name in found} == COVERED
    assert [name for name, text in found.items() if "https://" not in text] == []
