"""`check()`, the checker of exports, and the types of its reports.

The checker itself is imported when it is first used, so that other programs don't pay for it.
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
    `arrow-stream`. docs/how-to/check.md lists the rules.

    `obj` is the object itself, or a class or a callable without arguments that makes an object and claims no protocol.
    From a class or a callable, a new object is made for each test. Streams that can be read only once need this. It is
    also the only way to test whether exports outlive their object.

    The object is exported several times, and is unchanged afterwards, except that a stream that can be read only once
    was read. Memory of devices is never read. A pointer to unmapped memory is detected; a pointer to memory of another
    owner isn't. If a function of the exporter crashes, this process ends.

    Raises InvalidArgumentError for an unknown protocol, UnsupportedTypeError for an object that claims no protocol or
    not all of `protocols`, RuntimeError if the object raises SystemExit, and the errors that `obj()` raises.
    """
    from crossdock._check import check as run

    return run(obj, protocols=protocols)


def __getattr__(name: str) -> object:
    if name in __all__:
        from crossdock import _check

        return getattr(_check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
