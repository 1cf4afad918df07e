"""The agent's side: sockets on which agents speak to us.

connection   one agent's connection: who is still there, and who has shown that the answer arrived
writing      answers as bytes: nothing added, nothing re-encoded
ways         what a request's path says: a provider, an event ID, or a page of our own
reading      a request's body, within the bounds
handler      one request from its head to its answer
"""

from proxy.edges.agents.handler import Handler, Limits
from proxy.edges.agents.listener import AgentServer
from proxy.edges.agents.ways import Ways

__all__ = ["AgentServer", "Handler", "Limits", "Ways"]
