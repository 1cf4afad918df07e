"""The official Node SDKs, in a Node process."""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.sdk.clients import PYTHON, Client, Told, Wish, in_a_thread
from tests.sdk.stage import RESEND_KEY, STRIPE_KEY

SCRIPT: Final = Path(__file__).with_name("agent.cjs")
NEEDS: Final = ("node", "the Node SDKs (`make node`)")


class Agent:
    """A Node process that makes calls, a line of them at a time."""

    def __init__(self, **env: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            ["node", str(SCRIPT)], env={"PATH": os.environ["PATH"], **env}, stdin=pipe, stdout=pipe
        )

    def call(self, told: dict[str, Any]) -> list[Told]:
        """Make all calls at once; what each came to."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(told).encode() + b"\n")
        stdin.flush()
        return [Told(**one) for one in json.loads(stdout.readline())]

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


class _Standing:
    """The one agent of a session: a Node process takes long to start."""

    agent: Agent | None = None


def end_agent() -> None:
    """End the agent of the session, if there is one."""
    if _Standing.agent is not None:
        _Standing.agent.end()
        _Standing.agent = None


async def node(sdk: str, calls: list[dict[str, Any]], env: dict[str, str] | None = None, **where: Any) -> list[Told]:
    """Make all calls at once, in the process of the session or, with `env`, in one of their own."""
    told = {"sdk": sdk, "key": STRIPE_KEY if sdk == "stripe" else RESEND_KEY, "calls": calls, **where}
    if env is not None:
        agent = Agent(**env)
        try:
            return await in_a_thread(agent.call, told)
        finally:
            agent.end()
    _Standing.agent = _Standing.agent or Agent()
    return await in_a_thread(_Standing.agent.call, told)


async def stripe_node(base: str, wish: Wish) -> Told:
    """stripe-node takes host and port only, so it speaks to the provider's own port."""
    place = urlsplit(base)
    (told,) = await node("stripe", [stripe_call(wish)], host=place.hostname, port=place.port)
    return told


def stripe_call(wish: Wish) -> dict[str, Any]:
    """Return the arguments of `stripe.refunds.create`."""
    return {"params": wish.refund(), "options": {"headers": wish.headers()} if wish.event else {}}


async def resend_node(base: str, wish: Wish) -> Told:
    """resend-node takes a base URL, and headers a call."""
    (told,) = await node("resend", [resend_call(wish)], base=f"{base}/resend")
    return told


def resend_call(wish: Wish) -> dict[str, Any]:
    """Return the arguments of `resend.emails.send`."""
    return {"params": wish.mail(), "options": {"headers": wish.headers()} if wish.event else {}}


NODE: Final = (
    Client("stripe-node", "stripe", stripe_node, resends=True, needs=NEEDS, own_port=True),
    Client("resend-node", "resend", resend_node, needs=NEEDS),
)
ALL: Final = PYTHON + NODE
_WARNS: Final = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")


def each(clients: Iterable[Client] = ALL) -> pytest.MarkDecorator:
    """Ask a test of every client; stripe-python's own way of using httpx is deprecated there."""
    needs = pytest.mark.needs
    params = [pytest.param(client, id=client.name, marks=[_WARNS, needs(*client.needs)]) for client in clients]
    return pytest.mark.parametrize("client", params)
