"""For the tests of programs that use Celery: apps, workers in a thread, messages."""
