"""What a process needs to pass memory on to other processes: a server of its own, and clients of others."""

from __future__ import annotations

import itertools
import os
import resource
import threading
from typing import TYPE_CHECKING, Literal

from crossdock.client import Client, connect
from crossdock.errors import ConnectionError, TruncatedStreamError
from crossdock.server import Server, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock import _native
    from crossdock._typing import Wait

__all__ = ["Exchange", "descriptors_are_few"]

# Descriptors that aren't used for memory: connections, files and threads of the program need some, and a receiver that
# has mapped as much memory as its sender has lent needs the same.
_DESCRIPTORS_KEPT = 64


def descriptors_are_few() -> bool:
    """Returns whether this process should take no more descriptors for memory that it passes on."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return False
    used = os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # the size is 0 before Linux 6.2
    return used >= limit - max(_DESCRIPTORS_KEPT, limit // 10)


class Exchange:
    """A server, which is started when it is first needed, and a client of each server that was asked. Thread-safe.

    start: makes the server. None: one that listens over shm, at a name of its own.

    A process that was forked needs a new one: the server and the clients are the parent's.
    """

    def __init__(self, start: Callable[[], Server] | None = None) -> None:
        self.lock = threading.Lock()
        self.names = itertools.count()
        self._start = start or (lambda: serve({}, "shm:"))
        self._server: Server | None = None
        self._clients: dict[str, Client] = {}

    def server(self) -> Server:
        """Returns the server of this process."""
        with self.lock:
            if self._server is None:
                self._server = self._start()
            return self._server

    def running(self) -> Server | None:
        """Returns the server of this process, if it was started."""
        with self.lock:
            return self._server

    def take_server(self) -> Server | None:
        """Returns the server, if there is one, and forgets it: the caller closes it."""
        with self.lock:
            server, self._server = self._server, None
        return server

    def client(self, uri: str, token: str | None = None) -> Client:
        """Returns the client of the server at `uri`: the one from last time, if there is one. Raises the errors of
        `connect()`."""
        with self.lock:
            client = self._clients.get(uri)
        if client is None:
            made = connect(uri, token=token)
            with self.lock:
                others = list(self._clients.items())
                client = self._clients.setdefault(uri, made)
            if client is not made:
                made.close()
            for other, its_client in others:  # else each process that has ever sent something costs descriptors
                if not its_client._native.drop_ended():
                    self._drop(other, its_client)
        return client

    def get(
        self,
        uri: str,
        name: str,
        token: str | None = None,
        *,
        wait: Wait = "auto",
        writable: Literal[False, "copy-on-write"] = False,
    ) -> _native.RecordBatchReader:
        """Requests `name` from the server at `uri`. Tries a second time with a new client where the one from last time
        has lost its connection: another process may listen there by now. Raises the errors of `connect()` and
        `Client.get()`."""
        client = self.client(uri, token)
        try:
            return client.get(name, wait=wait, writable=writable)
        except (ConnectionError, TruncatedStreamError):
            self._drop(uri, client)
        return self.client(uri, token).get(name, wait=wait, writable=writable)

    def _drop(self, uri: str, client: Client) -> None:
        """Forgets a client. What it received, and requests of other threads that are under way, stay valid."""
        with self.lock:
            if self._clients.get(uri) is client:
                del self._clients[uri]
