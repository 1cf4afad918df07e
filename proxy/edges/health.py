"""The health port: probes and metrics, and no secrets."""

from collections.abc import Callable

from aiohttp import web

from proxy.edges.metrics import Metrics


class Health:
    """What a probe may ask. `/livez` knows nothing of store or providers: a restart would not mend those."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.started = False
        self.draining = False
        self.store_answers: Callable[[], bool] = lambda: False

    def application(self) -> web.Application:
        """Return the application, with its routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/healthz", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/startupz", self._startupz),
                web.get("/metrics", self._exposition),
            ]
        )
        return app

    async def _livez(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        if self.draining:
            return web.Response(text="draining\n", status=503)
        if not self.started:
            return web.Response(text="starting\n", status=503)
        if not self.store_answers():
            return web.Response(text="the store does not answer\n", status=503)
        return web.Response(text="ok\n")

    async def _startupz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n" if self.started else "starting\n", status=200 if self.started else 503)

    async def _exposition(self, request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )
