"""The help of commands: options in sections, and no names of Python's types."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """Shows arguments by their metavar alone. Typer adds their types, as in `URI <str>`."""

    def _title_of(self, parameter: Any) -> str:
        return "Arguments" if parameter.param_type_name == "argument" else "Options"

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            name = parameter.metavar or record[0] if is_argument else record[0]
            sections.setdefault(self._title_of(parameter), []).append((name, record[1]))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class SectionedCommand(Command):
    """Shows options under the titles that `rich_help_panel` gives, in the order of their first options."""

    def _title_of(self, parameter: Any) -> str:
        return getattr(parameter, "rich_help_panel", None) or super()._title_of(parameter)
