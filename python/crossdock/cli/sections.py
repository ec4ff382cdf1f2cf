"""Help with the options of a command in sections."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class SectionedCommand(TyperCommand):
    """Shows options under the titles that `rich_help_panel` gives, in the order of their first options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            title = getattr(parameter, "rich_help_panel", None) or (
                "Arguments" if parameter.param_type_name == "argument" else "Options"
            )
            sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
