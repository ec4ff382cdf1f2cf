"""The pytest plug-in `crossdock-check`: a fixture that other projects use to check their exports."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import pytest

from crossdock._text import quoted

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


def _rules(names: Iterable[str]) -> set[str]:
    """Returns the names as a set. Raises InvalidArgumentError if a name isn't the name of a rule."""
    import difflib

    from crossdock._check import RULES
    from crossdock.errors import InvalidArgumentError

    wanted = {names} if isinstance(names, str) else set(names)
    for name in sorted(wanted - set(RULES)):
        near = difflib.get_close_matches(name, RULES, 1)
        hint = f"; {quoted(near[0])} is one" if near else "; docs/how-to/check.md has them"
        raise InvalidArgumentError(f"allow= has {quoted(name)}, which is not the name of a rule{hint}")
    return wanted


@pytest.fixture
def crossdock_check() -> Check:
    """`crossdock_check(obj)` fails the test, with the report, if `obj` breaks a rule of a protocol that it claims.

    `obj` and `protocols` are the arguments of `crossdock.check()`. Errors of the rules in `allow` are accepted. A name
    in `allow` that isn't a rule raises InvalidArgumentError. A rule in `allow` that isn't broken causes a warning: it
    isn't needed there.
    """

    def check(
        obj: object | Callable[[], object], *, protocols: Iterable[str] | None = None, allow: Iterable[str] = ()
    ) -> Report:
        import crossdock

        allowed = _rules(allow)
        report = crossdock.check(obj, protocols=protocols)
        unneeded = sorted(allowed - {one.rule for one in report})
        about = f"allow= has rules that {report.what} doesn't break: {', '.join(unneeded)}" if unneeded else ""
        if {one.rule for one in report.errors} - allowed:
            pytest.fail("\n".join(filter(None, [str(report), about])), pytrace=False)
        if about:
            warnings.warn(about, stacklevel=2)
        return report

    return check
