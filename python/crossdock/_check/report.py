"""The report of the checker, as text and as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from crossdock._text import counted, shown

Severity = Literal["error", "warning", "note"]
"""How grave a finding is; see `Finding.severity`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that an export breaks, or other information about the export."""

    protocol: str
    """By its name in docs/how-to/check.md: `dlpack`, `arrow-stream`, ..."""
    rule: str
    """A stable name: `dlpack-capsule-name`, ..."""
    severity: Severity
    """`error`: breaks a rule; `warning`: doesn't follow a recommendation; `note`: worth knowing, or not checked."""
    section: str
    """The section of the specification that says so."""
    wants: str
    """What the rule asks for, as docs/how-to/check.md lists it."""
    message: str
    """What was found."""

    def __str__(self) -> str:
        return "\n".join([f"{self.severity}: {self.rule} ({self.protocol})", *_lines([self])])


def _lines(of_one_rule: Sequence[Finding]) -> list[str]:
    first = of_one_rule[0]
    found = [f"  found:   {shown(one.message)}" for one in of_one_rule]
    return [*found, f"  wants:   {first.wants}", f"  section: {first.section}"]


def _counted(findings: Iterable[Finding]) -> str:
    severities = [one.severity for one in findings]
    counts = [counted(count, word) for word in ("error", "warning", "note") if (count := severities.count(word))]
    return ", ".join(counts) or "no findings"


class CheckFailedError(AssertionError):
    """An export breaks rules; the text is the report."""


class Report:
    """The findings about one object: iterable, and readable as text."""

    def __init__(self, what: str, protocols: tuple[str, ...], findings: tuple[Finding, ...]) -> None:
        self.what = what
        self.protocols = protocols
        """The protocols that were exercised."""
        self._findings = findings

    @property
    def ok(self) -> bool:
        """True if no finding has the severity `error`."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of the severity `error`."""
        return tuple(one for one in self._findings if one.severity == "error")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __str__(self) -> str:
        """Returns the findings by rule, the worst rules first, and their count at the end."""
        rules: dict[tuple[str, str], list[Finding]] = {}
        for one in self._findings:
            rules.setdefault((one.protocol, one.rule), []).append(one)
        lines = [f"{shown(self.what)}: exercised {', '.join(self.protocols)}"]
        for (protocol, rule), findings in rules.items():
            lines += [f"{findings[0].severity}: {rule} ({protocol})", *_lines(findings)]
        broken = f", of {counted(len(rules), 'rule')}" if rules else ""
        return "\n".join([*lines, f"{_counted(self._findings)}{broken}"])

    def __repr__(self) -> str:
        return f"<Report of {self.what}: {len(self.errors)} errors, {len(self)} findings>"

    def _repr_html_(self) -> str:
        """For notebooks: a table of the findings."""
        from crossdock import _html

        return _html.of_report(self)

    def raise_if_failed(self) -> None:
        """Raises CheckFailedError, an AssertionError, unless `ok`."""
        if not self.ok:
            raise CheckFailedError(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as `crossdock check --json` writes it. Raises nothing."""
        return {
            "what": self.what,
            "ok": self.ok,
            "protocols": list(self.protocols),
            "counts": {
                word: sum(one.severity == word for one in self._findings) for word in ("error", "warning", "note")
            },
            "findings": [asdict(one) for one in self._findings],
        }
