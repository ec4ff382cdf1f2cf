"""The links over which the comms of one process give large frames to another process of this machine.

An event loop has one `Endpoint`: a listener, one `Link` to each other endpoint that it exchanges frames with, and a
`Channel` for each of its comms. A link carries the frames of all comms between its two endpoints. Each message on it
names the channel that it is for and a number; the comm's own connection carries that number to the reader.

An endpoint and all that belongs to it is used on the thread of its event loop alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import secrets
import struct
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.config

from crossdock import _native, peers
from crossdock.dask import _received
from crossdock.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROTOCOL", "Channel", "Endpoint", "Link", "Place", "acquire", "current"]

logger = logging.getLogger("crossdock.dask")

# Of what goes over a comm's own connection and over links. Endpoints with different numbers use no link.
PROTOCOL = 1

_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# A worker keeps what it was given as long as a task may need it, so a large part of a worker's memory may be lent at
# once. The processes of a cluster run each other's code, and are kept from nothing by a lower limit.
_LEASE_LIMIT = 1 << 40

# The first byte of a message's meta says what it is.
_HELLO = b"H"
_WELCOME = b"W"
_FRAMES = b"F"
_hello = struct.Struct("<cIQ16s16s")  # protocol, number of the link, endpoint that connects, endpoint that listens
_frames = struct.Struct("<cQQ")  # channel, number


@functools.cache
def _machine() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


@dataclass(frozen=True)
class Place:
    """Where an endpoint is. It is a part of the handshake of each comm."""

    endpoint: bytes
    uri: str
    machine: str
    user: int
    protocol: int
    version: str
    channel: int

    def to_message(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_message(cls, message: object) -> Place | None:
        """Returns None where it isn't what `to_message()` makes, of whatever version."""
        if not isinstance(message, dict):
            return None
        kinds = {
            "endpoint": bytes, "uri": str, "machine": str, "user": int, "protocol": int, "version": str, "channel": int
        }  # fmt: skip
        if any(type(message.get(name)) is not kind for name, kind in kinds.items()):
            return None
        return cls(**{name: message[name] for name in kinds})

    def near(self, other: Place) -> bool:
        """Whether it is worth trying to connect the two: whether that succeeds is another question."""
        return self.protocol == other.protocol and self.machine == other.machine != "" and self.user == other.user


class Link:
    """One end of a connection between two endpoints."""

    def __init__(self, peer: Any, number: int, connected: bool, other: bytes) -> None:
        self.peer = peer
        self.key = number << 1 | connected
        self.other = other
        self.task: asyncio.Task[None] | None = None
        self.ledger = _received.Ledger()

    @property
    def far_key(self) -> int:
        """The key of the other end."""
        return self.key ^ 1

    async def send(self, channel: int, number: int, frames: Sequence[Any]) -> None:
        """Sends frames, and returns when they may be changed or dropped. Raises `Error` if the link has ended."""
        await self.peer.send(frames, meta=_frames.pack(_FRAMES, channel, number))


class LinkEndedError(ConnectionError):
    """The frames won't come: the other process has ended, or has closed the link."""


class Channel:
    """The frames that arrive for one comm."""

    def __init__(self, endpoint: Endpoint, number: int) -> None:
        self.endpoint = endpoint
        self.number = number
        self.closed = False
        self._sent = itertools.count(1)
        self._arrived: dict[tuple[int, int], list[Any]] = {}
        self._awaited: dict[tuple[int, int], asyncio.Future[list[Any]]] = {}

    def place(self) -> Place:
        return self.endpoint.place(self.number)

    def next_number(self) -> int:
        """Numbers a message to the other end of the comm."""
        return next(self._sent)

    def deliver(self, link: int, number: int, frames: list[Any]) -> None:
        future = self._awaited.pop((link, number), None)
        if future is None:
            self._arrived[link, number] = frames
        elif not future.done():
            future.set_result(frames)

    def link_ended(self, link: int) -> None:
        for key in [key for key in self._awaited if key[0] == link]:
            future = self._awaited.pop(key)
            if not future.done():
                future.set_exception(LinkEndedError("the connection that was to bring its frames has ended"))

    async def take(self, link: int, number: int) -> list[Any]:
        """Returns the frames of this number. Raises `LinkEndedError` if they can't come any more."""
        if (link, number) in self._arrived:
            return self._arrived.pop((link, number))
        if self.closed or not self.endpoint.has(link):
            raise LinkEndedError("the connection that was to bring its frames has ended")
        future: asyncio.Future[list[Any]] = self.endpoint.loop.create_future()
        self._awaited[link, number] = future
        try:
            return await future
        finally:
            self._awaited.pop((link, number), None)

    def close(self) -> asyncio.Future[None] | None:
        """Drops the frames that nobody has taken, also those that are still to come.

        Returns what to wait for where the endpoint ends with it.
        """
        if self.closed:
            return None
        self.closed = True
        self._arrived.clear()
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(LinkEndedError("the comm was closed"))
        self._awaited.clear()
        return self.endpoint.channel_closed(self)

    def close_soon(self) -> None:
        """The same, from any thread."""
        if self.closed or self.endpoint.pid != os.getpid():
            return
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and has ended everything
            self.endpoint.loop.call_soon_threadsafe(self.close)


class Endpoint:
    """What an event loop has for its comms. It ends with the last user: a comm, or what listens for comms."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Any) -> None:
        self.loop = loop
        self.pid = os.getpid()
        self.id = uuid.uuid4().bytes
        self._listener = listener
        self._uri: str = listener.uris[0]
        self._users = 0
        self._ended = False
        self._numbers = itertools.count(1)
        self._channels: dict[int, Channel] = {}
        self._to: dict[bytes, Link] = {}  # the links to send on, by the other endpoint
        self._links: dict[int, Link] = {}  # all links, by key
        self._connecting: dict[bytes, asyncio.Task[Link | None]] = {}
        self._unreachable: set[bytes] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._start(self._accept())

    # --- users ---

    def retain(self) -> None:
        self._users += 1

    def release(self) -> asyncio.Future[None] | None:
        """Returns what ends when all that was sent is on its way; None if the endpoint doesn't end, or its loop has."""
        self._users -= 1
        if self._users or self._ended:
            return None
        self._forget()
        if self.loop.is_closed():
            self._abort()
            return None
        _closing.add(task := self.loop.create_task(self._close()))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        task.add_done_callback(_closing.discard)
        return asyncio.shield(task)

    def _forget(self) -> None:
        """Has nobody use it any more. It ends with its last user, or its event loop."""
        self._ended = True
        if _endpoints.get(self.loop) is self:
            del _endpoints[self.loop]

    def open_channel(self) -> Channel:
        channel = Channel(self, next(self._numbers))
        self._channels[channel.number] = channel
        self.retain()
        return channel

    def channel_closed(self, channel: Channel) -> asyncio.Future[None] | None:
        return self.release() if self._channels.pop(channel.number, None) is not None else None

    def place(self, channel: int) -> Place:
        return Place(self.id, self._uri, _machine(), os.getuid(), PROTOCOL, _native.__version__, channel)

    # --- links ---

    def has(self, link: int) -> bool:
        return link in self._links

    async def link_to(self, place: Place) -> Link | None:
        """Returns the link to that endpoint, which is connected first if need be. None: it can't be reached."""
        link = self._to.get(place.endpoint)
        if link is not None:
            return link
        if place.endpoint in self._unreachable or self._ended:
            return None
        task = self._connecting.get(place.endpoint)
        if task is None:
            task = self._connecting[place.endpoint] = self._start(self._connect(place))
            task.add_done_callback(lambda _: self._connecting.pop(place.endpoint, None))
        return await asyncio.shield(task)

    async def _connect(self, place: Place) -> Link | None:
        peer = None
        try:
            peer = await peers.connect(place.uri, timeout=_CONNECT_SECONDS, lease_limit=_LEASE_LIMIT)
            number = secrets.randbits(62)
            await peer.send([], meta=_hello.pack(_HELLO, PROTOCOL, number, self.id, place.endpoint))
            answer = await asyncio.wait_for(peer.recv(), _CONNECT_SECONDS)
            if bytes(answer.meta) != _WELCOME + place.endpoint:
                raise ConnectionError("another process answered at this address")
            link = Link(peer, number, True, place.endpoint)
        except (Error, OSError, TimeoutError) as error:
            # Another user, another container with the same host name, no common file system: only trying tells.
            self._unreachable.add(place.endpoint)
            logger.warning("Large frames to %s go over TCP: %s", place.uri, error)
            if peer is not None:
                peer.abort()
            return None
        except BaseException:
            if peer is not None:
                peer.abort()
            raise
        self._add(link)
        link.task = self._start(self._receive(link))
        return link

    def _add(self, link: Link) -> None:
        self._links[link.key] = link
        # An endpoint that connects to itself has both ends, of which it sends on one.
        if link.other not in self._to:
            self._to[link.other] = link

    async def _accept(self) -> None:
        try:
            while True:
                peer = await self._listener.accept()
                self._start(self._welcome(peer))
        except Error:
            pass  # the listener was closed
        finally:
            self._forget()
            self._listener.close()

    async def _welcome(self, peer: Any) -> None:
        try:
            hello = await asyncio.wait_for(peer.recv(), _CONNECT_SECONDS)
            kind, protocol, number, other, this = _hello.unpack(bytes(hello.meta))
            if kind != _HELLO or protocol != PROTOCOL or this != self.id or self._ended:
                raise ConnectionError("it isn't for this endpoint")
            link = Link(peer, number, False, other)
            if link.key in self._links:
                raise ConnectionError("its number is taken")
        except (Error, OSError, TimeoutError, struct.error) as error:
            logger.debug("A connection for frames was refused: %s", error)
            peer.abort()
            return
        except BaseException:
            peer.abort()
            raise
        self._add(link)
        link.task = asyncio.current_task()
        await self._receive(link, answer=_WELCOME + self.id)

    async def _receive(self, link: Link, *, answer: bytes = b"") -> None:
        """Sends the answer to the link's HELLO, and gives what arrives to the channels, until the link ends."""
        try:
            if answer:
                await link.peer.send([], meta=answer)
            while True:
                message = await link.peer.recv(writable="copy-on-write")
                kind, number, count = _frames.unpack(bytes(message.meta))
                if kind != _FRAMES:
                    raise ConnectionError("it sent a message of an unknown kind")
                channel = self._channels.get(number)
                if channel is not None:  # else its comm was closed meanwhile
                    for frame in message.frames:
                        if frame.mapped:
                            link.ledger.enter(frame, frame.nbytes)
                    channel.deliver(link.key, count, [memoryview(frame) for frame in message.frames])
                # The frames are the channel's: their memory is to be free as soon as its reader drops them.
                message = frame = channel = None
        except (Error, OSError, struct.error) as error:
            logger.debug("The link to %s has ended: %s", link.other.hex(), error)
        finally:
            self._drop(link)
            link.peer.abort()

    def _drop(self, link: Link) -> None:
        self._links.pop(link.key, None)
        if self._to.get(link.other) is link:
            del self._to[link.other]
        link.ledger.peer_ended()
        for channel in self._channels.values():
            channel.link_ended(link.key)

    # --- tasks, and the end ---

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self.loop.create_task(work)
        # An event loop that stops for good leaves them behind: that is no error.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _close(self) -> None:
        """Ends the links after what was sent is on its way."""
        self._listener.close()
        try:
            links = [link.peer.close() for link in self._links.values()]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*links, return_exceptions=True), _CLOSE_SECONDS)
        finally:
            self._abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _abort(self) -> None:
        self._listener.close()
        for link in self._links.values():
            link.peer.abort()
        if not self.loop.is_closed():
            for task in self._tasks:
                task.cancel()


_endpoints: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Endpoint] = weakref.WeakKeyDictionary()
_closing: set[asyncio.Task[None]] = set()
_inherited: list[Endpoint] = []  # of the process that this one was forked from, whose they are
_failed = False


def _start_anew_in_child() -> None:
    _inherited.extend(_endpoints.values())
    _endpoints.clear()


os.register_at_fork(after_in_child=_start_anew_in_child)


def current() -> Endpoint | None:
    """Returns the endpoint of the running event loop, if it has one."""
    try:
        return _endpoints.get(asyncio.get_running_loop())
    except RuntimeError:
        return None


async def acquire() -> Endpoint | None:
    """Returns the endpoint of the running event loop, retained. None: the system or the configuration allows none."""
    global _failed
    if not dask.config.get("crossdock.shared-memory", True):
        return None
    loop = asyncio.get_running_loop()
    for ended in [one for one in list(_endpoints) if one.is_closed()]:
        _endpoints.pop(ended, None)
    endpoint = _endpoints.get(loop)
    if endpoint is None:
        try:
            listener = await peers.listen(["shm:"], lease_limit=_LEASE_LIMIT)
        except (Error, OSError) as error:
            if not _failed:
                logger.warning("Large frames go over TCP: %s", error)
            _failed = True
            return None
        endpoint = _endpoints.get(loop)  # another task may have been faster
        if endpoint is None:
            endpoint = _endpoints[loop] = Endpoint(loop, listener)
        else:
            listener.close()
    endpoint.retain()
    return endpoint
