"""The output of `crossdock` for tensors."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossdock import _native
from crossdock._names import shown_name
from crossdock._text import counted, shown
from crossdock.cli.layout import table_lines, terminal_width, wrapped
from crossdock.cli.output import json_value
from crossdock.errors import SystemError, UnsupportedError, UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crossdock._typing import Nested
    from crossdock.client import Client

_MOST_VALUES = 1000  # NumPy leaves out the middle of larger arrays


def content_text(entry: _native.CatalogEntry) -> str:
    """Returns what a line of the catalog says about tensors; "" of a table."""
    if entry.kind == "tensors":
        return "? tensors" if entry.count is None else counted(entry.count, "tensor")
    if entry.kind == "tensor":
        return f"{entry.dtype or '?'} {'?' if entry.shape is None else entry.shape}"
    return ""


def content_about(entry: _native.CatalogEntry) -> dict[str, Any]:
    """Returns the same for programs."""
    shape = None if entry.shape is None else list(entry.shape)
    return {"kind": entry.kind, "count": entry.count, "dtype": entry.dtype, "shape": shape}


def received(client: Client, entry: _native.CatalogEntry, timeout: float) -> dict[tuple[str, ...], _native.Tensor]:
    """Gets the tensors of a name, with their paths; that of a single one is empty."""
    if entry.kind == "tensor":
        return {(): client.tensor(entry.name, timeout=timeout)}
    return dict(_leaves(client.tensors(entry.name, timeout=timeout), ()))


def _leaves(level: Nested, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _native.Tensor]]:
    for key, value in level.items():
        if isinstance(value, _native.Tensor):
            yield (*path, key), value
        else:
            yield from _leaves(value, (*path, key))


def about(path: tuple[str, ...], tensor: _native.Tensor) -> dict[str, Any]:
    return {
        "path": list(path),
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "strides": list(tensor.strides),
        "bytes": tensor.nbytes,
        "device": str(tensor.device),
    }


def show(tensors: dict[tuple[str, ...], _native.Tensor], print_json: Callable[[Any], None] | None) -> None:
    """Prints a line for each tensor, or an object with `print_json`."""
    if print_json is not None:
        for path, tensor in tensors.items():
            print_json(about(path, tensor))
        return
    rows = [
        (
            " ".join(json.dumps(key, ensure_ascii=False) for key in path),
            str(tensor.dtype),
            str(tensor.shape),
            str(tensor.strides),
            f"{tensor.nbytes:,}",
            str(tensor.device),
        )
        for path, tensor in tensors.items()
    ]
    header = ("path", "type", "shape", "strides", "bytes", "device")
    lines, _ = table_lines(header, [[shown(cell) for cell in row] for row in rows], right={4}, width=terminal_width())
    for line in lines:
        print(line)


def get(
    client: Client, entry: _native.CatalogEntry, output: Path | None, timeout: float, as_json: bool = False
) -> None:
    """Gets tensors: writes one to a file, or says what they are and shows the values of a single one. As JSON, an
    object for each, with its values."""
    start = time.monotonic()
    tensors = received(client, entry, timeout)
    seconds = max(time.monotonic() - start, 1e-6)
    if as_json:
        for path, tensor in tensors.items():
            print(json.dumps({**about(path, tensor), "values": json_value(tensor.tolist())}), flush=True)
        return
    size = sum(tensor.nbytes for tensor in tensors.values())
    what = content_text(entry) if entry.kind == "tensor" else counted(len(tensors), "tensor")
    said = f"{shown(shown_name(entry.name))}: {shown(what)}, {counted(size, 'byte')}, {seconds:.3f} s"
    if output is not None:
        if entry.kind != "tensor":
            raise UnsupportedError(f"{output} holds one array, but several are served there: {what}")
        _write(output, tensors[()])
        print(f"{said}, written to {shown(str(output))}")
        return
    print(wrapped(said, terminal_width()))
    if entry.kind == "tensor":
        _print_values(tensors[()])
    else:
        show(tensors, None)


def _numpy() -> Any:
    """Imports NumPy, if it is installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _print_values(tensor: _native.Tensor) -> None:
    numpy = _numpy()
    if numpy is None:
        print("(the values are shown where NumPy is installed: pip install numpy)")
        return
    try:
        values = numpy.asarray(tensor)
    except (BufferError, TypeError, ValueError):  # NumPy has no such type
        print(f"(NumPy has no values of type {tensor.dtype} to show)")
        return
    for line in numpy.array2string(values, threshold=_MOST_VALUES).splitlines():
        print(shown(line))


def _write(target: Path, tensor: _native.Tensor) -> None:
    """Writes an array to a file of NumPy's, which gets its name when it is complete."""
    numpy = _numpy()
    if numpy is None:
        raise UnsupportedError(f"writing {target} needs NumPy: pip install numpy")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        values = numpy.asarray(tensor)
    except (BufferError, TypeError, ValueError) as error:
        raise UnsupportedTypeError(f"{target} can't hold a tensor of type {tensor.dtype}: {error}") from error
    try:
        with partial.open("wb") as sink:
            numpy.save(sink, values, allow_pickle=False)
        partial.replace(target)
    except OSError as error:  # NumPy's has no reason, and no name
        raise SystemError(f"{target} can't be written: {error.strerror or error}; is the disk full?") from error
    finally:
        partial.unlink(missing_ok=True)
