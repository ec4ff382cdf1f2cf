"""`crossdock.check()`: a checker of exports.

It follows each specification strictly, with ctypes and plain Python. It shares no code with Crossdock's own exports and
imports, so that it can check these, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial

from crossdock._check import across, arrow, buffer, dictionary, dlpack, exchange, usm
from crossdock._check.checker import Checker, described, quick_collections
from crossdock._check.report import CheckFailedError, Finding, Report, Severity
from crossdock._check.rules import RULES, Rule
from crossdock._text import quoted
from crossdock.errors import InvalidArgumentError, UnsupportedTypeError

__all__ = ["PROTOCOLS", "RULES", "CheckFailedError", "Finding", "Report", "Rule", "Severity", "check"]

_ARROW = {
    "arrow-schema": arrow.SCHEMA,
    "arrow-device-array": arrow.DEVICE_ARRAY,
    "arrow-array": arrow.ARRAY,
    "arrow-device-stream": arrow.DEVICE_STREAM,
    "arrow-stream": arrow.STREAM,
}
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "dlpack": ("__dlpack__", "__dlpack_device__"),
    "dlpack-exchange": (exchange.ATTRIBUTE,),
    "cuda-array-interface": (dictionary.CUDA,),
    "array-interface": (dictionary.NUMPY,),
    "buffer": (),
    "sycl-usm-array-interface": (usm.ATTRIBUTE,),
    **{name: (method,) for name, method in _ARROW.items()},
}
_CHECKS_OF_ARRAYS: dict[str, Callable[[Checker], None]] = {
    "dlpack": dlpack.check,
    "dlpack-exchange": exchange.check,
    "cuda-array-interface": partial(dictionary.check, attribute=dictionary.CUDA),
    "array-interface": partial(dictionary.check, attribute=dictionary.NUMPY),
    "buffer": buffer.check,
    "sycl-usm-array-interface": usm.check,
}
PROTOCOLS = tuple(_ATTRIBUTES)


def _has(thing: object, attribute: str) -> bool:
    try:
        return getattr(thing, attribute, None) is not None
    except Exception:
        return True  # It claims the protocol. The check itself reports the error.


def _claims(thing: object, protocol: str) -> bool:
    if protocol == "buffer":
        return buffer.claimed(thing)
    return any(_has(thing, attribute) for attribute in _ATTRIBUTES[protocol])


def check(obj: object, *, protocols: Iterable[str] | None = None) -> Report:
    """Checks how `obj` exports its data, as `crossdock.check()` specifies."""
    try:
        return _check(obj, protocols)
    except SystemExit as error:
        raise RuntimeError(f"the object raised {described(error)} while it was checked") from error


def _check(obj: object, protocols: Iterable[str] | None) -> Report:
    if isinstance(protocols, str):
        raise TypeError(f"protocols must be a list of names, not one name; give [{quoted(protocols)}]")
    wanted = PROTOCOLS if protocols is None else tuple(protocols)
    for protocol in wanted:
        if protocol not in PROTOCOLS:
            raise InvalidArgumentError(
                f"{quoted(protocol)} is not a protocol; the protocols are {', '.join(PROTOCOLS)}"
            )
    factory: Callable[[], object] | None = None
    one = obj
    if callable(obj) and (isinstance(obj, type) or not any(_claims(obj, protocol) for protocol in PROTOCOLS)):
        factory, one = obj, obj()
    claimed = [protocol for protocol in PROTOCOLS if protocol in wanted and _claims(one, protocol)]
    what = type(one).__qualname__
    if not claimed or (protocols is not None and set(claimed) != set(wanted)):
        missing = ", ".join(sorted(set(wanted) - set(claimed))) if protocols is not None else "any protocol"
        raise UnsupportedTypeError(f"{what} doesn't claim {missing}")
    checker = Checker(factory, None if factory is not None else one)
    del one
    # Ignores warnings of the library: they are for its users.
    with warnings.catch_warnings(action="ignore"), quick_collections():
        _run(checker, claimed)
    order = {"error": 0, "warning": 1, "note": 2}
    findings = tuple(sorted(checker.all_findings(), key=lambda finding: order[finding.severity]))
    return Report(what, tuple(checker.exercised), findings)


def _run(checker: Checker, claimed: list[str]) -> None:
    of_arrays = [protocol for protocol in claimed if protocol in _CHECKS_OF_ARRAYS]
    for protocol in of_arrays:
        with checker.exercising(protocol):
            _CHECKS_OF_ARRAYS[protocol](checker)
    if len(of_arrays) > 1:
        together = checker
        if checker.fresh:
            # Only exports of one object can be compared, and a factory makes several objects.
            together = Checker(None, checker.object())
            for protocol in of_arrays:
                with together.exercising(protocol):
                    _CHECKS_OF_ARRAYS[protocol](together)
        if len(together.views) > 1:
            with together.checking("across"):
                across.check(together)
        if together is not checker:
            checker.findings += [finding for finding in together.findings if finding.protocol == "across"]
    methods = [_ARROW[protocol] for protocol in claimed if protocol in _ARROW]
    if methods:
        arrow.check(checker, methods)
