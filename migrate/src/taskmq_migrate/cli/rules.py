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
    shown = [(path, text.rstrip()) for path, text in example.others.items()]
    shown += [
        (f"{example.path}, before", example.before),
        (f"{example.path}, after", example.after),
    ]
    highlighter = Syntax("", lexer, background_color="default")
    for title, text in shown:
        if text:
            console.print(f"\n[dim]{escape(title)}[/]")
            console.print(highlighter.highlight(text.rstrip("\n")), soft_wrap=True)
