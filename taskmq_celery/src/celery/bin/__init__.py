"""The ``celery`` command."""
