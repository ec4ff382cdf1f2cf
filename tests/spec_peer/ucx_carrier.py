"""Raw UCX: connections by its listener, active messages of id 0, tagged messages, and reads of the peer's memory.

Written from ucp.h and the published text, with none of the library's code. UCX is called through ctypes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import time
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

OK, INPROGRESS, BUSY = 0, 1, -15
TAG, RMA, WAKEUP, ACTIVE_MESSAGES = 1 << 0, 1 << 1, 1 << 4, 1 << 6
PEER_ERRORS = 1
CLIENT_SERVER = 1
RENDEZVOUS = 1 << 17
UNTAGGED = 0  # The id of active messages that are untagged messages.
ALL_BITS = 2**64 - 1

ON_MESSAGE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)
ON_CLIENT = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
ON_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int)


_WITH_STATUS = (
    "config_read",
    "config_modify",
    "init_version",
    "worker_create",
    "worker_arm",
    "worker_get_efd",
    "worker_set_am_recv_handler",
    "listener_create",
    "listener_query",
    "ep_create",
    "ep_rkey_unpack",
    "mem_map",
    "rkey_pack",
    "request_check_status",
)


class Params(ctypes.Structure):
    _fields_ = [("mask", c_uint64), ("features", c_uint64), ("rest", c_uint64 * 16)]


class WorkerParams(ctypes.Structure):
    _fields_ = [("mask", c_uint64), ("thread_mode", c_int), ("rest", c_uint64 * 64)]


class SocketAddress(ctypes.Structure):
    _fields_ = [("address", c_char_p), ("size", c_uint32)]


class ListenerParams(ctypes.Structure):
    _fields_ = [
        ("mask", c_uint64),
        ("address", SocketAddress),
        ("accept", c_void_p * 2),
        ("on_client", ON_CLIENT),
        ("argument", c_void_p),
    ]


class ListenerAttributes(ctypes.Structure):
    _fields_ = [("mask", c_uint64), ("address", ctypes.c_ubyte * 128)]


class EndpointParams(ctypes.Structure):
    _fields_ = [
        ("mask", c_uint64),
        ("remote_address", c_void_p),
        ("error_mode", c_int),
        ("on_error", ON_ERROR),
        ("error_argument", c_void_p),
        ("user_data", c_void_p),
        ("flags", c_uint),
        ("address", SocketAddress),
        ("request", c_void_p),
        ("rest", c_uint64 * 8),
    ]


class HandlerParams(ctypes.Structure):
    _fields_ = [
        ("mask", c_uint64),
        ("id", c_uint),
        ("flags", c_uint32),
        ("on_message", ON_MESSAGE),
        ("argument", c_void_p),
    ]


class TagInfo(ctypes.Structure):
    _fields_ = [("tag", c_uint64), ("length", c_size_t)]


class MemoryParams(ctypes.Structure):
    _fields_ = [("mask", c_uint64), ("address", c_void_p), ("length", c_size_t), ("rest", c_uint64 * 8)]


class Ended(Exception):
    """The peer closed the connection, or is gone."""


def _socket_address(host: str, port: int) -> bytes:
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


def host_and_port(uri: str) -> tuple[str, int]:
    """Those of ucx://host:port?..."""
    host, port = uri.partition("://")[2].partition("?")[0].rsplit(":", 1)
    return host, int(port)


class Ucx:
    """A context, and what its connections share."""

    def __init__(self, *, reads: bool = False) -> None:
        self.lib = ctypes.CDLL(os.environ.get("CROSSDOCK_UCX_LIBRARY") or "libucp.so.0")
        for name in ("tag_send_nbx", "am_send_nbx", "tag_msg_recv_nbx", "am_recv_data_nbx", "get_nbx", "put_nbx"):
            getattr(self.lib, f"ucp_{name}").restype = c_void_p
        for name in _WITH_STATUS:
            getattr(self.lib, f"ucp_{name}").restype = ctypes.c_byte  # ucs_status_t is packed into one byte.
        self.lib.ucp_tag_probe_nb.restype = c_void_p
        self.lib.ucp_ep_close_nbx.restype = c_void_p
        config = c_void_p()
        self.check(self.lib.ucp_config_read(None, None, ctypes.byref(config)))
        for option in ((b"TLS", b"tcp"), (b"NET_DEVICES", b"lo"), (b"CM_REUSEADDR", b"y")):
            self.check(self.lib.ucp_config_modify(config, *option))
        features = TAG | WAKEUP | ACTIVE_MESSAGES | (RMA if reads else 0)
        params = Params(mask=1, features=features)
        self.handle = c_void_p()
        self.check(self.lib.ucp_init_version(1, 13, ctypes.byref(params), config, ctypes.byref(self.handle)))
        self.lib.ucp_config_release(config)

    @staticmethod
    def check(status: int) -> None:
        assert status == OK, f"UCX says {status}"

    def worker(self) -> c_void_p:
        worker = c_void_p()
        params = WorkerParams(mask=1)
        self.check(self.lib.ucp_worker_create(self.handle, ctypes.byref(params), ctypes.byref(worker)))
        return worker

    def sleep(self, worker: c_void_p, deadline: float) -> None:
        """Waits until the worker has something to do."""
        status = self.lib.ucp_worker_arm(worker)
        if status == BUSY:
            return
        self.check(status)
        descriptor = c_int()
        self.check(self.lib.ucp_worker_get_efd(worker, ctypes.byref(descriptor)))
        if not select.select([descriptor.value], [], [], max(deadline - time.monotonic(), 0))[0]:
            raise TimeoutError

    def register(self, memory: ctypes.Array[Any]) -> bytes:
        """The packed key of memory that is registered from now on."""
        params = MemoryParams(mask=3, address=ctypes.addressof(memory), length=len(memory))
        handle, key, size = c_void_p(), c_void_p(), c_size_t()
        self.check(self.lib.ucp_mem_map(self.handle, ctypes.byref(params), ctypes.byref(handle)))
        self.check(self.lib.ucp_rkey_pack(self.handle, handle, ctypes.byref(key), ctypes.byref(size)))
        packed = ctypes.string_at(key, size.value)
        self.lib.ucp_rkey_buffer_release(key)
        return packed


class Listener:
    def __init__(self, ucx: Ucx) -> None:
        self.ucx = ucx
        self.worker = ucx.worker()
        self.requests: list[int] = []
        self._on_client = ON_CLIENT(lambda request, _: self.requests.append(request))
        address = _socket_address("127.0.0.1", 0)
        params = ListenerParams(mask=5, address=SocketAddress(address, len(address)), on_client=self._on_client)
        self.handle = c_void_p()
        ucx.check(ucx.lib.ucp_listener_create(self.worker, ctypes.byref(params), ctypes.byref(self.handle)))
        found = ListenerAttributes(mask=1)
        ucx.check(ucx.lib.ucp_listener_query(self.handle, ctypes.byref(found)))
        self.port = struct.unpack_from(">H", bytes(found.address), 2)[0]

    def accept(self, timeout: float = 60) -> UcxCarrier:
        deadline = time.monotonic() + timeout
        while not self.requests:
            if not self.ucx.lib.ucp_worker_progress(self.worker):
                self.ucx.sleep(self.worker, deadline)
        return UcxCarrier(self.ucx, request=self.requests.pop(0))


class UcxCarrier:
    """One connection: tagged and untagged messages in both directions."""

    def __init__(
        self,
        ucx: Ucx,
        *,
        uri: str | None = None,
        request: int | None = None,
        want_data: int = 0,
        free_data: int = 0,
    ) -> None:
        """Connects to the server of a URI, or accepts a client's request."""
        self.ucx = ucx
        self.lib = ucx.lib
        self.want_data, self.free_data = want_data, free_data
        self.worker = ucx.worker()
        self.ended = False
        self._arrived: list[tuple[int | None, Any]] = []
        self._on_message = ON_MESSAGE(self._message)
        self._on_error = ON_ERROR(self._error)
        handler = HandlerParams(mask=5, id=UNTAGGED, on_message=self._on_message)
        ucx.check(self.lib.ucp_worker_set_am_recv_handler(self.worker, ctypes.byref(handler)))
        params = EndpointParams(mask=2 | 4, error_mode=PEER_ERRORS, on_error=self._on_error)
        if uri is not None:
            address = _socket_address(*host_and_port(uri))
            params.mask |= 1 << 4 | 1 << 5
            params.flags = CLIENT_SERVER
            params.address = SocketAddress(address, len(address))
        else:
            params.mask |= 1 << 6
            params.request = request
        self.endpoint = c_void_p()
        ucx.check(self.lib.ucp_ep_create(self.worker, ctypes.byref(params), ctypes.byref(self.endpoint)))
        self._key = c_void_p()

    # ---- what UCX calls ----

    def _message(self, _argument: int, _header: int, _size: int, data: int, length: int, param: int) -> int:
        attributes = c_uint64.from_address(param).value
        if attributes & RENDEZVOUS:
            self._arrived.append((None, (data, length)))
            return INPROGRESS
        self._arrived.append((None, ctypes.string_at(data, length)))
        return OK

    def _error(self, _argument: int, _endpoint: int, _status: int) -> None:
        self.ended = True

    # ---- messages ----

    def _wait(self, request: int | None, deadline: float) -> None:
        """Waits for the end of an operation."""
        if not request:
            return
        handle = c_void_p(request)
        signed = ctypes.c_int64(request).value
        if -200 < signed < 0:
            raise Ended(f"UCX says {signed}")
        while (status := self.lib.ucp_request_check_status(handle)) == INPROGRESS:
            if not self.lib.ucp_worker_progress(self.worker):
                self.ucx.sleep(self.worker, deadline)
        self.lib.ucp_request_free(handle)
        if status != OK:
            raise Ended(f"UCX says {status}")

    def send(self, payload: bytes, tag: int | None = None, *, by_value: bool = False, timeout: float = 60) -> None:
        del by_value  # Every message goes in the same way.
        params = (ctypes.c_ubyte * 256)()
        size = c_size_t(len(payload))
        if tag is None:
            request = self.lib.ucp_am_send_nbx(self.endpoint, UNTAGGED, None, c_size_t(0), payload, size, params)
        else:
            request = self.lib.ucp_tag_send_nbx(self.endpoint, payload, size, c_uint64(tag), params)
        self._wait(request, time.monotonic() + timeout)

    def send_control(self, payload: bytes) -> None:
        """An active message of id 1, which the text doesn't have."""
        params = (ctypes.c_ubyte * 256)()
        size = c_size_t(len(payload))
        request = self.lib.ucp_am_send_nbx(self.endpoint, 1, None, c_size_t(0), payload, size, params)
        self._wait(request, time.monotonic() + 10)

    def receive(self, timeout: float = 60) -> tuple[int | None, bytes]:
        deadline = time.monotonic() + timeout
        while True:
            failed = self.ended
            worked = self.lib.ucp_worker_progress(self.worker)
            if self._arrived:
                tag, message = self._arrived.pop(0)
                return tag, message if isinstance(message, bytes) else self._fetch_rendezvous(*message, deadline)
            if (tagged := self._probe(deadline)) is not None:
                return tagged
            if failed:
                raise Ended
            if not worked and not self.ended:
                self.ucx.sleep(self.worker, deadline)

    def _fetch_rendezvous(self, descriptor: int, length: int, deadline: float) -> bytes:
        memory = ctypes.create_string_buffer(max(length, 1))
        params = (ctypes.c_ubyte * 256)()
        held = c_void_p(descriptor)
        self._wait(self.lib.ucp_am_recv_data_nbx(self.worker, held, memory, c_size_t(length), params), deadline)
        return memory.raw[:length]

    def _probe(self, deadline: float) -> tuple[int, bytes] | None:
        info = TagInfo()
        found = self.lib.ucp_tag_probe_nb(self.worker, c_uint64(0), c_uint64(0), 1, ctypes.byref(info))
        if not found:
            return None
        memory = ctypes.create_string_buffer(max(info.length, 1))
        params = (ctypes.c_ubyte * 256)()
        size = c_size_t(info.length)
        self._wait(self.lib.ucp_tag_msg_recv_nbx(self.worker, memory, size, c_void_p(found), params), deadline)
        return info.tag, memory.raw[: info.length]

    # ---- reads ----

    def use_key(self, packed: bytes) -> None:
        """Reads are done with this key, a remote_handle."""
        self._packed = packed

    def _unpack_key(self) -> None:
        if not self._key:
            padded = self._packed + bytes(4096)
            self.ucx.check(self.lib.ucp_ep_rkey_unpack(self.endpoint, padded, ctypes.byref(self._key)))

    def fetch(self, address: int, length: int, timeout: float = 60) -> bytes:
        """Bytes of the peer's memory."""
        self._unpack_key()
        memory = ctypes.create_string_buffer(length)
        params = (ctypes.c_ubyte * 256)()
        size, at = c_size_t(length), c_uint64(address)
        self._wait(self.lib.ucp_get_nbx(self.endpoint, memory, size, at, self._key, params), time.monotonic() + timeout)
        return memory.raw

    def store(self, address: int, data: bytes) -> None:
        """Writes to the peer's memory. The peer has done it once it answers a later message."""
        self._unpack_key()
        params = (ctypes.c_ubyte * 256)()
        size, at = c_size_t(len(data)), c_uint64(address)
        self._wait(self.lib.ucp_put_nbx(self.endpoint, data, size, at, self._key, params), time.monotonic() + 10)

    def close(self) -> None:
        """An orderly end: what was sent arrives."""
        if self._key:
            self.lib.ucp_rkey_destroy(self._key)
        params = (ctypes.c_ubyte * 256)()
        with contextlib.suppress(Ended, TimeoutError):
            self._wait(self.lib.ucp_ep_close_nbx(self.endpoint, params), time.monotonic() + 5)
        self.lib.ucp_worker_destroy(self.worker)
