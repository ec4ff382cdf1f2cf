"""A client that follows the text strictly gets tensors from our server, which pyarrow reads; and tensors that pyarrow
has written are received by ours."""

from __future__ import annotations

import struct

import numpy as np
import protocol
import pyarrow as pa
import pytest
import spec_server
from test_spec_client import Connected
from test_spec_tcp import connected

import crossdock as xd

ARRAYS = {
    "matrix": np.arange(12.0).reshape(3, 4),
    "transposed": np.arange(12, dtype="i2").reshape(3, 4).T,
    "odd": np.arange(3, dtype="u1"),
    "empty": np.empty((0, 2), "f4"),
}
RAW = {"bool": np.array([True, False, True]), "big": np.arange(3, dtype=">u4")}


def check(client: protocol.LetterClient) -> None:
    for name, array in ARRAYS.items():
        stream = client.get(name.encode())
        (tensor,) = stream.tensors()
        assert tensor.shape == array.shape
        assert np.array_equal(tensor.to_numpy(), array)
        assert stream.end_number == 2
        if stream.addresses:
            client.free(stream.addresses)
    for name, array in RAW.items():  # as raw integers: what they mean is in the message's metadata
        stream = client.get(name.encode())
        (tensor,) = stream.tensors()
        assert tensor.to_numpy().tobytes() == array.tobytes()
        if stream.addresses:
            client.free(stream.addresses)
    stream = client.get(b"model")
    assert [tensor.to_numpy().tolist() for tensor in stream.tensors()] == [[1, 1], [0, 0, 0]]


@pytest.fixture
def server(request):
    model = {"a": {"b": np.ones(2)}, "c": np.zeros(3)}
    with xd.serve({**ARRAYS, **RAW, "model": model}, request.param) as serving:
        yield serving


@pytest.mark.parametrize("server", ["shm:"], indirect=True)
def test_by_address(server):
    one = Connected(server.locations[0])
    check(one.client)
    one.carrier.close()


@pytest.mark.parametrize("server", ["tcp://127.0.0.1:0"], indirect=True)
def test_by_value(server):
    with connected(server) as client:
        check(client)


def message_of(array: np.ndarray) -> protocol.Message:
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(array), sink)
    written = sink.getvalue().to_pybytes()
    (length,) = struct.unpack_from("<i", written, 4)
    header = protocol.read_header(written[8 : 8 + length])
    return protocol.Message(written[8 : 8 + length], written[8 + length :][: header.body_length])


@pytest.mark.parametrize("array", [np.arange(10.0).reshape(2, 5), np.arange(6, dtype="i2").reshape(2, 3).T])
def test_pyarrows_are_received(array):
    schema = protocol.messages_of(pa.table({"x": pa.array([], pa.int8())}).select([]))[0]
    message = message_of(array)

    def serve(carrier: protocol.Carrier) -> None:
        spec_server.expect_request(carrier)
        carrier.send(protocol.metadata_message(0, schema.flatbuffer))
        carrier.send(protocol.metadata_message(1, message.flatbuffer))
        carrier.send(message.body, protocol.body_tag(1, protocol.PACKED), by_value=True)
        carrier.send(protocol.end_message(2))
        spec_server.until_it_goes(carrier)

    for out in (None, np.zeros(array.shape, array.dtype)):
        with spec_server.tcp_server() as server:
            server.accept(serve)
            with xd.connect(server.uri) as client:
                tensor = client.tensor("t", out=out)
                assert np.array_equal(tensor, array)
            server.finish()
