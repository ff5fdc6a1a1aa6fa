"""The program of the processes in test_schedule_processes.py: something due every half second."""

from taskmq import App, Config
from taskmq.schedule import every

app = App(Config.from_env())


@app.task
def note() -> None: ...


app.schedule(every("schedule_app.note", seconds=0.5, name="tick", misfire="run_all"))
