"""Connections of equals that carry whole messages of buffers, for asyncio.

One end listens, the other connects. After that both may send and receive. Within a machine a large frame is sent by
address: memory of a `Pool` is lent, and other memory is copied once, into a pool. Over tcp the bytes of frames are
sent.

    async with await xd.peers.listen("shm:") as listener:
        # Usually the other end is in another process.
        peer, other = await asyncio.gather(listener.accept(), xd.peers.connect(listener.uri))
        async with peer, other:
            await peer.send([np.arange(3.0)], meta=b"what it is")
            message = await other.recv(writable="copy-on-write")

Threads of the library do the work, the same few for all connections. They never wait for Python. While anything large
is copied, neither the event loop nor the GIL is held.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from crossdock import _native
from crossdock._native import PeerFrame as Frame
from crossdock._options import (
    check_checksum,
    check_tls,
    checked_uri,
    count,
    is_copy_on_write,
    milliseconds,
    scheme_of,
    transports,
)
from crossdock._text import class_of, counted, shown
from crossdock.errors import InvalidArgumentError, StreamBusyError
from crossdock.pool import Pool
from crossdock.pool import default as default_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock.tls import TLS

__all__ = ["Frame", "Listener", "Message", "Peer", "connect", "listen"]

# The most calls in a row that are over at once before the event loop may run other tasks.
_CALLS_IN_A_ROW = 64


class Message(NamedTuple):
    """A message that was received: `meta`, and `frames` in the order in which they were sent.

    Each frame has the buffer protocol: `memoryview(frame)`, `np.frombuffer(frame, "f8")`, `pa.py_buffer(frame)`. The
    frames, and objects made of them, stay valid and unchanged however the connection ends, even if the peer was killed.
    A frame that was sent by address (`frame.mapped`) lies in the peer's memory. The peer uses that memory again when
    nothing here refers to the frame any more.
    """

    meta: bytes
    """The bytes that `Peer.send()` was given as `meta`; none if it was given none."""
    frames: list[Frame]
    """The frames, in the order in which they were sent."""

    def __repr__(self) -> str:
        size = sum(frame.nbytes for frame in self.frames)
        frames = counted(len(self.frames), "frame")
        return f"<crossdock.peers.Message: {len(self.meta)} bytes of meta, {frames} of {size} bytes>"


class Peer:
    """One end of a connection of equals. Made by `connect()` and `Listener.accept()`.

    Close it with `close()`, or use it as an asynchronous context manager. A Peer that is dropped is aborted. Messages
    and frames that were received stay valid in any case.

    Several tasks may send at once: messages are sent in the order of the calls. One task at a time may receive. The
    calls may come from event loops of several threads, and from one loop after another. After a fork the Peer belongs
    to the parent: in the child its methods raise `ForkError`, and `abort()` does nothing.
    """

    def __init__(self, native: _native.Peer, pool: Pool) -> None:
        self._native = native
        self._pool = pool  # and with it the threads that carry the messages
        self._receiving = False
        self._in_a_row = 0

    async def send(self, frames: Iterable[object], meta: bytes | bytearray | memoryview = b"") -> None:
        """Sends one message, and returns when its frames may be changed or dropped.

        The peer may not have received the message by then. The call also waits while many messages wait for the peer,
        so that a sender that is faster than its receiver takes bounded memory.

        frames: objects with the buffer protocol, of contiguous memory in C or Fortran order, each sent as its bytes in
            the order of the memory. The peer receives bytes: say in `meta` what they are. Memory of a `Pool`, and
            frames that were received here, are sent by address without a copy, if nobody has written to them since.
            Nobody may write to the frames until this returns.
        meta: bytes, which are copied. They should be few.

        Cancelling the call doesn't recall the message: it may be sent. The library keeps the frames as long as it needs
        them. They may not be changed then, but they may be dropped.

        Raises `InvalidArgumentError` for a frame that isn't contiguous (copy it first) or has Python objects, and for a
        message that is larger than the peer accepts, `TypeError` for other objects, `ConnectionError` if the connection
        has ended, `ClosedError` after `close()` and `abort()`. After an error nothing was sent, unless the connection
        ended while this waited.
        """
        loop = _loop()
        number = next(_numbers)
        if not self._native.send(frames, meta, loop.events, number):
            del frames  # the library keeps them, and no longer than it reads them
            await loop.completion(number)
            return
        await self._pause()

    async def recv(self, *, writable: Literal[False, "copy-on-write"] = False) -> Message:
        """Waits for the next message, and returns it.

        writable: "copy-on-write": the frames may be written to. In a frame that was sent by address, each page that is
            written to becomes a private copy: neither the peer nor anybody else sees the writes, and nobody's writes
            are seen here. A frame that nobody has written to can be sent on without a copy.

        Cancelling the call loses no message: the next call returns it. So `asyncio.timeout()` may limit the wait.

        Raises `ConnectionError` when the connection has ended (the peer closed it, or its process has ended) and all
        whole messages were returned. Raises `ProtocolError`, a kind of `ConnectionError`, if the peer broke the
        protocol. Raises `ClosedError` after `close()` and `abort()`, also if they are called while this waits, and
        `StreamBusyError` if another task is receiving. Raises `ResourceError` if there are no mappings left for
        `writable`, or the message needs too many (over 256 frames that share bytes); a further call without `writable`
        then returns the message.
        """
        copy_on_write = is_copy_on_write(writable)
        if self._receiving:
            raise StreamBusyError("another task is receiving from this Peer")
        self._receiving = True
        try:
            await self._pause()
            # Nothing is awaited between try_recv() and the return: a cancelled task has taken no message.
            while (taken := self._native.try_recv(copy_on_write)) is None:
                self._in_a_row = 0
                await _armed(self._native.when_readable, self._native.not_when_readable)
        finally:
            self._receiving = False
        return Message(*taken)

    async def close(self) -> None:
        """Closes the connection. Returns when everything that was sent is on its way, or the connection has ended.

        Messages that weren't received are dropped. Frames stay valid. May be called twice. If the call is cancelled,
        the Peer is closed nevertheless. Raises `TimeoutError` if the peer took nothing for `timeout` seconds (of
        `listen()` or `connect()`); messages that weren't sent are then dropped.
        """
        loop = _loop()
        number = next(_numbers)
        self._native.close(loop.events, number)
        await loop.completion(number)

    def abort(self) -> None:
        """Ends the connection at once.

        Messages that weren't sent yet are dropped; a `send()` that waits raises `ClosedError`, and so does a `recv()`.
        The peer's `recv()` raises `ConnectionError` after the messages that it has.
        """
        self._native.abort()

    @property
    def closed(self) -> bool:
        """True after `close()` and `abort()`, and in a forked child."""
        return self._native.closed

    @property
    def same_machine(self) -> bool:
        """True if it is connected by shm."""
        return self._native.same_machine

    @property
    def shares_memory(self) -> bool:
        """True if large frames are sent by address."""
        return self._native.shares_memory

    @property
    def pid(self) -> int | None:
        """The peer's process on this machine; None if it isn't known."""
        return self._native.pid

    @property
    def version(self) -> str:
        """The peer's version of Crossdock."""
        return self._native.version

    @property
    def name(self) -> str:
        """The peer in readable form."""
        return self._native.name

    def stats(self) -> dict[str, int]:
        """Returns what was sent and received so far.

        `sent` and `received`: messages; `frames_by_address`, `bytes_by_address`: the part of the sent data that the
        peer has as memory of this process; `bytes_by_value`: the part that was sent as bytes; `bytes_copied`: bytes
        that were copied into the pool, to be sent by address; `regions_with_peer`: pieces of this end's memory that the
        peer has now; `regions_of_peer`: pieces of the peer's memory that this end has now.

        Raises `ForkError` in a forked child.
        """
        return self._native.stats()

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<crossdock.peers.Peer {shown(self.name)}{' (closed)' if self.closed else ''}>"

    async def _pause(self) -> None:
        """Lets other tasks run from time to time, where calls never have to wait."""
        self._in_a_row += 1
        if self._in_a_row >= _CALLS_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)


class Listener:
    """A listening end, made by `listen()`.

    Close it with `close()`, or use it as an asynchronous context manager. Dropping it also closes it. Peers that were
    accepted stay connected. After a fork it belongs to the parent: in the child its methods raise `ForkError`, and
    `close()` does nothing.
    """

    def __init__(self, native: _native.PeerListener, pool: Pool) -> None:
        self._native = native
        self._pool = pool
        self._accepting = False
        self._closed = False

    @property
    def uri(self) -> str:
        """The URI to connect to; the first one, if it listens at several."""
        return self._native.uris[0]

    @property
    def uris(self) -> list[str]:
        """The URIs to connect to, in the order of those that were asked for."""
        return self._native.uris

    @property
    def closed(self) -> bool:
        """True after `close()`."""
        return self._closed

    async def accept(self) -> Peer:
        """Waits for the next peer that has connected, and returns it.

        Cancelling the call loses no peer: the next call returns it. Raises `ClosedError` after `close()`, also if that
        is called while this waits, and `StreamBusyError` if another task is waiting here.
        """
        if self._accepting:
            raise StreamBusyError("another task is accepting peers from this Listener")
        self._accepting = True
        try:
            while (native := self._native.try_accept()) is None:
                await _armed(self._native.when_readable, self._native.not_when_readable)
        finally:
            self._accepting = False
        return Peer(native, self._pool)

    def close(self) -> None:
        """Stops listening, and drops peers that weren't accepted. May be called twice. Raises nothing."""
        self._closed = True
        self._native.close()

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crossdock.peers.Listener {', '.join(self.uris)}{' (closed)' if self.closed else ''}>"


async def listen(
    uri: str | Iterable[str] = "shm:",
    *,
    token: str | None = None,
    users: Literal["any"] | Iterable[int] | None = None,
    checksum: bool | None = None,
    tls: TLS | None = None,
    pool: Pool | None = None,
    share_from: int = 64 << 10,
    max_message: int = 64 << 30,
    max_frames: int = 1 << 16,
    window: int = 64,
    window_bytes: int = 64 << 20,
    max_regions: int | None = None,
    lease_limit: int = 1 << 30,
    max_connections: int = 1024,
    timeout: float | None = 10.0,
) -> Listener:
    """Listens for peers.

    uri: one or several, as "shm:", which picks a name, "shm:NAME", "shm:/run/user/1000/x.sock", "tcp://HOST:PORT" and
        "tcp+tls://HOST:PORT", where the host may be `*` and the port 0. Peers connect to `listener.uris`.
    token: over tcp, a secret that both ends must know. They prove that they know it; it is never sent. None: every peer
        that reaches the port is accepted. Over shm the user id decides.
    users: ids of users that may connect over shm beside the own user, or "any".
    checksum: over tcp, protect everything with a CRC-32C: bytes that changed on the way end the connection and are
        never taken for data. None: if the other end asks for it. True: always. False: never.
    tls: over tcp+tls, the certificate and key of this end, and the issuers that it trusts.
    pool: the pool that frames in other memory are copied into, so that they can be sent by address; None:
        `xd.pool.default()`.
    share_from: frames of this many bytes or more are sent by address, if the peer can map this end's memory. So are
        smaller frames of one message that have this many bytes together, and over 64 KiB.
    max_message: the most bytes by value of one message that is received: a longer one ends the connection.
    max_frames: the most frames of one message that is received.
    window, window_bytes: the most messages, and bytes by value in them, that the peer may send ahead of `recv()`. Each
        frame counts 128 bytes more. A message of any size may be sent while no more than a quarter of these bytes is
        ahead.
    max_regions: the most pieces of the peer's memory that are mapped here at once; more frames are sent by value. None:
        an eighth of the descriptors that this process may have.
    lease_limit: the most bytes of this end's memory that one peer may have at once; more frames are sent by value.
        Memory counts by the pieces that are lent. One piece may be larger, if the peer has no other.
    max_connections: the most connections at once. More are rejected, and the existing ones continue. Of peers that
        weren't accepted yet, 128 are connected; more wait.
    timeout: seconds for the handshake of each peer, and for a peer that takes nothing while this end closes; None: no
        limit.

    Raises `UriError`, `SchemeError`, `UnsupportedError` for a scheme that has no peers, `ConnectionError` if the
    address is in use, and the other errors of `serve()`.
    """
    uris = [checked_uri(one) for one in ([uri] if isinstance(uri, (str, bytes)) else uri)]
    if not uris:
        raise InvalidArgumentError("give at least one URI, as in 'shm:'")
    if token is not None and all(scheme_of(one) == "shm" for one in uris):
        raise InvalidArgumentError(
            "token is for tcp, and this listens only over shm:, where the user id decides: leave token out; users "
            "names the users that may connect"
        )
    check_checksum(uris, checksum, "checksum=True", "checksum")
    check_tls(uris, tls, "tls", "tls")
    options = _options(
        token,
        users,
        checksum,
        tls,
        share_from,
        max_message,
        max_frames,
        window,
        window_bytes,
        max_regions,
        lease_limit,
        timeout,
    )
    options.max_connections = count(max_connections, "max_connections", "connections", bits=32)
    pool = _checked_pool(pool)
    return Listener(await asyncio.to_thread(_hub(pool).listen, uris, options), pool)


async def connect(
    uri: str,
    *,
    timeout: float | None = 10.0,
    token: str | None = None,
    users: Literal["any"] | Iterable[int] | None = None,
    checksum: bool | None = None,
    tls: TLS | None = None,
    pool: Pool | None = None,
    share_from: int = 64 << 10,
    max_message: int = 64 << 30,
    max_frames: int = 1 << 16,
    window: int = 64,
    window_bytes: int = 64 << 20,
    max_regions: int | None = None,
    lease_limit: int = 1 << 30,
) -> Peer:
    """Connects to a listener. A thread of the event loop's executor waits for its answer.

    timeout: seconds for connecting and the handshake, and for a peer that takes nothing while this end closes; None: no
        limit.
    users: over shm, ids of users whose listeners are trusted, beside the own user and root, or "any".

    The other options are those of `listen()`; each end has its own.

    Cancelling the call ends the attempt. Raises `ConnectionError` if nobody listens, `HandshakeError` if the other end
    is no listener for peers, or has another version, `PermissionError` if it has another token or belongs to another
    user, `UnsupportedError` for a scheme that has no peers, `TimeoutError`, and the other errors of
    `crossdock.connect()`.
    """
    checked_uri(uri)
    check_checksum([uri], checksum, "checksum=True", "checksum")
    check_tls([uri], tls, "tls", "tls")
    options = _options(
        token,
        users,
        checksum,
        tls,
        share_from,
        max_message,
        max_frames,
        window,
        window_bytes,
        max_regions,
        lease_limit,
        timeout,
    )
    pool = _checked_pool(pool)
    interrupt = _native.Interrupt()
    try:
        native = await asyncio.to_thread(_hub(pool).connect, uri, options, interrupt)
    except asyncio.CancelledError:
        interrupt.cancel()  # Ends the thread: a loop that ends cancels its tasks, and then waits for its threads.
        raise
    return Peer(native, pool)


def _options(
    token: str | None,
    users: Literal["any"] | Iterable[int] | None,
    checksum: bool | None,
    tls: TLS | None,
    share_from: int,
    max_message: int,
    max_frames: int,
    window: int,
    window_bytes: int,
    max_regions: int | None,
    lease_limit: int,
    timeout: float | None,
) -> _native.PeerOptions:
    options = _native.PeerOptions()
    options.transports = transports(users, token, checksum, None, tls)
    options.share_from = count(share_from, "share_from", "bytes")
    options.max_message = count(max_message, "max_message", "bytes")
    options.max_frames = count(max_frames, "max_frames", "frames", bits=32)
    options.window_messages = count(window, "window", "messages", bits=32)
    options.window_bytes = count(window_bytes, "window_bytes", "bytes")
    options.max_regions = 0 if max_regions is None else count(max_regions, "max_regions", "regions", bits=32)
    options.lease_limit = count(lease_limit, "lease_limit", "bytes")
    options.timeout_ms = milliseconds(timeout, "timeout")
    return options


# ---- the threads that carry the messages: one hub for each pool, in practice one -------------------------------------

_hubs: weakref.WeakKeyDictionary[Pool, _native.PeerHub] = weakref.WeakKeyDictionary()


def _checked_pool(pool: Pool | None) -> Pool:
    if pool is None:
        return default_pool()
    if not isinstance(pool, Pool):
        raise TypeError(f"pool must be a crossdock.Pool or None, not {class_of(pool)}")
    return pool


def _hub(pool: Pool) -> _native.PeerHub:
    hub = _hubs.get(pool)
    if hub is None:
        hub = _hubs.setdefault(pool, _native.PeerHub(pool._native))
    return hub


@atexit.register
def _close_hubs() -> None:
    """Ends the connections and joins the threads before the interpreter ends."""
    for hub in list(_hubs.values()):
        hub.close()


# ---- what the hub's threads tell an event loop -----------------------------------------------------------------------

_numbers = itertools.count(1)


class _Loop:
    """The operations under way that an event loop waits for. It watches the descriptor that the hub's threads write to.

    Doesn't refer to the loop, which may end at any time: what completes later is dropped.
    """

    def __init__(self) -> None:
        self.events = _native.PeerEvents()
        self.waiting: dict[int, asyncio.Future[BaseException | None]] = {}

    def take(self) -> None:
        """Called by the loop when the descriptor is readable."""
        for number, error in self.events.take():
            future = self.waiting.pop(number, None)
            if future is not None and not future.done():
                # Not set_exception(): asyncio logs it if the task was cancelled at the same time.
                future.set_result(error)

    async def completion(self, number: int) -> None:
        """Waits for an operation. Raises its error. Cancelling it ends the wait, not the operation."""
        future: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        try:
            error = await future
        finally:
            self.waiting.pop(number, None)
        if error is not None:
            raise error


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()


def _loop() -> _Loop:
    """Returns what belongs to the running loop."""
    running = asyncio.get_running_loop()
    known = _loops.get(running)
    if known is None:
        for loop in [reference() for reference in _loops.keyrefs()]:
            if loop is not None and loop.is_closed():
                _loops.pop(loop, None)
        known = _Loop()
        running.add_reader(known.events.descriptor, known.take)
        _loops[running] = known
    return known


async def _armed(arm: Callable[[_native.PeerEvents, int], None], disarm: Callable[[], None]) -> None:
    """Waits until something may have arrived: `arm` asks the hub to tell, `disarm` ends that."""
    loop = _loop()
    number = next(_numbers)
    arm(loop.events, number)
    try:
        await loop.completion(number)
    except BaseException:
        disarm()
        raise


def _start_anew_in_child() -> None:
    """The parent's threads carry its connections; a child has its own."""
    _hubs.clear()
    _loops.clear()


os.register_at_fork(after_in_child=_start_anew_in_child)
