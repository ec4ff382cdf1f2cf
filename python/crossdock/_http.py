"""A small HTTP server for what a program says of itself: GET alone, everything about a request is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple

from crossdock.errors import ConnectionError, InvalidArgumentError

__all__ = ["Answer", "HttpServer"]

MOST_CONNECTIONS = 256  # At once. For one more, the one that has waited the longest for its request is ended.
MOST_REQUEST = 8192  # Bytes of a request's first line and its headers.
REQUEST_SECONDS = 5.0  # For a whole exchange: the client is disconnected then, however far it is.

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def _said(status: int, text: str) -> Answer:
    return Answer(status, text.encode() + b"\n")


class HttpServer:
    """Answers GET requests on a thread of its own. One request for each connection, which is closed after it.

    Slow clients hold no thread: one thread serves all of them, and each has some seconds. Thread-safe. After a fork it
    belongs to the parent: the child's copy of the socket is closed.
    """

    def __init__(self, address: str, answer: Callable[[str, str], Answer]) -> None:
        """Listens before it returns.

        address: "HOST:PORT", as "127.0.0.1:9464" or "[::1]:9464". The host "*" is every address of the machine, and
            port 0 a free one.
        answer: called with the path and the value of the Accept header, on the server's thread. What it raises is
            answered with status 500, without its text.

        Raises `InvalidArgumentError` for another form of address, `ConnectionError` if it can't be listened at.
        """
        self._answer = answer
        self._pid = os.getpid()
        self._socket = _listening(address)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._open = 0
        self._waiting: dict[asyncio.Task[None], None] = {}  # for a request, the longest first
        self._exchanges: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="crossdock-http", daemon=True)
        _servers.add(self)
        self._thread.start()

    def close(self) -> None:
        """Stops listening, and ends exchanges that are under way. May be called twice. Does nothing in a forked
        child."""
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed before
            self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._socket.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._exchange, sock=self._socket, limit=MOST_REQUEST, backlog=128)
        try:
            await self._stop.wait()
        finally:
            server.close()
            for exchange in self._exchanges:
                exchange.cancel()
            await asyncio.gather(*self._exchanges, return_exceptions=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._exchanges.add(task)
        self._open += 1
        self._waiting[task] = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                full = self._open > MOST_CONNECTIONS and not self._end_the_longest_wait(task)
                answer, is_head = await self._answer_to(reader, full)
                self._waiting.pop(task, None)
                writer.write(_encoded(answer, with_body=not is_head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()  # until the client has taken everything
        except (TimeoutError, OSError, EOFError, asyncio.CancelledError):
            pass  # The client is slow or gone, or the server is being closed.
        finally:
            writer.transport.abort()
            self._open -= 1
            self._exchanges.discard(task)
            self._waiting.pop(task, None)

    def _end_the_longest_wait(self, new: asyncio.Task[None]) -> bool:
        """Ends the exchange that has waited the longest for its request, for a new one: those who send none must not
        keep others out. Returns false if there is none."""
        longest = next(iter(self._waiting))
        if longest is new:
            return False
        del self._waiting[longest]
        longest.cancel()
        return True

    async def _answer_to(self, reader: asyncio.StreamReader, full: bool) -> tuple[Answer, bool]:
        """Returns the answer, and whether its body isn't wanted."""
        if full:
            return _said(503, f"there are {MOST_CONNECTIONS} connections already"), False
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _said(431, f"a request has at most {MOST_REQUEST} bytes"), False
        first, *headers = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[1].startswith("/"):
            return _said(400, "this isn't an HTTP request"), False
        method, target, version = words
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            return _said(505, "HTTP/1.1 is spoken here"), False
        if method not in ("GET", "HEAD"):
            return _said(405, "only GET is answered here"), False
        accept = next((line[7:].strip() for line in headers if line[:7].lower() == "accept:"), "")
        try:
            return self._answer(target.partition("?")[0], accept), method == "HEAD"
        except Exception:
            return _said(500, "the answer could not be made"), False


def _encoded(answer: Answer, *, with_body: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
        *(["Allow: GET, HEAD"] if answer.status == 405 else []),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + (answer.body if with_body else b"")


def _listening(address: str) -> socket.socket:
    if not isinstance(address, str):
        raise TypeError(
            f"an address for HTTP must be a str, for example '127.0.0.1:9464', not {type(address).__name__}"
        )
    host, colon, port = address.rpartition(":")
    is_v6 = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in host and not is_v6):
        raise InvalidArgumentError(
            f"an address for HTTP must be HOST:PORT, for example '127.0.0.1:9464' or '[::1]:9464'; it was {address!r}"
        )
    host = host[1:-1] if is_v6 else host
    if not host:
        raise InvalidArgumentError(f"the address {address!r} has no host: '*' is every address of this machine")
    try:
        if host == "*":
            dual = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if dual else socket.AF_INET
            return socket.create_server(("", int(port)), family=family, dualstack_ipv6=dual, backlog=128)
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConnectionError(f"can't listen at http://{address}: {reason}; choose another port or host") from error


_servers: weakref.WeakSet[HttpServer] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    for server in list(_servers):
        server._socket.close()


os.register_at_fork(after_in_child=_leave_to_the_parent)
