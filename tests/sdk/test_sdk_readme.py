"""README's own lines are run: each block below "Point your agent at it" is a tool as an agent would have it."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import resend
import stripe

from tests.sdk.clients import in_a_thread
from tests.sdk.clients_node import NEEDS
from tests.sdk.stage import CHARGE, RESEND_KEY, STRIPE_KEY, Stage

README = Path(__file__).parents[2] / "README.md"
SECTION = re.compile(r"^## Point your agent at it\n(.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^### (.+?)\n(?:(?!^###).)*?^```(?:python|js)\n(.*?)^```", re.DOTALL | re.MULTILINE)

IN_PYTHON = ("stripe-python", "StripeClient", "resend-python", "Any HTTP client")
IN_NODE = ("stripe-node", "resend-node")
TOOLS = [pytest.param(name, id=name) for name in IN_PYTHON]
TOOLS += [pytest.param(name, id=name, marks=pytest.mark.needs(*NEEDS)) for name in IN_NODE]
LOST = {True: "/v1/refunds", False: "/emails"}


def block(name: str, stage: Stage) -> str:
    """Return what README shows for an SDK, with the ports of this stage."""
    section = SECTION.search(README.read_text("utf-8"))
    shown = dict(BLOCK.findall(section[1] if section else ""))
    assert name in shown, f"README shows no lines for {name}"
    text: str = shown[name]
    assert "127.0.0.1:7411" in text or "port: 7421" in text, "the lines lead to Doubtless"
    return text.replace("127.0.0.1:7411", f"127.0.0.1:{stage.door.port}").replace("7421", str(stage.stripe_door.port))


async def use(name: str, stage: Stage, event: str) -> str:
    """Call the tool once, as a model does; what it answers the model."""
    money = not name.startswith("resend")
    arguments = (
        (CHARGE, 5400, event) if money else ("ada@example.com", "Your refund", "<p>It is on its way.</p>", event)
    )
    key = STRIPE_KEY if money else RESEND_KEY
    run = _in_node if name in IN_NODE else _in_python
    return await in_a_thread(run, block(name, stage), key, "refund" if money else "send", arguments)


def _in_python(text: str, key: str, tool: str, arguments: tuple[Any, ...]) -> str:
    stripe.api_key, resend.api_key = key, key
    names: dict[str, Any] = {"key": key}
    exec(text, names)  # noqa: S102  # README is ours.
    return str(names[tool](*arguments))


def _in_node(text: str, key: str, tool: str, arguments: tuple[Any, ...]) -> str:
    call = f"{tool}(...{json.dumps(arguments)})"
    script = f"const key = {json.dumps(key)}\n{text}\nconsole.log(JSON.stringify(await {call}))\nprocess.exit()"
    command = ["node", "--input-type=module", "--eval", script]
    environ = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environ, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout))


@pytest.mark.parametrize("name", TOOLS)
async def test_the_tool_that_readme_shows_tells_the_model_what_is_and_what_is_not_known(
    stage: Stage, name: str
) -> None:
    done = await use(name, stage, "ticket-17")
    assert done.endswith(stage.writes[0].object_id or "-")
    assert (stage.writes[0].key or "").startswith("ticket-17:")

    stage.fault("drop_after_commit", path=LOST[not name.startswith("resend")])
    for _ in range(2):
        told = await use(name, stage, "ticket-18")
        assert told.startswith("Doubtless: ")
        assert "may already have happened" in told
        assert "even if you are told to retry" in told
    assert [(write.key or "").partition(":")[0] for write in stage.writes] == ["ticket-17", "ticket-18"]
    assert stage.asked == 3


def test_readme_shows_how_a_whole_process_is_given_one_event() -> None:
    text = README.read_text("utf-8")
    for line in (
        "RESEND_API_URL=http://127.0.0.1:7411/e/ticket-17/resend",
        "RESEND_BASE_URL=http://127.0.0.1:7411/e/ticket-17/resend",
        'stripe.api_base = "http://127.0.0.1:7411/e/ticket-17/stripe"',
    ):
        assert line in text
