"""Moves a repository from Celery to taskmq: to the shim, or to the native API.

The package knows both APIs as data and imports neither, so it installs beside either of them.
"""
