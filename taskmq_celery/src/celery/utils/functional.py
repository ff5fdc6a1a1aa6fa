"""Functions about functions and sequences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from numbers import Real
from typing import Any, TypeVar

from kombu.utils.functional import (
    LRUCache,
    dictfilter,
    is_list,
    lazy,
    maybe_evaluate,
    maybe_list,
    memoize,
)

from .sequences import regen

__all__ = (
    "LRUCache",
    "chunks",
    "dictfilter",
    "first",
    "firstmethod",
    "fun_accepts_kwargs",
    "head_from_fun",
    "is_list",
    "lazy",
    "mattrgetter",
    "maybe",
    "maybe_evaluate",
    "maybe_list",
    "memoize",
    "mlazy",
    "noop",
    "padlist",
    "regen",
    "uniq",
)

T = TypeVar("T")
STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class DummyContext:
    """A context that does nothing, and lets every error through."""

    def __enter__(self) -> DummyContext:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None


def evaluate_promises(it: Iterable[Any]) -> Iterator[Any]:
    """Every item, and in place of a `lazy` one its value."""
    return map(maybe_evaluate, it)


def arity_greater(fun: Callable[..., Any], n: int) -> bool:
    """Whether a function takes more than so many arguments by place."""
    spec = inspect.getfullargspec(fun)
    return spec.varargs is not None or len(spec.args) > n


class mlazy(lazy):  # noqa: N801  # Celery's name
    """A `lazy` that is evaluated once, and keeps what came out."""

    evaluated = False
    _value: Any = None

    def evaluate(self) -> Any:
        if not self.evaluated:
            self._value = super().evaluate()  # type: ignore[no-untyped-call]  # kombu's
            self.evaluated = True
        return self._value


def noop(*args: Any, **kwargs: Any) -> None:
    """Take anything, do nothing."""


def pass1(arg: Any, *args: Any, **kwargs: Any) -> Any:
    """The first argument."""
    return arg


def first(predicate: Callable[[Any], Any], it: Iterable[T]) -> T | None:
    """The first element for which ``predicate`` holds."""
    return next((each for each in it if predicate(each)), None)


def firstmethod(method: str, on_call: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that gives the first answer, not ``None``, of a method of several objects."""

    def answer(it: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        for each in it:
            target = getattr(maybe_evaluate(each), method, None)
            if target is None:
                continue
            call = partial(on_call, target) if on_call else target
            found = call(*args, **kwargs)
            if found is not None:
                return found
        return None

    return answer


def chunks(it: Iterable[T], n: int) -> Iterator[list[T]]:
    """Lists of ``n`` elements; the last may be shorter."""
    rest = iter(it)
    while part := list(islice(rest, n)):
        yield part


def padlist(container: Iterable[Any], size: int, default: Any = None) -> list[Any]:
    """The first ``size`` elements, filled up with ``default``."""
    found = list(container)[:size]
    return found + [default] * (size - len(found))


def lookahead(it: Iterable[T]) -> Iterator[tuple[T, T | None]]:
    """Every element with the one behind it; the last with ``None``."""
    rest = iter(it)
    for current in islice(rest, 1):
        for following in rest:
            yield current, following
            current = following  # the element to give next
        yield current, None


def seq_concat_item(seq: Any, item: Any) -> Any:
    """A list or tuple with one more element, as the type that it is."""
    return type(seq)((*seq, item))


def seq_concat_seq(a: Any, b: Any) -> Any:
    """Two lists or tuples as one, of the type of the longer; of the first's if neither is."""
    kind = type(b) if len(b) > len(a) else type(a)
    return kind((*a, *b))


def mattrgetter(*attrs: str) -> Callable[[Any], dict[str, Any]]:
    """A function that gives several attributes of an object; a missing one is ``None``."""
    return lambda obj: {name: getattr(obj, name, None) for name in attrs}


def uniq(it: Iterable[T]) -> Iterator[T]:
    """Every element once, in order."""
    return iter(dict.fromkeys(it))


def maybe(typ: Callable[[Any], Any], val: Any) -> Any:
    """``typ(val)``, but ``None`` stays ``None``."""
    return typ(val) if val is not None else val


def fun_takes_argument(name: str, fun: Callable[..., Any], position: int | None = None) -> bool:
    """Whether a function may be given the argument ``name``: by that name or, with
    ``position``, as the argument of that number, the first being 1."""
    parameters = list(inspect.signature(fun).parameters.values())
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(p.kind in stars for p in parameters):
        return True
    if position is not None:
        return len(parameters) >= position
    return any(p.name == name for p in parameters)


def is_numeric_value(value: Any) -> bool:
    """Whether this is a number, and no ``bool``."""
    return isinstance(value, Real) and not isinstance(value, bool)


def fun_accepts_kwargs(fun: Callable[..., Any]) -> bool:
    """Whether a function takes any keyword argument."""
    parameters = inspect.signature(fun).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def head_from_fun(fun: Callable[..., Any], bound: bool = False) -> Callable[..., Any]:
    """A function with the parameters of ``fun``, which only says that the arguments fit: calling
    it with others raises ``TypeError``.

    The interpreter's own binding is by far the fastest check, and words its errors best. A method
    and a callable object have their ``self`` among the parameters, unless ``bound``: the first
    parameter is filled in then.
    """
    if inspect.ismethod(fun):
        target: Any = fun.__func__
    else:
        target = fun if inspect.isfunction(fun) else type(fun).__call__
    name = getattr(fun, "__name__", type(fun).__name__)
    # Of the function itself: a wrapper may take what the one it wraps does not.
    head = _head(name, inspect.signature(target, follow_wrapped=False))
    return partial(head, object()) if bound else head


def _head(name: str, signature: inspect.Signature) -> Callable[..., Any]:
    parts: list[str] = []
    parameters = list(signature.parameters.values())
    for place, parameter in enumerate(parameters):
        before = parameters[place - 1].kind if place else None
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not parameter.POSITIONAL_ONLY:
            parts.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            parts.append("*")
        parts.append(_written(parameter))
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    namespace: dict[str, Any] = {}
    source = f"def head({', '.join(parts)}): return True"
    exec(source, namespace)  # noqa: S102  # built from parameter names alone
    head: Callable[..., Any] = namespace["head"]
    head.__name__ = head.__qualname__ = name
    return head


def _written(parameter: inspect.Parameter) -> str:
    stars = STARS.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else "=None"
    return f"{stars}{parameter.name}{default}"
