"""What the judge found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from crossdock._text import shown

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that an export breaks, or something worth knowing about it."""

    protocol: str
    """By its name in docs/check.md: `dlpack`, `arrow-stream`, ..."""
    rule: str
    """A stable name: `dlpack-capsule-name`, ..."""
    severity: Severity
    """`error`: breaks a rule; `warning`: doesn't follow a recommendation; `note`: worth knowing, or not judged."""
    section: str
    """Where the text says so."""
    message: str
    """What was seen, and what should have been."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule} ({self.protocol}): {shown(self.message)}\n    {self.section}"


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
        """Whether there is no finding of severity `error`."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self._findings if one.severity == "error")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __str__(self) -> str:
        counts = [
            f"{count} {word}{'' if count == 1 else 's'}"
            for word in ("error", "warning", "note")
            if (count := sum(one.severity == word for one in self._findings))
        ]
        head = f"{shown(self.what)}: {', '.join(counts) or 'no findings'}; exercised: {', '.join(self.protocols)}"
        return "\n".join([head, *map(str, self._findings)])

    def __repr__(self) -> str:
        return f"<Report of {self.what}: {len(self.errors)} errors, {len(self)} findings>"

    def raise_if_failed(self) -> None:
        """Raises CheckFailedError, an AssertionError, unless `ok`."""
        if not self.ok:
            raise CheckFailedError(str(self))

    def to_dict(self) -> dict[str, Any]:
        """What `crossdock check --json` writes."""
        return {
            "what": self.what,
            "ok": self.ok,
            "protocols": list(self.protocols),
            "findings": [asdict(one) for one in self._findings],
        }
