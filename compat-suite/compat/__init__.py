"""Takes other people's tests to the shim and to the real Celery, and compares."""
