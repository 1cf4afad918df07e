"""A floor imports only from those below it, and the core does nothing but decide (DESIGN 1)."""

import ast

from tests.house.sources import PRODUCT, Source

CORE, PORTS = "proxy.core", "proxy.ports"
ENGINE, RECONCILER = "proxy.engine", "proxy.reconciler"
CONFIG, EDGES = "proxy.config", "proxy.edges"
VERSION = "proxy"  # Its docstring and its version: it imports nothing.
MAY_IMPORT = {  # Of our own modules. app, cli and demo, which are not listed, may import all but tests.
    CORE: {CORE},
    PORTS: {CORE},
    ENGINE: {CORE, PORTS, ENGINE},
    RECONCILER: {CORE, PORTS, ENGINE},
    CONFIG: {CORE, CONFIG},
    EDGES: {CORE, PORTS, ENGINE, RECONCILER, CONFIG, EDGES, VERSION},
    "adapters": {"adapters"},
}
ABOVE = {"proxy.app", "proxy.cli", "proxy.demo", VERSION}
PURE = {  # What neither waits, nor looks at the machine, nor differs from run to run.
    *("__future__", "base64", "bisect", "collections", "contextlib", "dataclasses", "datetime", "enum", "fnmatch"),
    *("functools", "hashlib", "hmac", "html", "itertools", "json", "math", "operator", "re", "string", "struct"),
    *("textwrap", "tomllib", "types", "typing", "urllib.parse", "zlib", "msgspec"),
}
LOGIC_NEEDS = {"asyncio", "structlog", "weakref"}  # Besides what is pure: all awaits of the product's logic are there.


def floor_of(module: str) -> str:
    """Return the floor that a module of ours is on: `proxy.edges` of `proxy.edges.store.client`."""
    return ".".join(module.split(".")[:2]) if module.startswith("proxy.") else module.partition(".")[0]


def is_pure(module: str) -> bool:
    """Is it one of the pure modules, or inside of one?"""
    return any(module == pure or module.startswith(f"{pure}.") for pure in PURE)


def ours(source: Source) -> set[str]:
    """Return the modules of ours that it imports."""
    return {module for module in source.imports if module.partition(".")[0] in ("proxy", "adapters", "tests")}


def test_every_module_of_ours_is_on_a_floor() -> None:
    assert {floor_of(source.module) for source in PRODUCT} == {*MAY_IMPORT, *ABOVE}


def test_a_module_imports_only_from_the_floors_below() -> None:
    found = [
        f"{source} imports {module}"
        for source in PRODUCT
        if (allowed := MAY_IMPORT.get(floor_of(source.module))) is not None
        for module in ours(source)
        if floor_of(module) not in allowed
    ]
    assert found == []


def test_the_product_imports_no_tests_and_importing_it_has_no_effect() -> None:
    assert [str(source) for source in PRODUCT if any(module.startswith("tests") for module in ours(source))] == []
    (door,) = (source for source in PRODUCT if source.module == VERSION)
    assert door.imports == set()


def foreign(source: Source) -> set[str]:
    """Return what it imports that is neither ours nor pure."""
    return {module for module in source.imports - ours(source) if not is_pure(module)}


def test_the_core_has_no_clock_no_socket_no_log_and_never_waits() -> None:
    core = [source for source in PRODUCT if floor_of(source.module) == CORE]
    assert {str(source): found for source in core if (found := foreign(source))} == {}, "it comes as a value"
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    waiting = [str(source) for source in core if any(isinstance(node, waits) for node in ast.walk(source.tree))]
    assert waiting == []


def test_the_logic_sees_the_world_through_the_ports_alone() -> None:
    logic = [source for source in PRODUCT if floor_of(source.module) in (PORTS, ENGINE, RECONCILER)]
    found = {str(source): more for source in logic if (more := foreign(source) - LOGIC_NEEDS)}
    assert found == {}, "a socket, Redis or a clock is reached through a port"
