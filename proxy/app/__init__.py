"""Builds each thing once, starts it in order, and drains it.

parts        what the configuration says, as the parts take it
ledger       the store: begun or found, waited for, looked at before anything is written
instance     what every instance of ours is made of, from its first probe to its end
standalone   `serve`: an instance with doors for agents
hub          `hub`: an instance without
surroundings what `doctor` sees of the configuration and the machine
doctor       that, and the store: connected to where it runs, tried out where it does not
running      a process of one instance, until a signal ends it
"""

from proxy.app.hub import Hub
from proxy.app.instance import Instance
from proxy.app.ledger import Refused
from proxy.app.running import run
from proxy.app.standalone import App

__all__ = ["App", "Hub", "Instance", "Refused", "run"]
