"""Which request a fault meets and how often, and what a stop and a reset do with what is held."""

from pathlib import Path

import pytest
from standin_client import REFUND, Client, Hands

from proxy.edges.standin import Fault, Kind, Listener, StandIn


@pytest.fixture(autouse=True)
def a_charge(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")


async def test_a_fault_meets_its_requests_only_and_only_so_often(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(
        Fault("status_without_commit", provider="stripe", method="POST", path="/v1/ref.*", skip=1, times=2)
    )
    form = {"charge": "ch_1", "amount": "1"}
    statuses = [
        (await stripe.post(path, form)).status
        for path in ("/v1/refunds", "/v1//refunds/", "/v1/refunds", "/v1/refunds")
    ]
    assert statuses == [200, 500, 500, 200]
    assert fault.hits == 2
    assert (await stripe.get("/v1/refunds")).status == 200


async def test_a_fault_for_ever_strikes_until_it_is_cleared(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_without_commit", times=None, path="/v1/.*"))
    assert {(await stripe.get("/v1/refunds")).status for _ in range(5)} == {500}
    standin.faults.clear()
    assert (await stripe.get("/v1/refunds")).status == 200


async def test_a_fault_of_the_other_provider_does_not_strike(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("drop_before_read", provider="resend"))
    standin.faults.add(Fault("html_502", provider="resend"))
    assert (await stripe.post("/v1/refunds", REFUND)).status == 200


async def test_a_fault_about_a_commit_that_names_no_request_leaves_reads_alone(
    standin: StandIn, stripe: Client
) -> None:
    standin.faults.add(Fault("status_after_commit"))
    assert (await stripe.get("/v1/charges/ch_1")).status == 200
    assert (await stripe.post("/v1/refunds", REFUND)).status == 500


async def test_a_read_can_be_cut_too(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("truncate_after_commit", method="GET"))
    line = await stripe.sent("GET", "/v1/charges/ch_1")
    data, how = await line.rest()
    assert (data[:15], how, standin.executions()) == (b"HTTP/1.1 200 OK", "fin", 0)


async def test_faults_of_different_stages_strike_the_same_request(standin: StandIn, stripe: Client) -> None:
    hold = standin.faults.add(Fault("hold_after_commit"))
    standin.faults.add(Fault("drop_after_commit", how="rst"))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    await hold.reached()
    hold.release()
    assert await line.rest() == (b"", "rst")
    assert standin.executions() == 1


async def test_of_two_faults_of_one_stage_the_first_strikes_first(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_without_commit", status=503))
    standin.faults.add(Fault("status_without_commit", status=429))
    assert [(await stripe.post("/v1/refunds", REFUND)).status for _ in range(3)] == [503, 429, 200]


async def test_a_name_that_is_no_fault_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="drop_everything"):
        Fault("drop_everything")


def test_every_kind_of_fault_has_a_test() -> None:
    source = "".join(file.read_text() for file in Path(__file__).parent.glob("test_standin_faults_*.py"))
    assert [kind for kind in Kind if f'"{kind.value}"' not in source] == []


async def test_a_port_that_is_shut_is_given_up_with_the_rest(hands: Hands) -> None:
    async with StandIn(clock=hands) as standin:
        await standin.shut("resend")
        port = standin.port("resend")
    async with StandIn(clock=hands, listen=[Listener("resend", port=port)]) as standin:
        assert standin.port("resend") == port


async def test_a_failure_of_the_stand_in_itself_is_not_passed_over(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    standin = StandIn(clock=hands)
    await standin.start()
    monkeypatch.setattr("proxy.edges.standin.stripe.read", fail)
    client = Client(standin.port("stripe"), secret="sk_test_mine")
    line = await client.sent("GET", "/v1/balance")
    assert (await line.rest())[0] == b""
    with pytest.raises(BaseExceptionGroup, match="stand-in itself"):
        await standin.stop()
    client.close()


async def test_stopping_drops_what_is_held_and_executes_nothing(hands: Hands) -> None:
    standin = StandIn(clock=hands)
    await standin.start()
    standin.seed_charge(5400, charge_id="ch_1")
    fault = standin.faults.add(Fault("hold_before_commit"))
    client = Client(standin.port("stripe"), secret="sk_test_mine")
    line = await client.sent("POST", "/v1/refunds", REFUND)
    await fault.reached()
    await standin.stop()
    assert (await line.rest())[0] == b""
    assert standin.refunds() == []
    client.close()


async def test_a_reset_lets_go_what_is_held_into_what_is_forgotten(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("hold_before_commit"))
    line = await stripe.sent("POST", "/v1/refunds", REFUND, key="k")
    await fault.reached()
    standin.reset()
    assert (await line.hear()).status == 200
    assert (standin.refunds(), len(standin.journal)) == ([], 0)
