"""Methods of `Tensor` that no hot path calls. The native module adds them to the type."""

from __future__ import annotations

import struct
from itertools import islice

from crossdock.errors import ExportError, InvalidArgumentError, UnsupportedError, UnsupportedTypeError

TYPE_CHECKING = False  # As typing has it, whose import takes longer than all of ours. Type checkers take it for True.
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

    from crossdock._native import Tensor

# The characters of the module struct for the types of Python's numbers: by typestr, without its byte order.
_CHARACTERS = dict(zip("b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split(), "?bhiqBHIQefdfd", strict=True))
# The kinds of memory that a type of device implies. Any other type of device implies "device".
_IMPLIED_KINDS = {"cpu": None, "cuda_host": "host", "rocm_host": "host", "cuda_managed": "shared"}


def _elements(tensor: Tensor) -> Iterable[Any]:
    """Waits for pending work. Returns the elements in C order, as bool, int, float or complex."""
    if tensor.usm_type == "device":
        raise ExportError(
            f'the tensor is in memory of {tensor.device}, which the host can\'t read; copy it with .to("cpu")'
        )
    if tensor.mask is not None:
        raise UnsupportedError("the tensor has a mask, so some of its values may be invalid: see .mask")
    dtype = tensor.dtype
    typestr = dtype.str or ""
    character = _CHARACTERS.get(typestr[1:])
    if character is None:
        if dtype == "bfloat16":  # the upper half of a float32; buffers have no format for it
            tensor.wait()
            halves = struct.unpack(f"={tensor.size}H", b"".join([tensor.copy()]))
            return struct.unpack(f"={tensor.size}f", struct.pack(f"={tensor.size}I", *(half << 16 for half in halves)))
        library = "numpy.asarray(tensor)" if typestr else "torch.from_dlpack(tensor)"
        raise UnsupportedTypeError(
            f"elements of type {dtype} have no Python number type; read them with a library that has the type, "
            f"as in {library}.tolist()"
        )
    with memoryview(tensor) as view:
        data = view.tobytes()
    order = typestr[0].replace("|", "=")
    numbers = struct.unpack(f"{order}{len(data) // struct.calcsize(character)}{character}", data)
    return map(complex, numbers[::2], numbers[1::2]) if typestr[1] == "c" else numbers


def _nested(elements: Iterator[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return next(elements)
    if len(shape) == 1:
        return list(islice(elements, shape[0]))
    rows: list[Any] = [None] * shape[0]  # MemoryError before the first row, if they can't all be stored
    for row in range(shape[0]):
        rows[row] = _nested(elements, shape[1:])
    return rows


def _number(tensor: Tensor, function: type) -> Any:
    if tensor.size != 1:
        raise TypeError(
            f"{function.__name__}() needs a tensor of one element, but this one has shape {tensor.shape}: select one "
            "element, as in tensor[0], or use .tolist()"
        )
    return function(*_elements(tensor))


def item(self: Tensor) -> bool | int | float | complex:
    """Returns the value of a tensor of one element, as a bool, int, float or complex. Waits for pending work. For
    memory that the host can read.

    Raises `InvalidArgumentError` for another number of elements, `ExportError` for memory that the host can't read,
    `UnsupportedError` for a tensor with a mask, `UnsupportedTypeError` for a type that is no number of Python's, and
    the error of failed work.
    """
    if self.size != 1:
        raise InvalidArgumentError(
            f"item() needs a tensor of one element, but this one has shape {self.shape}: select one element, as in "
            "tensor[0].item(), or use .tolist()"
        )
    (value,) = _elements(self)
    return value  # type: ignore[no-any-return]


def tolist(self: Tensor) -> Any:
    """Returns the values as nested lists of bool, int, float or complex; without dimensions, as item(). Waits for
    pending work. For memory that the host can read.

    Raises the errors of `item()`, but none for the number of elements.
    """
    return _nested(iter(_elements(self)), self.shape)


def __float__(self: Tensor) -> float:
    return _number(self, float)  # type: ignore[no-any-return]


def __int__(self: Tensor) -> int:
    return _number(self, int)  # type: ignore[no-any-return]


def __bool__(self: Tensor) -> bool:
    return _number(self, bool)  # type: ignore[no-any-return]


def __iter__(self: Tensor) -> Iterator[Tensor]:
    """Iterates over the rows of a tensor of two or more dimensions: each is a tensor of the other dimensions, in the
    same memory.

    pandas makes a Series only of arrays that have this method. It then reads the memory by another protocol.

    Raises `TypeError` for a tensor of one dimension, or none: its elements are no Python numbers, and whoever compares
    them would find no two that are equal.
    """
    if self.ndim < 2:
        raise TypeError(
            "a tensor of one dimension, or none, can't be iterated over: use .tolist(), or numpy.asarray(tensor)"
        )
    return map(self.__getitem__, range(len(self)))


def __contains__(self: Tensor, value: object, /) -> NoReturn:
    """Raises TypeError: Python would otherwise compare each row with the value, and a row is no value."""
    raise TypeError("a tensor doesn't compare its elements: use `value in numpy.asarray(tensor)`")


def _in_c_order(tensor: Tensor) -> bool:
    expected = tensor.itemsize
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if extent != 1 and stride != expected and tensor.size != 0:
            return False
        expected *= extent
    return True


def __repr__(self: Tensor) -> str:
    text = f"<crossdock.Tensor: shape {self.shape}, {self.dtype}, {self.device}"
    if self.usm_type != _IMPLIED_KINDS.get(self.device.type, "device"):
        text += f" {self.usm_type}"
    if self.readonly:
        text += ", read-only"
    if not _in_c_order(self):
        text += f", strides {self.strides}"
    return text + (", masked>" if self.mask is not None else ">")


def _repr_html_(self: Tensor) -> str:
    """For notebooks: the content of repr() as a table. Reads no byte of the memory."""
    from crossdock import _html

    return _html.of_tensor(self, None if _in_c_order(self) else self.strides)


METHODS = (item, tolist, __float__, __int__, __bool__, __iter__, __contains__, __repr__, _repr_html_)
