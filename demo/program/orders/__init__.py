"""A small shop that takes orders: a Celery program as one would write it, nothing else."""
