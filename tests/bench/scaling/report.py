"""Tables and plots of what was measured: medians, and how many times those of the smallest size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.report import number

from .questions import QUESTIONS, Figures, Point

SPREAD = "least to most"


class Series:
    """The points of one question on one store, of one that is compared."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.question, self.store, self.who = points[0].question, points[0].store, points[0].who
        by_size: dict[int, dict[int, Figures]] = {}
        for point in points:
            by_size.setdefault(point.size, {})[point.round] = point.figures
        self.by_size = dict(sorted(by_size.items()))

    @property
    def title(self) -> str:
        return f"{self.store}, {self.who}" if self.who else self.store

    @property
    def figures(self) -> list[str]:
        return list(next(iter(next(iter(self.by_size.values())).values())))

    def values(self, figure: str, size: int) -> list[float]:
        return [figures[figure] for figures in self.by_size[size].values()]

    def median(self, figure: str, size: int) -> float:
        return statistics.median(self.values(figure, size))

    def ratio(self, figure: str, size: int) -> float | None:
        """How many times that of the smallest size, by the median of the rounds; ``None``: it was
        nothing there."""
        first = self.by_size[next(iter(self.by_size))]
        own = self.by_size[size]
        ratios = [own[n][figure] / first[n][figure] for n in own if n in first and first[n][figure]]
        return statistics.median(ratios) if ratios else None


def series_of(points: Sequence[Point]) -> list[Series]:
    """In the order of the questions."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.question, point.store, point.who), []).append(point)
    found = [Series(group) for group in groups.values()]
    return sorted(found, key=lambda each: list(QUESTIONS).index(each.question))


def markdown(points: Sequence[Point], setting: dict[str, object]) -> str:
    """A table for each question: the median of each figure at each size, and in brackets how many
    times that of the smallest size it is."""
    lines = [", ".join(f"{name} {value}" for name, value in setting.items())]
    shown = ""
    for series in series_of(points):
        sizes = list(series.by_size)
        if series.question != shown:
            shown = series.question
            heads = " | ".join(f"{size:,}" for size in sizes)
            lines += ["", f"| {QUESTIONS[shown].of} | | {heads} |"]
            lines += ["|---|---|" + "--:|" * len(sizes)]
        for figure in series.figures:
            cells = [_cell(series, figure, size) for size in sizes]
            lines.append("| " + " | ".join((series.title, figure, *cells)) + " |")
    return "\n".join(lines) + "\n"


def _cell(series: Series, figure: str, size: int) -> str:
    text = number(series.median(figure, size))
    ratio = series.ratio(figure, size)
    is_first = size == next(iter(series.by_size))
    return text if is_first or ratio is None else f"{text} ({ratio:.2f}x)"


def plot(points: Sequence[Point], file: Path) -> list[Path]:
    """A panel for the first figure of each question, as PNG and SVG. Needs matplotlib."""
    import matplotlib as library

    library.use("Agg")
    from matplotlib import pyplot

    found = series_of(points)
    names = list(dict.fromkeys(series.question for series in found))
    figure, axes = pyplot.subplots(1, len(names), figsize=(5 * len(names), 4), squeeze=False)
    panels: list[Any] = list(axes.flat)
    for panel, name in zip(panels, names, strict=True):
        own = [series for series in found if series.question == name]
        for series in own:
            first = series.figures[0]
            sizes = list(series.by_size)
            medians = [series.median(first, size) for size in sizes]
            panel.plot([max(1, size) for size in sizes], medians, "o-", label=series.title)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(f"{name}: {own[0].figures[0]}", fontsize=9)
        panel.set_xlabel(QUESTIONS[name].of)
        panel.legend(fontsize=7)
    figure.tight_layout()
    files = [file.with_suffix(suffix) for suffix in (".png", ".svg")]
    for each in files:
        figure.savefig(each)
    return files
