"""The stand-in's own paths, below /_standin/: what a sandbox's user can see and set by HTTP.

GET  /_standin/journal               every request that arrived (bodies and heads as latin-1 text)
GET  /_standin/objects               every object and event, by account and mode
GET  /_standin/faults                the faults that are armed
POST /_standin/faults                arm one: the fields of `Fault`; answers with its number
POST /_standin/faults/<n>/release    let what it holds go on
POST /_standin/faults/clear          disarm all; whatever they hold goes on
POST /_standin/charges               seed a charge: amount, currency, charge_id, mode, account
POST /_standin/reset                 forget everything
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy.edges.standin.faults import Fault
from proxy.edges.standin.provider import Call, Json
from proxy.edges.standin.wire import Answer

if TYPE_CHECKING:
    from proxy.edges.standin.server import StandIn

_BYTES: Final = frozenset({"body", "data"})


class _Charge(msgspec.Struct, forbid_unknown_fields=True):
    amount: int = 5400
    currency: str = "usd"
    charge_id: str | None = None
    mode: str = "test"
    account: str | None = None


class Refused(Exception):
    """The request is not one of those above, or says something that is no fault."""


def fault_from(fields: Json) -> Fault:
    """Make a fault of JSON: bytes are written as latin-1 text, headers as a list of pairs."""
    given = {name: value for name, value in fields.items() if name != "gate"}
    try:
        for name in _BYTES & given.keys():
            given[name] = given[name].encode("latin-1")
        given["headers"] = [[part.encode("latin-1") for part in pair] for pair in given.get("headers", ())]
        given["chunks"] = [piece | {"data": piece["data"].encode("latin-1")} for piece in given.get("chunks", ())]
    except (AttributeError, KeyError, TypeError, UnicodeError) as problem:
        raise Refused(f"body, data, headers and chunks hold text: {problem!r}") from None
    return msgspec.convert(given, Fault)


def _shown(value: Any) -> Any:
    """Show bytes as latin-1 text: each is one character, and nothing is lost."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case tuple() | list():
            return [_shown(item) for item in value]
        case dict():
            return {name: _shown(item) for name, item in value.items()}
        case _:
            return value


def fault_shown(number: int, fault: Fault) -> Json:
    """Show a fault: its number, what it is, and how often it struck."""
    fields = {name: getattr(fault, name) for name in fault.__struct_fields__ if name not in ("gate", "chunks")}
    return {"number": number, "hits": fault.hits} | {name: _shown(value) for name, value in fields.items()}


class Control:
    """Answers the paths below /_standin/."""

    def __init__(self, standin: "StandIn") -> None:
        self._standin = standin

    def __call__(self, call: Call) -> Answer:
        """Answer one request."""
        try:
            return _json(200, self._route(call))
        except (Refused, LookupError, ValueError, msgspec.MsgspecError) as problem:
            return _json(400, {"message": str(problem) or type(problem).__name__})

    def _route(self, call: Call) -> Any:
        standin = self._standin
        match call.method, call.path.removeprefix("/_standin/").split("/"):
            case "GET", ["journal"]:
                return [_shown(msgspec.structs.asdict(arrival)) for arrival in standin.journal]
            case "GET", ["objects"]:
                return standin.objects()
            case "GET", ["faults"]:
                return [fault_shown(number, fault) for number, fault in enumerate(standin.faults, 1)]
            case "POST", ["faults"]:
                standin.faults.add(fault_from(msgspec.json.decode(call.body, type=dict[str, Any])))
                return {"number": len(list(standin.faults))}
            case "POST", ["faults", "clear"]:
                standin.faults.clear()
                return {}
            case "POST", ["faults", number, "release"]:
                list(standin.faults)[int(number) - 1].release()
                return {"number": int(number)}
            case "POST", ["charges"]:
                return standin.seed_charge(
                    **msgspec.structs.asdict(msgspec.json.decode(call.body or b"{}", type=_Charge))
                )
            case "POST", ["reset"]:
                standin.reset()
                return {}
            case _:
                raise Refused(f"no such path: {call.method} {call.path}")


def _json(status: int, body: Any) -> Answer:
    return Answer(status, ((b"Content-Type", b"application/json"),), msgspec.json.encode(body))
