from celery import Task


class Counted(Task):
    """Counts its outcomes."""

    abstract = True
    seen = []

    def on_success(self, retval, task_id, args, kwargs):
        self.seen.append(("ok", self.name, retval))

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        self.seen.append(("failed", self.name, str(exc)))
