"""One governed write from its first commit to its answer: every await of the product's logic, over the ports.

`asking` the request and its answer as values · `drafting` what a request is called · `admission` first commit, second
requests · `dispatching` one try and its harvest · `applying` an event to the record · `notebook` what could not be
applied yet · `pricing` what the request does not carry · `retiring` what leaves the store
"""

from proxy.engine.asking import Answer, Ask, Asker, Provided
from proxy.engine.engine import Engine
from proxy.engine.settings import Settings

__all__ = ["Answer", "Ask", "Asker", "Engine", "Provided", "Settings"]
