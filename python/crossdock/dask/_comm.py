"""Dask's comms: distributed's own TCP or TLS connection, beside which large frames go through shared memory."""

from __future__ import annotations

import asyncio
import copyreg
import struct
import sys
import weakref
from typing import Any, ClassVar

from distributed.comm.core import CommClosedError
from distributed.comm.tcp import (
    TCP,
    TLS,
    BaseTCPBackend,
    TCPConnector,
    TCPListener,
    TLSConnector,
    TLSListener,
    convert_stream_closed_error,
)
from distributed.comm.utils import from_frames, to_frames
from distributed.utils import ensure_memoryview
from tornado.gen import coroutine
from tornado.iostream import StreamClosedError

from crossdock import _pandas
from crossdock.dask import _arrow, _links
from crossdock.errors import Error

__all__ = ["Backend", "SecureBackend"]

# Frames of so many bytes or more go over a link.
SHARE_FROM = 64 << 10
# A frame of so many bytes or more is a message of its own, as the memory of a message is freed as a whole.
_ALONE_FROM = 1 << 20
# Frames of fewer bytes are read into one buffer with others.
_TOGETHER_BELOW = 1 << 10
# A message of fewer bytes is written in one piece.
_ONE_PIECE_BELOW = 128 << 10
_CHUNK = 1 << 30

# A message between two processes of one machine: this head, the table, the frames that are read together, and those
# that are read each into a buffer of its own. The table has a number for each frame: its bytes, and which of these it
# is. Frames over a link are in `messages` messages there, of which `first` is the number of the first.
_head = struct.Struct("<IIQQQ")  # frames, messages, link, first, bytes that are read together
_TOGETHER, _ALONE, _LINKED = range(3)


# What these classes are mixed with, of distributed's.
_Mixed: Any = object

_pandas_registered = False


def _register_pandas() -> None:
    """Has frames with text pickled without a copy, once pandas is imported."""
    global _pandas_registered
    if not _pandas_registered and (found := _pandas.reducers()):
        _pandas_registered = True
        for kind, reduce in found.items():
            copyreg.pickle(kind, reduce)


class _Sharing(_Mixed):
    """Adds the links to a comm of distributed's.

    A comm is `linked` if both ends are processes of one user on one machine and of one version of this protocol. A
    comm that isn't does what distributed's own does.
    """

    stream: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        endpoint = _links.current()
        self._channel = endpoint.open_channel() if endpoint else None
        self._place: _links.Place | None = None
        if self._channel is not None:
            weakref.finalize(self, self._channel.close_soon).atexit = False

    def handshake_info(self) -> dict[str, Any]:
        info: dict[str, Any] = super().handshake_info()
        if self._channel is not None:
            info["crossdock"] = self._channel.place().to_message()
        info["crossdock-arrow"] = _arrow.FORMAT
        return info

    @staticmethod
    def handshake_configuration(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
        chosen: dict[str, Any] = TCP.handshake_configuration(local, remote)
        here, there = (_links.Place.from_message(info.get("crossdock")) for info in (local, remote))
        if here is not None and there is not None:
            if here.protocol != there.protocol:
                _say_versions(here, there)
            chosen["crossdock-linked"] = here.near(there)
        if local.get("crossdock-arrow") == remote.get("crossdock-arrow") == _arrow.FORMAT:
            chosen["crossdock-arrow"] = _arrow.FORMAT
        return chosen

    def _far(self) -> _links.Place | None:
        """Where the other end is; None if the comm isn't linked."""
        if self._place is None and self._channel is not None and self.handshake_options.get("crossdock-linked"):
            self._place = _links.Place.from_message(self.remote_info["crossdock"])
        return self._place

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        far = self._far()
        if far is None:
            return await super().write(msg, serializers, on_error)  # type: ignore[no-any-return]
        if self.stream is None:
            raise CommClosedError
        _register_pandas()
        frames = [
            ensure_memoryview(frame)
            for frame in await to_frames(
                msg,
                allow_offload=self.allow_offload,
                serializers=serializers,
                on_error=on_error,
                context={"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options},
                # Frames that were split would be joined by the reader, in a copy.
                frame_split_size=sys.maxsize,
            )
        ]
        try:
            link = first = messages = 0
            large = [frame for frame in frames if frame.nbytes >= SHARE_FROM]
            if large:
                link, first, messages = await self._share(far, large)
            together, alone, table = [], [], []
            for frame in frames:
                if messages and frame.nbytes >= SHARE_FROM:
                    kind = _LINKED
                elif isinstance(frame.obj, bytes) or frame.nbytes < _TOGETHER_BELOW:
                    # Bytes are pickles and headers, which nobody keeps.
                    kind = _TOGETHER
                    together.append(frame)
                else:
                    kind = _ALONE
                    alone.append(frame)
                table.append(frame.nbytes << 2 | kind)
            start = _head.pack(len(frames), messages, link, first, sum(frame.nbytes for frame in together))
            pieces = [memoryview(start + struct.pack(f"<{len(table)}Q", *table)), *together, *alone]
            if sum(piece.nbytes for piece in pieces) < _ONE_PIECE_BELOW:
                pieces = [memoryview(b"".join(pieces))]
            if self.stream is None:
                raise CommClosedError("closed while its frames were sent")
            for piece in pieces:
                for i in range(0, piece.nbytes, _CHUNK):
                    self.stream.write(piece[i : i + _CHUNK])
        except StreamClosedError as error:
            self.abort()
            convert_stream_closed_error(self, error)
        except BaseException:
            # What was written already is unknown, so nothing can follow it.
            self.abort()
            raise
        return sum(frame.nbytes for frame in frames)

    async def _share(self, far: _links.Place, frames: list[memoryview]) -> tuple[int, int, int]:
        """Sends frames over the link. Returns its key at the reader, and the messages' first number and count.

        The count is 0 where they can't go that way.
        """
        assert self._channel is not None
        endpoint = self._channel.endpoint
        link = await endpoint.link_to(far)
        if link is None:
            return 0, 0, 0
        groups: list[list[memoryview]] = []
        room = 0
        for frame in frames:
            if frame.nbytes > room:
                groups.append([])
                room = _ALONE_FROM
            groups[-1].append(frame)
            room -= frame.nbytes
        numbers = [self._channel.next_number() for _ in groups]  # in a row: a comm has one writer at a time
        try:
            # Together, so that one is copied while another is on its way.
            await asyncio.gather(
                *(link.send(far.channel, number, group) for number, group in zip(numbers, groups, strict=True))
            )
        except Error:
            return 0, 0, 0  # the link has ended, which says nothing about this comm
        return link.far_key, numbers[0], len(groups)

    async def read(self, deserializers: Any = None) -> Any:
        if self._far() is None:
            return await super().read(deserializers)
        stream = self.stream
        if stream is None:
            raise CommClosedError
        try:
            head = await stream.read_bytes(_head.size)
            count, messages, link, first, size = _head.unpack(head)
            start = await _read(stream, 8 * count + size)
            table = struct.unpack_from(f"<{count}Q", start)
            shared: list[memoryview] = []
            assert self._channel is not None
            # The other buffers come first in the stream, and may be needed to make room there.
            alone = [await _read(stream, entry >> 2) for entry in table if entry & 3 == _ALONE]
            for number in range(first, first + messages):
                shared += await self._channel.take(link, number)
            frames = _in_order(table, start[8 * count :], alone, shared)
        except StreamClosedError as error:
            self.abort()
            convert_stream_closed_error(self, error)
        except _links.LinkEndedError as error:
            self.abort()
            raise CommClosedError(f"in {self}: {error}") from error
        except BaseException:
            # What was read already is unknown, so nothing can follow it.
            self.abort()
            raise
        return await from_frames(
            frames,
            deserialize=self.deserialize,
            deserializers=deserializers,
            allow_offload=self.allow_offload,
        )

    def abort(self) -> None:
        if self._channel is not None:
            self._channel.close()
        super().abort()

    @coroutine  # type: ignore[untyped-decorator]
    def close(self) -> Any:
        # As TCP's buffer, what was sent over a link is on its way when this returns.
        ending = self._channel.close() if self._channel is not None else None
        yield super().close()
        if ending is not None:
            yield ending


def _in_order(
    table: tuple[int, ...], together: memoryview, alone: list[memoryview], shared: list[memoryview]
) -> list[memoryview]:
    frames, start = [], 0
    rest = {_ALONE: iter(alone), _LINKED: iter(shared)}
    for entry in table:
        size, kind = entry >> 2, entry & 3
        if kind == _TOGETHER:
            frame = together[start : start + size]
            start += size
        else:
            frame = next(rest[kind])
        if frame.nbytes != size:
            raise CommClosedError(f"a frame has {frame.nbytes} bytes instead of {size}")
        frames.append(frame)
    if next(rest[_LINKED], None) is not None:
        raise CommClosedError("more frames arrived than the message has")
    return frames


async def _read(stream: Any, size: int) -> memoryview:
    buffer = _allocate(size)
    for i in range(0, size, _CHUNK):
        await stream.read_into(buffer[i : i + _CHUNK])
    return buffer


def _allocate(size: int) -> memoryview:
    if size < _TOGETHER_BELOW:
        return memoryview(bytearray(size))
    try:
        import numpy as np
    except ImportError:
        return memoryview(bytearray(size))
    return np.empty(size, "u1").data  # not set to zero first


_said_versions: set[tuple[int, str]] = set()


def _say_versions(here: _links.Place, there: _links.Place) -> None:
    if (there.protocol, there.version) not in _said_versions:
        _said_versions.add((there.protocol, there.version))
        _links.logger.warning(
            "Large frames go over TCP to Crossdock %s (protocol %d of Dask comms); this is Crossdock %s (protocol %d)",
            *(there.version, there.protocol, here.version, here.protocol),
        )


class SharingTCP(_Sharing, TCP):
    """A comm over TCP."""


class SharingTLS(_Sharing, TLS):
    """A comm over TLS. What goes through shared memory doesn't leave the machine, and isn't encrypted."""


class _Connecting(_Mixed):
    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> Any:
        endpoint = await _links.acquire()
        try:
            return await super().connect(address, deserialize=deserialize, **connection_args)
        finally:
            if endpoint is not None:
                endpoint.release()


class _Listening(_Mixed):
    _endpoint: _links.Endpoint | None = None

    async def start(self) -> None:
        self._endpoint = await _links.acquire()
        try:
            await super().start()
        except BaseException:
            self._release()
            raise

    def stop(self) -> None:
        super().stop()
        self._release()

    def _release(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.release()


class _Connector(_Connecting, TCPConnector):
    prefix = "crossdock://"
    comm_class = SharingTCP


class _Listener(_Listening, TCPListener):
    prefix = "crossdock://"
    comm_class = SharingTCP


class _SecureConnector(_Connecting, TLSConnector):
    prefix = "crossdocks://"
    comm_class = SharingTLS


class _SecureListener(_Listening, TLSListener):
    prefix = "crossdocks://"
    comm_class = SharingTLS


class Backend(BaseTCPBackend):
    """The scheme `crossdock://`: TCP, and shared memory for large frames within a machine.

    The constructor raises nothing. A connection that was closed raises `CommClosedError`, as distributed's own do.
    """

    _connector_class: ClassVar[Any] = _Connector
    _listener_class: ClassVar[Any] = _Listener

    def __init__(self) -> None:
        _arrow.register()


class SecureBackend(BaseTCPBackend):
    """The scheme `crossdocks://`: TLS, and shared memory for large frames within a machine.

    The constructor raises nothing. A connection that was closed raises `CommClosedError`, as distributed's own do.
    """

    _connector_class: ClassVar[Any] = _SecureConnector
    _listener_class: ClassVar[Any] = _SecureListener

    def __init__(self) -> None:
        _arrow.register()
