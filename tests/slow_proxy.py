"""A proxy that holds a server's answers back."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any


class Slow:
    """A proxy of a server over tcp. After a number of bytes to a client it stops, until it is told to go on."""

    def __init__(self, uri: str, after: int | None = None, port: int = 0) -> None:
        host, _, there = uri.removeprefix("tcp://").rpartition(":")
        self._to = (host, int(there))
        self._after = after
        self.stopped, self.go_on = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.uri = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[Any] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(self._to)
            except ConnectionRefusedError:
                one.close()
                continue
            self._sockets += [one, other]
            for source, sink, limit in ((one, other, None), (other, one, self._after)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink, limit))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: Any, sink: Any, limit: int | None) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                passed += len(data)
                if limit is not None and passed > limit:
                    self.stopped.set()
                    self.go_on.wait()
                sink.sendall(data)
            sink.shutdown(1)
        except OSError:
            return

    def close(self) -> None:
        self.go_on.set()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()
