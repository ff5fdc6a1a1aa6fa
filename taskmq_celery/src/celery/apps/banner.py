"""What a worker prints when it starts."""

from __future__ import annotations

import datetime
import platform
import re
from typing import Any

from celery import VERSION_BANNER
from celery.utils.imports import qualname

__all__ = ["banner", "masked"]

ART = (
    "  .-----------------. ",
    "  | [=] [=] [=] [=] =>",
    "  '-----------------' ",
)
MARGIN = " " * (len(ART[0]) + 1)

CONFIG = """\
{hostname} v{version}

{platform} {timestamp}

[config]
.> app:         {app}
.> transport:   {transport}
.> results:     {results}
.> concurrency: {concurrency}
.> task events: {events}

[queues]
{queues}"""


def banner(worker: Any, *, art: bool) -> str:
    """Name, version, system and configuration of a worker, beside a small drawing."""
    app = worker.app
    text = CONFIG.format(
        hostname=worker.hostname,
        version=VERSION_BANNER,
        platform=platform.platform(),
        timestamp=datetime.datetime.now().replace(microsecond=0),
        app=_app(app),
        transport=masked(app.conf.broker_read_url or app.conf.broker_url),
        results=masked(app.backend.as_uri()),
        concurrency=_concurrency(worker),
        events="ON" if worker.task_events else "OFF (enable -E to monitor tasks in this worker)",
        queues=app.amqp.queues.format(indent_first=False),
    )
    lines = text.splitlines()
    if not art:
        return "\n".join(lines)
    left = [*(f"{one} " for one in ART), *([MARGIN] * (len(lines) - len(ART)))]
    return "\n".join(f"{one}{line}".rstrip() for one, line in zip(left, lines, strict=True))


def masked(url: str | None) -> str:
    """A URL whose password nobody should read."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:**@", url or "")


def _app(app: Any) -> str:
    text = f"{app.main or '__main__'}:{id(app):#x}"
    loader = qualname(type(app.loader))
    if loader == "celery.loaders.app.AppLoader":
        return text
    return f"{text} ({loader.removeprefix('celery.loaders')})"


def _concurrency(worker: Any) -> str:
    pool = worker.pool_cls
    autoscale = worker.autoscale
    shown = "{{min={1}, max={0}}}".format(*autoscale) if autoscale else worker.concurrency
    name = pool.name or pool.__module__.rpartition(".")[2]
    return f"{shown} ({name}{', as threads' if pool.instead else ''})"
