"""Moves a repository from Celery to taskmq: file by file, and never beyond what it can prove."""
