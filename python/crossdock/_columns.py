"""What tables and batches answer to consumers that take them for one array: which call helps.

They claim DLPack for that, and refuse each export with the error that DLPack asks for.

Without these methods, NumPy and pandas would make one cell of a table, and torch would speak of a used capsule.
"""

from __future__ import annotations

from crossdock.errors import ExportError

TYPE_CHECKING = False  # As typing has it, whose import takes longer than all of ours. Type checkers take it for True.
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HELP = {
    "RecordBatch": "a batch has columns, and is no array: batch['name'] is one; to_arrow(), to_pandas() and "
    "to_polars() take all of them",
    "RecordBatchReader": "a stream of batches has columns, and is no array: to_arrow(), to_pandas() and "
    "to_polars() read it; each of its batches has batch['name']",
    "FileReader": "a file has columns, and is no array: to_arrow(), to_pandas() and to_polars() read it; each of its "
    "batches has batch['name']",
    "Table": "a table has columns, and is no array: to_arrow(), to_pandas() and to_polars() read it; each of "
    "its batches has batch['name']",
}


def __array__(self: object, *_: object, **__: object) -> NoReturn:
    """Raises TypeError, which says what to call: NumPy and pandas would otherwise take the object for a value."""
    raise TypeError(_HELP[type(self).__name__])


def __dlpack__(self: object, **_: object) -> NoReturn:
    """Raises BufferError, as DLPack asks for, which says what to call."""
    raise ExportError(_HELP[type(self).__name__])


def __dlpack_device__(self: Any) -> tuple[int, int]:
    """For consumers that ask for it before `__dlpack__()`. A batch says its device, the others the CPU."""
    device = getattr(self, "device", None)
    return (1, 0) if device is None else (device.type_id, max(device.id, 0))


METHODS = (__array__, __dlpack__, __dlpack_device__)
