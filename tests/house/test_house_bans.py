"""Calls that are banned, each with what to write in its place."""

import ast
from dataclasses import dataclass

import pytest

from tests.house.sources import PRODUCT, TESTS, Source, dotted


@dataclass(frozen=True)
class Ban:
    """`calls` are not made, but in the files (or folders) of `where`, which are the replacement or cannot have it."""

    calls: tuple[str, ...]
    instead: str
    where: tuple[str, ...] = ()


BANS = (
    Ban(
        ("asyncio.create_task", "asyncio.ensure_future"),
        "a task that nobody holds is collected: Tasks.spawn",
        ("proxy/edges/tasks.py", "proxy/edges/standin/"),
    ),
    Ban(
        ("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
        "times are the store's, or come from the Clock port",
        ("proxy/edges/clock.py",),
    ),
    Ban(
        ("time.sleep",),
        "wait for an event, with a deadline",
        ("proxy/edges/folder.py",),  # Another process ends, before our loop has anything to do: nothing tells.
    ),
    Ban(("random", "uuid.uuid1"), "identifiers come from the Entropy port; a test seeds its own"),
    Ban(
        ("print", "pprint"),
        "what a person reads goes through click or `say`, all else through the log",
        ("proxy/app/running.py",),  # What `say` is there.
    ),
    Ban(
        tuple(f"logging.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical")),
        "structlog.get_logger",
    ),
    Ban(("asyncio.get_event_loop",), "asyncio.get_running_loop"),
    Ban(("requests", "urllib.request.urlopen"), "a provider is reached by edges/upstream alone", ("proxy/cli/",)),
    Ban(("aiohttp.ClientSession",), "it repeats PUT and DELETE by itself: edges/upstream", ("proxy/demo.py",)),
    Ban(("pickle.loads", "eval", "exec", "os.system"), "nothing that was received is ever run"),
)

# The named rescues: the only places where a failure of whatever kind is turned into an answer, and why there.
RESCUES = {
    ("proxy/edges/agents/handler.py", "_write"): "a byte may have left: nobody may be told that it failed",
}


def breaches(source: Source, ban: Ban) -> list[str]:
    """Return the lines on which a banned call stands."""
    if str(source).startswith(ban.where or ("-",)):
        return []
    by_name = [f"{source}:{line} {name}" for name, line in source.calls if _is(name, ban.calls)]
    taken = source.imports | source.names
    by_import = [f"{source} imports {name}" for name in taken if _is(name, ban.calls)]
    return by_name + by_import


def _is(name: str, calls: tuple[str, ...]) -> bool:
    """Is it one of the calls, one within it (`random.random`), or one of a longer name (`datetime.datetime.now`)?"""
    return any(
        name == call or name.startswith(f"{call}.") or ("." in call and name.endswith(f".{call}")) for call in calls
    )


@pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.calls[0])
def test_no_banned_call_is_made(ban: Ban) -> None:
    found = [line for source in PRODUCT for line in breaches(source, ban)]
    assert found == [], f"instead: {ban.instead}"


@pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.calls[0])
def test_every_place_that_may_make_a_banned_call_is_there(ban: Ban) -> None:
    assert all(any(str(source).startswith(where) for source in PRODUCT) for where in ban.where)


def test_no_task_is_begun_and_let_go() -> None:
    found = [
        f"{source}:{node.lineno}"
        for source in PRODUCT
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in ("create_task", "ensure_future")
    ]
    assert found == [], "the event loop holds tasks only weakly"


def broad(source: Source) -> set[tuple[str, str]]:
    """Return the functions that catch everything and do not raise it again."""
    found = set()
    for name, node in source.within():
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not _raises_again(node):
            found.add((str(source), name))
    return found


def _catches_all(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or dotted(one) in ("Exception", "BaseException") for one in caught)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_everything_is_caught_only_in_the_named_rescues() -> None:
    found = {place for source in PRODUCT for place in broad(source)}
    assert found == set(RESCUES), "catch what you expect; a new rescue is argued here"


def test_no_test_is_left_out_and_none_waits_for_a_clock() -> None:
    banned = ("pytest.skip", "pytest.xfail", "pytest.importorskip", "time.sleep")
    calls = [f"{source}:{line} {name}" for source in TESTS for name, line in source.calls if name in banned]
    marks = ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail")
    for source in TESTS:
        written = {dotted(node) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
        calls += [f"{source} {name}" for name in written if name in marks]
    assert calls == [], "what a machine lacks: pytest.mark.needs"
