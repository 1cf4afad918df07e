"""What commands share: options, the configuration, and where the admin port is."""

import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from proxy.config import Complaints, Config, load

F = TypeVar("F", bound=Callable[..., Any])

REFUSED = 1
BAD_USAGE = 2


def config_option(command: F) -> F:
    """Add `--config`."""
    return click.option(
        "--config", "config_path", metavar="FILE", default=lambda: os.environ.get("DOUBTLESS_CONFIG"), help="TOML file."
    )(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def configuration(path: str | None) -> Config:
    """Read the configuration, or say every complaint and exit 2."""
    try:
        return load(path, os.environ)
    except Complaints as wrong:
        complain(wrong)


def complain(wrong: Complaints) -> NoReturn:
    """Say every complaint: setting, value, rule."""
    click.echo(f"The configuration cannot be used ({len(wrong.complaints)}):", err=True)
    for complaint in wrong.complaints:
        click.echo(f"  {complaint.setting} = {complaint.value}: {complaint.rule}", err=True)
    sys.exit(BAD_USAGE)


class AdminPort:
    """The admin API of a running instance."""

    def __init__(self, config_path: str | None) -> None:
        self._url = os.environ.get("DOUBTLESS_ADMIN_URL", "").rstrip("/")
        self._token = os.environ.get("DOUBTLESS_ADMIN_TOKEN", "")
        if self._url and not self._url.startswith(("http://", "https://")):
            raise click.UsageError("DOUBTLESS_ADMIN_URL must begin with http:// or https://.")
        if self._url and self._token:
            return
        config = configuration(config_path)
        if not self._url:
            if config.listen.admin is None:
                raise click.UsageError("listen.admin is off; say DOUBTLESS_ADMIN_URL.")
            self._url = f"http://{config.listen.admin}"
        self._token = self._token or _token(config)

    def ask(self, method: str, path: str, body: "dict[str, Any] | None" = None) -> Any:
        """Ask the API; its answer. Exits 1 where it refuses or cannot be reached."""
        request = urllib.request.Request(  # noqa: S310  # The scheme is http or https: checked above, or written by us.
            f"{self._url}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # Not through the proxy that we may be.
        try:
            with direct.open(request, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            refuse(_said(refused))
        except OSError as unreachable:
            reason = getattr(unreachable, "reason", unreachable)
            why = getattr(reason, "strerror", None) or type(reason).__name__
            refuse(f"The admin port does not answer at {self._url} ({why}). Is `serve` running?")
        except (ValueError, http.client.HTTPException):
            refuse(f"What answers at {self._url} is no admin port of Doubtless.")


def _token(config: Config) -> str:
    """Return an operator's token if there is one, else a viewer's, else that of the embedded folder's file."""
    for token in sorted(config.admin.tokens, key=lambda t: t.role):
        return token.token[0].reveal()
    path = Path(config.store.url.folder or Path(config.state.spool).parent) / "admin.token"
    try:
        return path.read_text("ascii").strip()
    except OSError:
        raise click.UsageError(
            f"No token: configure admin.tokens, set DOUBTLESS_ADMIN_TOKEN, or run where {path} can be read."
        ) from None


def _said(refused: urllib.error.HTTPError) -> str:
    try:
        said = json.load(refused)
        until = f" (until {said['until']})" if said.get("until") else ""
        return f"{said['code']}: {said['message']}{until}"
    except (ValueError, KeyError, TypeError):
        return f"The admin port answered {refused.code}."


def refuse(message: str) -> NoReturn:
    """Say why it is not done, and exit 1."""
    click.echo(message, err=True)
    sys.exit(REFUSED)


def show_json(value: Any) -> None:
    """Print JSON."""
    click.echo(json.dumps(value, indent=2))
