"""A process that owns an embedded store, writes one acknowledged record and waits to be killed.

    python owner.py FOLDER

Prints the store's URL and the process IDs of its keeper and its server. It ends when its standard input does.
"""

import asyncio
import json
import sys

import redis

from proxy.edges.embedded import Embedded


async def own(folder: str) -> None:
    store = Embedded(folder, allow_ephemeral=True)
    url = await store.start()
    store.write_instance("owner-1")
    with redis.Redis.from_url(url) as client:
        client.set("refund", "54.00")
        server = client.info()["process_id"]
    keeper = store._keeper.pid
    print(json.dumps({"url": url, "keeper": keeper, "server": server, "key": store.state_key()}), flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)
    await store.stop()


asyncio.run(own(sys.argv[1]))
