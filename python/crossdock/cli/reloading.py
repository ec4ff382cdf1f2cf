"""What SIGHUP does to `crossdock serve --config`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import crossdock as xd
from crossdock._text import counted, shown
from crossdock.cli import reporting
from crossdock.cli.logs import change_logging
from crossdock.cli.running import GRACE_SECONDS, Running, StoppedError
from crossdock.cli.serve_setup import Authenticator, Setup, needing_restart
from crossdock.cli.tables import Tables

log = logging.getLogger("crossdock.cli")


class Reloader:
    """Applies the configuration anew: all of it, or, if anything in it is wrong, nothing. Used by the main thread."""

    def __init__(
        self,
        server: xd.Server,
        tables: Tables,
        started: Setup,
        read: Callable[[], Setup],
        authenticator: Authenticator | None,
        running: Running,
    ) -> None:
        self._server = server
        self._tables = tables
        self._started = started
        self._now = started
        self._read = read
        self._authenticator = authenticator
        self._running = running
        self._failure = ""

    def status(self) -> str:
        """A line for the service manager."""
        text = f"serving {counted(len(self._tables), 'table')} at {' '.join(self._server.uris)}"
        return f"{text}; the last reload has failed: {self._failure}" if self._failure else text

    def __call__(self) -> None:
        try:
            setup = self._read()
            changes = self._tables.update(setup.tables)
        except StoppedError:
            raise
        except Exception as error:  # whatever it is: the server goes on
            self._failure = shown(reporting.one_line(f"{type(error).__name__}: {error}"))
            log.error(
                "the reload has failed, and nothing has changed: %s",
                self._failure,
                exc_info=error if reporting.show_tracebacks else None,
            )
            return
        self._failure = ""
        if self._authenticator is not None and setup.logins is not None:
            self._authenticator.logins = setup.logins
        if self._started.ticket_keys and setup.ticket_keys and setup.ticket_keys != self._now.ticket_keys:
            self._server.replace_ticket_keys(setup.ticket_keys)
        self._now = setup
        apply_run_time_settings(setup, self._running)
        log.info("reloaded: %s", changes)
        if keys := needing_restart(self._started, setup):
            log.warning("these changes need a restart: %s", ", ".join(keys))


def apply_run_time_settings(setup: Setup, running: Running) -> None:
    change_logging(setup.settings.get("log_level"), setup.settings.get("log_json"))
    running.grace = setup.settings.get("grace", GRACE_SECONDS)
