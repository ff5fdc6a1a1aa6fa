"""Stand-ins, made of processes, for the Docker containers of pytest-celery."""
