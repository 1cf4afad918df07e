"""The project's files, parsed once: what the house rules are asked of."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """Its dotted name."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @cached_property
    def names(self) -> set[str]:
        """What it takes out of modules by name: `asyncio.create_task` of `from asyncio import create_task`."""
        taken: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self}: imports are absolute"
                taken |= {f"{node.module}.{alias.name}" for alias in node.names}
        return taken

    @cached_property
    def imports(self) -> set[str]:
        """Every module that it imports, wherever in the file; a module of ours also where it is taken by name."""
        found = {name.rpartition(".")[0] for name in self.names} | {name for name in self.names if _is_ours(name)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        return found

    @cached_property
    def calls(self) -> list[tuple[str, int]]:
        """What is called, by its written name, and where."""
        return [(dotted(node.func), node.lineno) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    def within(self) -> Iterator[tuple[str, ast.AST]]:
        """Yield every node with the name of the innermost function around it."""
        yield from _within(self.tree, "")


def _is_ours(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _within(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, Function) else name
        yield inner, child
        yield from _within(child, inner)


def dotted(node: ast.AST) -> str:
    """Write a name or an attribute as it stands in the file: `asyncio.create_task`; else an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _python(folder: str) -> tuple[Source, ...]:
    found = sorted((ROOT / folder).rglob("*.py"))
    return tuple(Source(path) for path in found if "node_modules" not in path.parts)


PRODUCT: Final = _python("proxy") + _python("adapters")
TESTS: Final = _python("tests")


def kept_files() -> list[Path]:
    """Return every file that Git keeps, or would: new ones count before they are added."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]
