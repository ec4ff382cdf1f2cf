"""`crossdock.check()`: right exporters pass, and each wrong one is found out for what it is."""

from __future__ import annotations

import pytest
from tests.wrong_exporters import arrow, buffers, tensors
from tests.wrong_exporters.capsules import RIGHT, WRONG, Wrong

from crossdock import _check

FILLING_THE_LISTS = (arrow, buffers, tensors)


def errors(report: _check.Report) -> list[str]:
    return sorted({one.rule for one in report.errors})


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: f"{make.__module__.split('.')[-1]}-{make.__name__}")
def test_right_exporters_have_no_finding(make):
    for report in (_check.check(make), _check.check(make())):
        assert [one for one in report if one.severity != "note"] == [], str(report)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.rule}-{wrong.make.__name__}")
def test_each_wrong_exporter_breaks_its_rule_and_no_other(wrong: Wrong):
    report = _check.check(wrong.make)
    assert errors(report) == [wrong.rule], str(report)
    if wrong.once:
        report = _check.check(wrong.make())
        assert errors(report) == [wrong.rule], str(report)
