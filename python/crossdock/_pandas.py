"""How pandas' arrays of Arrow data are pickled: by their own buffers, where pandas copies them each time."""

from __future__ import annotations

import copyreg
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["reducers"]

# Of the buffers, as much as this must be the array's: else it is a part of a larger one, and pandas' copy is smaller.
_OWN_PART = 0.9


def reducers() -> dict[type, Callable[[Any], Any]]:
    """Returns a reducer for each class. Nothing while pandas isn't imported, or where it has no such classes.

    What is pickled with them is loaded by pandas alone.
    """
    arrays = getattr(sys.modules.get("pandas"), "arrays", None)
    kinds = (getattr(arrays, name, None) for name in ("ArrowExtensionArray", "ArrowStringArray"))
    return {kind: _reduce for kind in kinds if isinstance(kind, type)}


def _reduce(array: Any) -> Any:
    chunked = getattr(array, "_pa_array", None)
    if chunked is None or chunked.num_chunks != 1:
        return array.__reduce_ex__(5)
    chunk = chunked.chunk(0)
    if chunk.offset or chunk.nbytes < _OWN_PART * chunk.get_total_buffer_size():
        return array.__reduce_ex__(5)
    # The state that pandas' own __getstate__() makes, with the chunk in the place of a copy of it.
    state = {**vars(array), "_pa_array": chunk}
    if "_cache" in state:
        state["_cache"] = {}
    return copyreg.__newobj__, (type(array),), state  # type: ignore[attr-defined]
