"""The same canvases on the real Celery and on the shim: what differs?

    python -m tests.differential --examples 2000 --seed 7

Random canvases (`canvases`) of tasks that tell what they got (`program`) are run by a worker of
Celery, in an environment of its own (`oracle`), and by one of the shim on Redis and on SQLite.
What can be seen of each afterwards (`observed`) has to be the same, except for what is meant to
differ (`intended`). A canvas that differs is made smaller (`shrinking`) before it is shown.

What Celery did with a few hundred canvases is kept in recorded.jsonl, so that every test run
compares the shim with it (test_recorded.py) without Celery.
"""
