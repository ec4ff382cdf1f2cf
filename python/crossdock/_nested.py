"""Nested dictionaries of arrays, which are served under one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crossdock import _native, _sources
from crossdock._text import quoted
from crossdock.errors import Error, InvalidArgumentError, InvalidDataError, UnsupportedTypeError

if TYPE_CHECKING:
    from crossdock._typing import Nested

_MOST_KEYS = 64  # of a path, as the library has it


def flattened(arrays: Mapping[str, Any]) -> list[tuple[list[str], _native.Tensor]]:
    """Returns the arrays of a nested mapping, as tensors, with the keys that lead to each of them. Raises
    `InvalidArgumentError` for keys that aren't text and for mappings without entries, which no tensor would stand for,
    and `UnsupportedTypeError` for what is no array; the path is named."""
    return list(_leaves(arrays, []))


def _leaves(arrays: Mapping[str, Any], path: list[str]) -> Iterator[tuple[list[str], _native.Tensor]]:
    if len(path) >= _MOST_KEYS:
        raise InvalidArgumentError(f"{_shown(path[:3])}... is nested more than {_MOST_KEYS} deep")
    if not arrays:
        raise InvalidArgumentError(f"{_shown(path) or 'the mapping'} is empty: there is no array to serve")
    for key, value in arrays.items():
        if not isinstance(key, str):
            raise InvalidArgumentError(
                f"the key {quoted(key)} in {_shown(path) or 'the mapping'} is no str, as keys must be"
            )
        here = [*path, key]
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
        else:
            yield here, _tensor(value, here)


def _tensor(value: object, path: list[str]) -> _native.Tensor:
    try:
        _sources.refuse_sparse(value)
        return _native.asarray(value)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"{_shown(path)} can't be served as a tensor: {error}") from error
    except Error as error:
        error.add_note(f"of {_shown(path)}")
        if hasattr(value, "__arrow_c_stream__"):
            error.add_note("a table needs a name of its own: publish() it alone, not in a mapping, which is for arrays")
        raise


def _shown(path: Sequence[str]) -> str:
    return "".join(f"[{quoted(key)}]" for key in path)


def nested(tensors: Sequence[tuple[Sequence[str], _native.Tensor]]) -> Nested:
    """Puts tensors where their paths say. The library has checked that no path is the beginning of another."""
    root: Nested = {}
    for path, tensor in tensors:
        level = root
        for key in path[:-1]:
            below = level.setdefault(key, {})
            if isinstance(below, _native.Tensor):
                raise InvalidDataError(f"the path {_shown(path)} leads through a tensor")
            level = below
        level[path[-1]] = tensor
    return root
