"""The pytest plug-in `crossdock-check`: a fixture with which other projects judge their exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from crossdock._check import Report


class Check(Protocol):
    """The type of the fixture `crossdock_check`."""

    def __call__(
        self,
        obj: object | Callable[[], object],
        *,
        protocols: Iterable[str] | None = None,
        allow: Iterable[str] = (),
    ) -> Report: ...


@pytest.fixture
def crossdock_check() -> Check:
    """`crossdock_check(obj)` fails the test, with the report, where `obj` breaks a rule of a protocol that it claims.

    `obj` and `protocols` are those of `crossdock.check()`; errors of the rules in `allow` are known, and let pass.
    """

    def check(
        obj: object | Callable[[], object], *, protocols: Iterable[str] | None = None, allow: Iterable[str] = ()
    ) -> Report:
        import crossdock

        report = crossdock.check(obj, protocols=protocols)
        if {one.rule for one in report.errors} - set(allow):
            pytest.fail(str(report), pytrace=False)
        return report

    return check
