"""What the runs say: medians with their spread, ratios within a round, a table and a plot."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rounds import Cell, Run

BETTER_IF_MORE = "jobs/s"
COLORS = {"native": "#1f6fb4", "shim": "#5aa1d8", "limit": "#c9c9c9", "wake": "#dedede"}
PEERS = "#e0955a"


@dataclass(frozen=True)
class Row:
    """One contestant in one cell."""

    cell: Cell
    contestant: str
    figure: str
    values: tuple[float, ...]
    """Of each round."""
    others: dict[str, float]
    """The medians of the other figures."""
    ratio: float | None
    """How many times as good the first contestant was, by the median of the rounds; ``None`` for
    the first one itself, or where they were never measured together."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def rows_of(runs: Iterable[Run], first: str = "native") -> list[Row]:
    """The contestants of each cell, the first one on top, then the best."""
    by_cell: dict[Cell, dict[str, dict[int, dict[str, float]]]] = {}
    for run in runs:
        if run.figures:
            by_cell.setdefault(run.cell, {}).setdefault(run.contestant, {})[run.round] = run.figures
    rows = []
    for cell in sorted(by_cell):
        contestants = by_cell[cell]
        own = contestants.get(first, {})
        found = [_row(cell, name, rounds, own, first) for name, rounds in contestants.items()]
        found.sort(key=lambda row: row.median, reverse=found[0].figure == BETTER_IF_MORE)
        found.sort(key=lambda row: row.contestant != first)
        rows += found
    return rows


def _row(
    cell: Cell,
    name: str,
    rounds: dict[int, dict[str, float]],
    own: dict[int, dict[str, float]],
    first: str,
) -> Row:
    figure, *others = next(iter(rounds.values()))
    ratios = [own[n][figure] / rounds[n][figure] for n in rounds if n in own and rounds[n][figure]]
    if figure != BETTER_IF_MORE:
        ratios = [1 / ratio for ratio in ratios if ratio]
    return Row(
        cell=cell,
        contestant=name,
        figure=figure,
        values=tuple(figures[figure] for figures in rounds.values()),
        others={o: statistics.median(figures[o] for figures in rounds.values()) for o in others},
        ratio=statistics.median(ratios) if ratios and name != first else None,
    )


def markdown(
    rows: Sequence[Row],
    setting: dict[str, object],
    first: str = "native",
    errors: Sequence[Run] = (),
) -> str:
    """A table for the docs, and below it the runs that came to nothing."""
    lines = [
        ", ".join(f"{name} {value}" for name, value in setting.items()),
        "",
        f"| what | who | | median | least to most | {first} is better by | besides |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        spread = f"{number(min(row.values))} to {number(max(row.values))}"
        besides = " · ".join(f"{name} {number(value)}" for name, value in row.others.items())
        cells = (row.cell.title, row.contestant, row.figure, number(row.median), spread, ratio)
        lines.append("| " + " | ".join((*cells, besides)) + " |")
    lines += ["", *dict.fromkeys(f"{e.contestant}: {e.cell.title}: {e.error}" for e in errors)]
    return "\n".join(lines).rstrip() + "\n"


def number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plot(rows: Sequence[Row], file: Path) -> list[Path]:
    """Draw a panel for each cell in which several take part (all cells, if there is none), as PNG
    and SVG beside each other. Needs matplotlib."""
    import matplotlib as library

    library.use("Agg")
    from matplotlib import pyplot

    by_cell: dict[Cell, list[Row]] = {}
    for row in rows:
        by_cell.setdefault(row.cell, []).append(row)
    compared = {cell: own for cell, own in by_cell.items() if len(own) > 1} or by_cell
    most = max(map(len, compared.values()))
    columns = min(3, len(compared))
    height = -(-len(compared) // columns)
    size = (5 * columns, (0.7 + 0.3 * most) * height)
    figure, axes = pyplot.subplots(height, columns, figsize=size, squeeze=False)
    panels: list[Any] = list(axes.flat)
    for panel in panels[len(compared) :]:
        panel.remove()
    for panel, (cell, own) in zip(panels, compared.items(), strict=False):
        _draw(panel, cell, own, most)
    figure.tight_layout()
    files = [file.with_suffix(suffix) for suffix in (".png", ".svg")]
    for each in files:
        figure.savefig(each)
    return files


def _draw(panel: Any, cell: Cell, own: Sequence[Row], most: int) -> None:
    """A bar for each contestant, with the least and the most; bars are alike in all panels."""
    places = [most - 1 - index for index in range(len(own))]
    medians = [row.median for row in own]
    errors = [
        [row.median - min(row.values) for row in own],
        [max(row.values) - row.median for row in own],
    ]
    colors = [COLORS.get(row.contestant, PEERS) for row in own]
    panel.barh(places, medians, xerr=errors, color=colors, ecolor="#555555", height=0.7)
    panel.set_yticks(places, [row.contestant for row in own])
    panel.set_ylim(-0.6, most - 0.4)
    reach = max(max(row.values) for row in own)
    panel.set_xlim(0, 1.25 * reach or 1)
    panel.locator_params(axis="x", nbins=4)
    for place, row in zip(places, own, strict=True):
        at = max(row.values) + 0.02 * reach
        panel.text(at, place, number(row.median), va="center", fontsize=8)
    better = "more is better" if own[0].figure == BETTER_IF_MORE else "less is better"
    panel.set_title(f"{cell.title}: {own[0].figure}, {better}", fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)
