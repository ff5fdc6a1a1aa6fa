"""The steps of a worker: those of the program's (``app.steps``), started and stopped with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from celery.bootsteps import Blueprint
from celery.platforms import EX_FAILURE
from celery.utils.log import get_logger

if TYPE_CHECKING:
    from .consumer import Consumer
    from .worker import WorkController

__all__ = ("ConsumerBlueprint", "WorkerBlueprint", "WorkerSteps")

logger = get_logger("celery.worker")


class WorkerBlueprint(Blueprint):
    """What a worker consists of."""

    name = "Worker"
    default_steps: ClassVar[set[Any]] = {
        *(
            f"celery.worker.components:{name}"
            for name in ("Timer", "Hub", "Pool", "Beat", "StateDB", "Consumer")
        ),
        "celery.worker.autoscale:WorkerComponent",
    }


class ConsumerBlueprint(Blueprint):
    """What its receiving side consists of."""

    name = "Consumer"
    default_steps: ClassVar[set[Any]] = {
        f"celery.worker.consumer:{name}"
        for name in ("Connection", "Mingle", "Events", "Gossip", "Heart", "Control", "Tasks")
    }


class WorkerSteps:
    """Both blueprints of one worker. A step that cannot start ends the worker."""

    def __init__(
        self, controller: WorkController, consumer: Consumer, options: dict[str, Any]
    ) -> None:
        self._controller, self._consumer = controller, consumer
        app = controller.app
        self.worker = WorkerBlueprint(steps=app.steps["worker"])
        self.consumer = ConsumerBlueprint(steps=app.steps["consumer"])
        controller.blueprint, consumer.blueprint = self.worker, self.consumer
        self.worker.apply(controller, **options)
        self.consumer.apply(consumer, **options)

    def start(self) -> bool:
        """Before the first task; false if the worker is not to go on."""
        return self._start(self.worker, self._controller)

    def start_consumer(self) -> bool:
        """When the store is open."""
        return self._start(self.consumer, self._consumer)

    def _start(self, blueprint: Blueprint, parent: Any) -> bool:
        try:
            blueprint.start(parent)
        except Exception as error:
            logger.critical("Unrecoverable error: %r", error, exc_info=True)
            self._controller.stop(exitcode=EX_FAILURE)
            return False
        return True

    def stop(self, *, terminate: bool) -> None:
        """When nothing runs any more, or nobody waits for what does."""
        self.consumer.stop(self._consumer, terminate=terminate)
        self._consumer.close()
        self.worker.stop(self._controller, terminate=terminate)
