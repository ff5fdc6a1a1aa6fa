"""``except MaxRetriesExceededError``: what a task does where its last retry is in vain."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from taskmq_migrate.arguments import Parts
from taskmq_migrate.model import Edit, Span
from taskmq_migrate.names import dotted
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = ["EXHAUSTED", "LastRetry", "handled_last"]

EXHAUSTED = "celery.exceptions.MaxRetriesExceededError"
BY_HAND = (
    "MaxRetriesExceededError is around this, which nothing raises: look at "
    "request.is_last_attempt, and do there what its handler does"
)


@dataclass(frozen=True)
class LastRetry:
    """A handler for the retry that is one too many, and the ``try`` that it belongs to."""

    around: cst.Try
    handler: cst.ExceptHandler
    kinds: tuple[cst.BaseExpression, ...]
    """What it catches."""
    named: cst.BaseExpression
    """`MaxRetriesExceededError` among these."""

    def edits(
        self, file: PythonFile, statement: cst.CSTNode, ctx: Parts, raised: Parts
    ) -> list[Edit]:
        """``raised``, what asks for a retry, in the place of a statement; and what is done in place
        of the last one. Raises `Unclear`."""
        if self.handler.name is not None or len(_retries(file, self.around)) != 1:
            raise Unclear(BY_HAND)
        if len(self.kinds) == 1:
            return self._either(file, statement, ctx, raised)
        return self._again(file, statement, ctx, raised)

    def _either(
        self, file: PythonFile, statement: cst.CSTNode, ctx: Parts, raised: Parts
    ) -> list[Edit]:
        """A ``try`` of the retry alone becomes a condition."""
        first = self.around.body.body[0]
        if (
            len(self.around.body.body) > 1
            or len(self.around.handlers) > 1
            or self.around.orelse is not None
            or self.around.finalbody is not None
            or not isinstance(self.handler.body, cst.IndentedBlock)
            or not isinstance(first, cst.SimpleStatementLine)
            or first.body != (statement,)
            or not self.handler.body.body
        ):
            raise Unclear(BY_HAND)
        start = file.span(self.around).start
        inside = self.handler.body.body
        begin = file.line_start(file.statement_start(file.span(inside[0]).start))
        end = file.span(inside[-1]).end
        end = next((each for each in file.line_starts if each >= end), len(file.text))
        indent = file.text[file.line_start(start) : start]
        deeper = file.text[begin : file.span(inside[0]).start]
        gap = file.newline
        before = "" if file.text[:end].endswith(("\n", "\r")) else gap
        return [
            file.replace(Span(start, begin), "if ", *ctx, f".is_last_attempt:{gap}"),
            file.replace(Span(end, end), before, f"{indent}else:{gap}{deeper}", *raised, gap),
        ]

    def _again(
        self, file: PythonFile, statement: cst.CSTNode, ctx: Parts, raised: Parts
    ) -> list[Edit]:
        """Where the handler is for an error as well that is at hand, that goes up to it."""
        others = tuple(each for each in self.kinds if each is not self.named)
        line, _, inner, tried = list(file.ancestors(statement))[:4]
        if (
            self.handler.type is None
            or self.handler is not self.around.handlers[0]
            or not isinstance(line, cst.SimpleStatementLine)
            or len(line.body) > 1
            or not isinstance(inner, cst.ExceptHandler)
            or dotted(inner.type) not in {dotted(each) for each in others}
            or file.enclosing(tried, cst.Try) is not self.around
        ):
            raise Unclear(BY_HAND)
        span = file.span(statement)
        indent = file.text[file.line_start(span.start) : span.start]
        gap = f"{file.newline}{indent}"
        left: Parts = (file.whole(others[0]),)
        if len(others) > 1:
            shown = [
                (", " if number else "", file.whole(each)) for number, each in enumerate(others)
            ]
            left = ("(", *(part for each in shown for part in each), ")")
        return [
            file.replace(span, "if ", *ctx, f".is_last_attempt:{gap}    raise{gap}", *raised),
            file.replace(file.whole(self.handler.type), *left),
        ]


def handled_last(file: PythonFile, call: cst.Call) -> LastRetry | None:
    """The nearest handler for `MaxRetriesExceededError` around a call in the same function."""
    inside: cst.CSTNode = call
    for around in file.ancestors(call):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return None
        if isinstance(around, cst.Try) and inside is around.body:
            for handler in around.handlers:
                kinds: tuple[cst.BaseExpression, ...] = ()
                if isinstance(handler.type, cst.Tuple):
                    kinds = tuple(each.value for each in handler.type.elements)
                elif handler.type is not None:
                    kinds = (handler.type,)
                for each in kinds:
                    if file.is_(each, EXHAUSTED):
                        return LastRetry(around, handler, kinds, each)
        inside = around
    return None


def _retries(file: PythonFile, around: cst.Try) -> list[cst.Call]:
    """The calls of ``retry`` in what a ``try`` tries."""
    return [
        call
        for call in file.nodes(cst.Call)
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "retry"
        and any(each is around.body for each in file.ancestors(call))
    ]
