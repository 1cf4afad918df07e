"""One run: agents and mishaps for a while, then everything is whole again, settles, and is judged."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.app.bench import TOKEN
from tests.chaos.agents import Agent
from tests.chaos.dice import dice
from tests.chaos.judge import judge
from tests.chaos.mishaps import Mishaps
from tests.chaos.story import Errand, Evidence, arrivals_of
from tests.chaos.world import Sidecar, World, world

SETTLING_S: Final = 60.0
DEADLINES_PASSED_S: Final = 8.0  # The harvest end, and some more: from then on the provider executes nothing late.
UNSETTLED: Final = ("pending", "denied_unresolved")


@dataclass(frozen=True)
class Result:
    """What came of a run. `violations`: each with its story."""

    seed: int
    idempotency: bool
    evidence: Evidence
    mishaps: Counter[str]
    violations: list[str]
    bugs: list[str]

    def lines(self) -> list[str]:
        """Say it in figures."""
        evidence = self.evidence
        answers = Counter(told.label for errand in evidence.errands for told in errand.told)
        settled = Counter(
            action["settled_by"]["source"]
            for action in evidence.actions
            if action["was_unknown"] and action["settled_by"]
        )
        faults = Counter(a.fault for a in evidence.arrivals if a.fault)
        executed = sum(arrival.executed for arrival in evidence.arrivals)
        causes = Counter(action["unknown_cause"] for action in evidence.actions if action["was_unknown"])
        return [
            f"seed {self.seed}, the provider {'keeps' if self.idempotency else 'knows no'} idempotency keys",
            f"  errands       {len(evidence.errands)}, of {sum(answers.values())} requests",
            f"  answers       {_counted(answers)}",
            f"  provider      {len(evidence.arrivals)} writes arrived, {executed} executed",
            f"  faults met    {_counted(faults)}",
            f"  mishaps       {_counted(self.mishaps)}",
            f"  actions       {_counted(Counter(action['status'] for action in evidence.actions))}",
            f"  once unknown  {_counted(causes)}",
            f"  settled by    {_counted(settled)}",
            f"  violations    {len(self.violations)}, bugs in the logs {len(self.bugs)}",
        ]


def _counted(counter: "Counter[str]") -> str:
    return (
        ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=lambda p: (-p[1], p[0]))) or "none"
    )


async def run(folder: Path, *, seconds: float, seed: int, idempotency: bool, agents: int = 12) -> Result:
    """Run it all. `seconds` of mishaps; healing and settling come on top."""
    async with world(folder, idempotency=idempotency) as stage:
        errands: list[Errand] = []
        stopping = asyncio.Event()
        mishaps = Mishaps(stage, seed, pace=1.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(mishaps.run(stopping))
            for nth in range(agents):
                group.create_task(_work(stage, seed, nth, agents, errands, stopping))
            await asyncio.sleep(seconds)
            stopping.set()
        evidence = await _settled(stage, errands)
        bugs = [line for sidecar in stage.sidecars for line in bugs_in(sidecar.log)]
        return Result(seed, idempotency, evidence, mishaps.done, judge(evidence), bugs)


def bugs_in(log: str) -> list[str]:
    """Return what a sidecar says that only a bug of ours makes it say."""
    return [line for line in log.splitlines() if "Traceback" in line or '"level": "error"' in line]


async def _work(stage: World, seed: int, nth: int, agents: int, errands: list[Errand], stopping: asyncio.Event) -> None:
    """Do errands until it is time. Their numbers are this agent's own, so that a seed tells the same story again."""
    agent = Agent(dice(seed, f"agent {nth}"), tuple(stage.sidecars), lambda *a: _charge(stage, *a))
    number = nth
    while not stopping.is_set():
        errands.append(await agent.run(f"errand-{number}"))
        number += agents


async def _charge(stage: World, charge_id: str, amount: int) -> str:
    await stage.provider.ask("POST", "charges", {"charge_id": charge_id, "amount": amount})
    return charge_id


async def _settled(stage: World, errands: list[Errand]) -> Evidence:
    """Let the provider be well, wait until nothing changes any more, and look at everything."""
    await stage.provider.ask("POST", "faults/clear")
    await asyncio.sleep(DEADLINES_PASSED_S)
    arrivals = arrivals_of(await stage.provider.ask("GET", "journal"))
    executed = {arrival.key for arrival in arrivals if arrival.executed}
    async with Operator(stage.sidecars[0]) as operator:
        until = time.monotonic() + SETTLING_S
        while time.monotonic() < until:
            actions = await operator.actions()
            open_ = [a for a in actions if a["status"] in UNSETTLED]
            readable = [a for a in open_ if a["status"] == "pending" or a["idempotency_key"] in executed]
            if not readable:
                break
            for action in open_:
                await operator.reconcile(action["action_id"])
            await asyncio.sleep(0.5)
        arrivals = arrivals_of(await stage.provider.ask("GET", "journal"))
        return Evidence(
            arrivals=arrivals,
            actions=await operator.actions(),
            errands=errands,
            exposure=(await operator.ask("GET", "exposure"))["data"],
            limits=(await operator.ask("GET", "limits"))["data"],
        )


class Operator:
    """Whoever has the token of a sidecar's admin port."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._base = f"http://127.0.0.1:{sidecar.admin}/api/v1"

    async def __aenter__(self) -> "Operator":
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str) -> Mapping[str, Any]:
        """Ask the admin API."""
        async with self._session.request(method, f"{self._base}/{path}") as answer:
            said: Mapping[str, Any] = await answer.json()
            return said

    async def actions(self) -> list[Mapping[str, Any]]:
        """Return every action there is."""
        found: list[Mapping[str, Any]] = []
        cursor = ""
        while True:
            page = await self.ask("GET", f"actions?limit=200{cursor}")
            found += page["data"]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    async def reconcile(self, action_id: str) -> None:
        """Ask the provider's record now; a refusal (too early, settled meanwhile) is as good an answer."""
        await self.ask("POST", f"actions/{action_id}/reconcile")
