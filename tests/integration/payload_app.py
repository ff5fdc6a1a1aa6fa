"""An app whose large arguments and results are files; for workers in processes of their own."""

import os
import signal
from pathlib import Path

from taskmq import App, Config, Retry

FOLDER = Path(os.environ.get("PAYLOAD_FOLDER", "."))

app = App(
    Config(
        transport=f"sqlite:///{FOLDER}/jobs.db",
        payload_store=f"file://{FOLDER}/payloads",
        offload_above=1000,
        lease=1.0,
        heartbeat_interval=0.3,
    )
)


@app.task(name="double")
def double(text: str) -> str:
    return text * 2


if "PAYLOAD_ASYNC" in os.environ:

    @app.task(name="adouble")
    async def adouble(text: str) -> str:
        return text * 2


@app.task(name="flaky", retry=Retry(max_attempts=2, backoff="fixed", base=0.0, jitter=False))
def flaky(text: str) -> int:
    mark = FOLDER / "tried"
    if not mark.exists():
        mark.write_text("")
        raise ValueError("once")
    return len(text)


@app.task(name="fatal")
def fatal(text: str) -> str:
    """Kills its worker the first time, after its result is in the payload store."""
    mark = FOLDER / "killed"
    if not mark.exists():
        mark.write_text("")
        assert app.offload is not None
        send_result = app.offload.send_result

        def send_and_die(*args: object, **kwargs: object) -> None:
            send_result(*args, **kwargs)  # type: ignore[arg-type]  # handed through
            os.kill(os.getpid(), signal.SIGKILL)

        app.offload.send_result = send_and_die  # type: ignore[assignment,method-assign]  # dies
    return text * 2
