"""The limits of one call and whose turn it takes: from its task, its queue and its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .call import NO_OPTIONS, Call
from .checks import nearest
from .config import QueueConfig
from .errors import ConfigError
from .limits import Fair, Limit, Rate, rate_of, render, template_names

if TYPE_CHECKING:
    import inspect

    from .policy import TaskPolicy

__all__ = ["Rules", "flow_of", "goes_by_arguments", "key_of", "rules_of"]

NOTHING: tuple[tuple[Limit, ...], Fair | None] = ((), None)
TEMPLATES = ("rate_key", "concurrency_key", "fair_key", "dedup")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a task's policy says of limits and turns."""

    rate: Rate | None
    rate_key: str | None
    concurrency: int | None
    concurrency_key: str | None
    fair_key: str | None


def rules_of(name: str, policy: TaskPolicy, signature: inspect.Signature) -> Rules | None:
    """The rules of a task, if it has any. Raises `ConfigError` for a template that names what is
    no parameter."""
    _check_templates(name, policy, signature)
    limited = policy.concurrency_key is not None or policy.concurrency_limit is not None
    rate = policy.rate_limit if policy.rate_scope == "fleet" else None
    if rate is None and not limited and policy.fair_key is None:
        return None
    return Rules(
        None if rate is None else rate_of(rate),
        policy.rate_key,
        (policy.concurrency_limit or 1) if limited else None,
        policy.concurrency_key,
        policy.fair_key,
    )


def _check_templates(name: str, policy: TaskPolicy, signature: inspect.Signature) -> None:
    if not any(getattr(policy, option) for option in TEMPLATES):
        return
    known = signature.parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        for option in TEMPLATES:
            for argument in template_names(getattr(policy, option) or ""):
                if argument not in known:
                    raise ConfigError(
                        f"task {name!r}: {option} names {argument!r}, which is no parameter of "
                        f"it{nearest(argument, known)}"
                    )


def goes_by_arguments(policy: TaskPolicy) -> bool:
    """Whether limits, turns or the dedup key of a task's jobs depend on their arguments."""
    return (
        policy.rate_key is not None
        or policy.concurrency_key is not None
        or policy.fair_key is not None
        or policy.dedup is not None
    )


def flow_of(
    call: Call[Any], queue: str, declared: QueueConfig | None
) -> tuple[tuple[Limit, ...], Fair | None]:
    """The limits of a job and whose turn it takes.

    Raises `ConfigError` where a template does not fit the arguments.
    """
    if call.task.flow is None and declared is None and call.with_ is NO_OPTIONS:
        return NOTHING
    limits = [*_own_limits(call)]
    if declared is not None and declared.rate_limit is not None and declared.rate_scope == "fleet":
        limits.append(rate_of(declared.rate_limit).limit(f"queue:{queue}"))
    key = _key("fair_key", call)
    if key is None:
        return tuple(limits), None
    weights = {} if declared is None else declared.fair_weights
    return tuple(limits), Fair(key, weights.get(key, 1.0))


def _own_limits(call: Call[Any]) -> Iterator[Limit]:
    """Of the task and its key: concurrency first, which costs nothing if a rate is used up."""
    task, rules, options = call.task, call.task.flow, call.with_
    concurrency = rules.concurrency if rules else None
    if concurrency is not None or options.concurrency_key is not None:
        key = _key("concurrency_key", call) or f"task:{task.name}"
        yield Limit("concurrency", key, concurrency or 1)
    if rules is not None and rules.rate is not None:
        yield rules.rate.limit(_key("rate_key", call) or f"task:{task.name}")
    elif options.rate_key is not None:
        raise ConfigError(
            f"rate_key={options.rate_key!r}: task {task.name!r} has no rate_limit of the fleet"
        )


def _key(option: str, call: Call[Any]) -> str | None:
    """The key that the call gives, or that the task's template makes of the arguments."""
    rules = call.task.flow
    return key_of(option, call, getattr(rules, option) if rules is not None else None)


def key_of(option: str, call: Call[Any], template: str | None) -> str | None:
    """The key that the call gives, or that ``template`` makes of the arguments. Raises
    `ConfigError`."""
    given: str | None = getattr(call.with_, option)
    if given is not None or template is None:
        return given
    return render(f"{call.task.name}: {option}", template, _arguments(call))


class _Later:
    """Stands for the result of another job, which nobody knows when a job is submitted."""

    def __format__(self, spec: str) -> str:
        raise ValueError("the result of another job is not known yet")


def _arguments(call: Call[Any]) -> Mapping[str, object]:
    """The arguments of a call by name, defaults included."""
    args, kwargs = list(call.args), dict(call.kwargs)
    places = {dependency.into for dependency in call.after if dependency.into is not None}
    for place in sorted(place for place in places if isinstance(place, int)):
        args.insert(place, _Later())
    kwargs |= {place: _Later() for place in places if isinstance(place, str)}
    try:
        bound = call.task.signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{call.task.name}{call.task.signature}: {error}") from None
    bound.apply_defaults()
    return {**bound.kwargs, **bound.arguments}
