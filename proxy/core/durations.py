"""Durations as people write them: `300ms`, `1.3s`, `5m`, `20h`, `90d`."""

import re
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)")


def parse_ms(text: str) -> int | None:
    """Return the milliseconds, rounded; None where the text is no duration."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else round(float(match[1]) * _UNITS_MS[match[2]])
