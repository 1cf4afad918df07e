"""The configuration: frozen values with their units in their names, or every complaint at once.

`sections` and `model` say what may be set; `reading` reads it; the other modules are the kinds of values.
"""

from proxy.config.address import Address, Network, Origin
from proxy.config.complaint import Complaint, Complaints
from proxy.config.load import load, settings
from proxy.config.model import Admin, Config, Limit, Provider, Token
from proxy.config.secret import Secret, key_bytes
from proxy.config.sections import Bounds, Deadlines, Egress, Event, Listen, Log, Notify, Readback, State, Store
from proxy.config.store_url import StoreKind, StoreUrl

__all__ = [
    "Address",
    "Admin",
    "Bounds",
    "Complaint",
    "Complaints",
    "Config",
    "Deadlines",
    "Egress",
    "Event",
    "Limit",
    "Listen",
    "Log",
    "Network",
    "Notify",
    "Origin",
    "Provider",
    "Readback",
    "Secret",
    "State",
    "Store",
    "StoreKind",
    "StoreUrl",
    "Token",
    "key_bytes",
    "load",
    "settings",
]
