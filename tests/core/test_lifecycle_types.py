"""What the type checker refuses by itself: an acceptance without a confirmed delivery, and a forgotten event.

mypy runs once, with the project's own settings, over all the snippets and over copies of `lifecycle` that lack an arm.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

import pytest

from proxy.core import lifecycle
from proxy.core.events import Event
from proxy.core.model import Acceptance, DeliveryFailed, DeliveryPending, NotDispatched

ROOT: Final = Path(__file__).parents[2]
EVENTS: Final = tuple(event.__name__ for event in get_args(Event))
HEAD: Final = (
    "from proxy.core.model import Acceptance, Action, Delivery, DeliveryConfirmed, DeliveryFailed, DeliveryPending\n"
    "from proxy.core.model import NotDispatched\n"
)

FINE: Final = {
    "accepted_where_confirmed": "x: Delivery = DeliveryConfirmed(Acceptance.ACCEPTED)",
    "rejected_where_confirmed": "x: Delivery = DeliveryConfirmed(Acceptance.REJECTED)",
    "pending_where_confirmed": "x: Delivery = DeliveryConfirmed()",
    "read_of_any": "def f(action: Action) -> Acceptance:\n    return action.acceptance",
}
REFUSED: Final = {
    "accepted_for_a_pending_one": ("x: DeliveryPending = DeliveryConfirmed(Acceptance.ACCEPTED)", "assignment"),
    "rejected_for_a_failed_one": ("x: DeliveryFailed = DeliveryConfirmed(Acceptance.REJECTED)", "assignment"),
    "an_acceptance_of_a_pending_one": ("x = DeliveryPending().acceptance", "attr-defined"),
    "an_acceptance_of_a_failed_one": ("x = DeliveryFailed().acceptance", "attr-defined"),
    "an_acceptance_of_none": ("x = NotDispatched().acceptance", "attr-defined"),
    "an_acceptance_of_any": ("def f(delivery: Delivery) -> Acceptance:\n    return delivery.acceptance", "union-attr"),
    "a_word_for_an_acceptance": ('x = DeliveryConfirmed("accepted")', "arg-type"),
    "an_acceptance_for_a_delivery": ("x: Delivery = Acceptance.ACCEPTED", "assignment"),
    "an_acceptance_set_beside": ("def f(action: Action) -> None:\n    action.acceptance = Acceptance.ACCEPTED", "misc"),
    "an_acceptance_given_to_the_action": (
        "from proxy.core.model import Effect, Identity, Tier\n"
        "def f(ident: Identity) -> Action:\n"
        "    return Action(ident, Effect.MONEY, Tier.FULL, 0, acceptance=Acceptance.ACCEPTED)",
        "call-arg",
    ),
    "a_status_set_beside": (
        "from proxy.core.model import Status\ndef f(action: Action) -> None:\n    action.status = Status.CONFIRMED",
        "misc",
    ),
}
FORGETFUL: Final = "from proxy.core.events import *\ndef f(event: Event) -> int:\n    match event:\n{arms}"


def without(event: str) -> str:
    """Return the text of `lifecycle` whose `step` has no arm for the event."""
    text = Path(lifecycle.__file__).read_text()
    arm = re.compile(rf"        case {event}\([^\n]*\):\n(?:            [^\n]*\n)+")
    assert len(arm.findall(text)) == 1, event
    return arm.sub("", text, count=1)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what mypy says of each snippet, by name."""
    folder = tmp_path_factory.mktemp("snippets")
    texts = {f"fine_{name}": HEAD + text + "\n" for name, text in FINE.items()}
    texts |= {f"refused_{name}": HEAD + text + "\n" for name, (text, _) in REFUSED.items()}
    texts |= {f"without_{name.lower()}": without(name) for name in EVENTS}
    texts["forgetful"] = FORGETFUL.format(
        arms="".join(f"        case {e}():\n            return 1\n" for e in EVENTS[1:])
    )
    texts["mindful"] = FORGETFUL.format(arms="".join(f"        case {e}():\n            return 1\n" for e in EVENTS))
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(folder / "cache")]
    files = [str(folder / f"{name}.py") for name in texts]
    said = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 1, said.stdout + said.stderr
    out: dict[str, str] = defaultdict(str)
    for line in said.stdout.splitlines():
        out[Path(line.partition(":")[0]).stem] += line + "\n"
    return out


@pytest.mark.parametrize("name", FINE)
def test_an_acceptance_where_delivery_is_confirmed_type_checks(name: str, errors: dict[str, str]) -> None:
    assert errors.get(f"fine_{name}", "") == ""


@pytest.mark.parametrize("name", REFUSED)
def test_an_acceptance_without_a_confirmed_delivery_does_not_type_check(name: str, errors: dict[str, str]) -> None:
    assert f"[{REFUSED[name][1]}]" in errors[f"refused_{name}"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_step_that_forgets_an_event_does_not_type_check(event: str, errors: dict[str, str]) -> None:
    assert f'"{event}"; expected "Never"' in errors[f"without_{event.lower()}"]


@pytest.mark.parametrize("kind", [DeliveryPending, DeliveryFailed, NotDispatched])
@pytest.mark.parametrize("acceptance", Acceptance)
def test_no_delivery_but_a_confirmed_one_takes_an_acceptance(
    kind: Callable[..., object], acceptance: Acceptance
) -> None:
    # The checker lets the extra argument pass: it makes no constructor for a struct without fields. msgspec does not.
    with pytest.raises(TypeError):
        kind(acceptance)


def test_a_match_that_forgets_an_event_does_not_type_check_even_without_a_last_arm(errors: dict[str, str]) -> None:
    assert "[exhaustive-match]" in errors["forgetful"]
    assert errors.get("mindful", "") == ""
