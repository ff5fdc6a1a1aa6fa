"""``taskmq-migrate rules`` and ``explain``: the pages of the rules."""

from __future__ import annotations

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from taskmq_migrate.model import Example
from taskmq_migrate.registry import all_rules, find_rule

__all__ = ["explain", "rules"]

LEXERS = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".cfg": "ini"}


@click.command()
def rules() -> None:
    """List the rules."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rule", "safety", "to", "what it does"):
        table.add_column(name, overflow="fold")
    for rule in all_rules():
        target = "doctor" if rule.doctor else ", ".join(sorted(each.value for each in rule.targets))
        table.add_row(rule.id, rule.safety.value, target, escape(rule.title))
    Console().print(table)


@click.command()
@click.argument("rule")
def explain(rule: str) -> None:
    """Show the page of a rule: why, before and after, what may go wrong."""
    found = find_rule(rule)
    console = Console(highlight=False)
    console.print(f"[bold]{found.id}[/] {escape(found.title)} [dim]({found.safety.value})[/]\n")
    console.print(escape(found.page.why))
    for example in found.page.examples:
        _show(console, example)
    console.print(f"\n[bold]Risk.[/] {escape(found.page.risk)}")


def _show(console: Console, example: Example) -> None:
    suffix = example.path[example.path.rfind(".") :] if "." in example.path else ""
    lexer = LEXERS.get(suffix, "text")
    for path, text in example.others.items():
        console.print(f"\n[dim]{escape(path)}[/]")
        console.print(Syntax(text.rstrip(), lexer, background_color="default"))
    for name, text in (("before", example.before), ("after", example.after)):
        if text:
            console.print(f"\n[dim]{escape(example.path)}, {name}[/]")
            console.print(Syntax(text.rstrip("\n"), lexer, background_color="default"))
