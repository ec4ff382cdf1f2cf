"""`check()`, the checker of other people's exports, and what its reports are made of.

The checker itself is loaded with the first use: nobody pays for it who doesn't call it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crossdock._check import CheckFailedError, Finding, Report, Severity

__all__ = ["CheckFailedError", "Finding", "Report", "Severity", "check"]


def check(obj: object, *, protocols: Iterable[str] | None = None) -> Report:
    """Checks how `obj` exports its data, in every protocol that it claims or in those of `protocols`.

    The protocols are `dlpack`, `dlpack-exchange`, `cuda-array-interface`, `array-interface`, `buffer`,
    `sycl-usm-array-interface`, `arrow-schema`, `arrow-device-array`, `arrow-array`, `arrow-device-stream` and
    `arrow-stream`. docs/check.md has the rules.

    `obj` is the object itself, or something that makes one: a class, or a callable without arguments that claims no
    protocol. A fresh object is made for each try then, which is what streams that can be read once need, and without
    which it can't be seen whether exports outlive their object.

    The object is exported from several times and is as before afterwards, except that a stream which can be read once
    was read. Memory of devices is never read. A pointer that leads nowhere is found out; one that leads to memory of
    somebody else's isn't, and a function that crashes crashes this process.

    Raises InvalidArgumentError for an unknown protocol, and UnsupportedTypeError for an object that claims none, or
    not all of those that were asked for. What `obj()` raises is raised.
    """
    from crossdock._check import check as run

    return run(obj, protocols=protocols)


def __getattr__(name: str) -> object:
    if name in __all__:
        from crossdock import _check

        return getattr(_check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
