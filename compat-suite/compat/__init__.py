"""Takes other people's test suites to the shim and to the real Celery, and compares. `python -m compat --help`."""
