"""Logs: one line an event, for people or as JSON. What agents and providers say is never in them, only what it was."""

import logging
import sys
from typing import Final

import structlog

from proxy.core import view
from proxy.core.model import Action, Status

_log = structlog.get_logger(__name__)
_LEVELS: Final = {Status.DENIED_UNRESOLVED: "warning", Status.FAILED: "info"}  # What went well is not worth a line.


def set_up(level: str, form: str) -> None:
    """Set up structlog once for the process; aiohttp's and asyncio's own lines go the same way, from warnings on."""
    number = logging.getLevelNamesMapping()[level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s", force=True)


def action_line(action: Action) -> None:
    """Write the line of an action that came to a new status."""
    _write(_LEVELS.get(action.status, "debug"), view.word(action.status.value, action.grade.value), action)


def settled_line(action: Action) -> None:
    """Write the line of an action that had been unknown and is settled."""
    by = action.settled_by.source.value if action.settled_by is not None else None
    _write("info", f"settled: {view.word(action.status.value, action.grade.value)}", action, by=by)


def _write(level: str, text: str, action: Action, **more: object) -> None:
    cause = action.cause.value if action.cause is not None else None
    getattr(_log, level)(text, action_id=action.action_id, action_type=action.identity.route, cause=cause, **more)
