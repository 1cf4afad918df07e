"""What README promises to list, it lists: it is asked for what the code itself knows."""

import re
from pathlib import Path

from proxy.config import settings
from proxy.core.answers import KINDS, Code
from proxy.edges.metrics import Metrics
from tests.house.sources import ROOT

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"^\s*#?\s*\[\[?([a-z_.-]+)\]?\]")
SETTING = re.compile(r"(?:^|[\s#,{|])([a-z_]+)\s*=")
METRICS = [family.name.removeprefix("doubtless_") for family in Metrics(("stripe",)).registry.collect()]


def readme() -> str:
    """Return README as it is now."""
    return (ROOT / "README.md").read_text("utf-8")


def settings_shown(text: str) -> set[str]:
    """Return the settings that the text shows: in a TOML block under their table, or by their dotted name."""
    found = set(re.findall(r"`([a-z_]+(?:\.(?:<name>|[a-z_-]+))+)`", text))
    for kind, block in FENCED.findall(text):
        if kind != "toml":
            continue
        table = ""
        for line in block.splitlines():
            if header := TABLE.match(line):
                table = header[1]
                line = line[header.end() :]
            found |= {f"{table}.{name}" for name in SETTING.findall(line)}
    return {re.sub(r"^providers\.[a-z_-]+\.", "providers.<name>.", name) for name in found}


def test_readme_shows_every_setting() -> None:
    shown = settings_shown(readme())
    assert {setting for setting in settings() if not {setting, setting.rpartition(".")[0]} & shown} == set()


def test_readme_lists_every_metric() -> None:
    text = readme()
    listed = {metric for metric in METRICS if re.search(rf"\b(doubtless_)?{metric}(_total)?\b", text)}
    assert set(METRICS) - listed == set()


def test_readme_has_a_row_for_every_answer_of_our_own() -> None:
    rows = [line for line in readme().splitlines() if line.startswith("|")]
    shown = {code for code in Code for row in rows if f"`{code.value}`" in row and str(KINDS[code].status) in row}
    assert set(Code) - shown == set()


def test_every_make_target_that_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)).split())
    named = set(re.findall(r"\bmake ([a-z-]+)\b", " ".join(_commands(readme()))))
    assert {"demo", "test"} <= named
    assert named | {"demo", "test", "lint", "types", "unit", "format", "node", "redis", "clean"} <= targets
    assert phony <= targets


def _commands(text: str) -> list[str]:
    """Return what README shows as commands: indented or fenced lines, and code in backticks."""
    fenced = [block for _, block in FENCED.findall(text)]
    return fenced + re.findall(r"`([^`\n]+)`", text) + re.findall(r"^    (.+)$", text, re.MULTILINE)


def test_every_file_that_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", readme())
    assert [link for link in links if not (ROOT / Path(link)).exists()] == []
