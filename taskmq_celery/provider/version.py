"""The version that the stand-in for Celery's distribution is built with.

`5.6.3+taskmq` satisfies nearly every requirement found in the wild. Where a package asks for
more, set ``TASKMQ_CELERY_VERSION`` while building: ``TASKMQ_CELERY_VERSION=5.7.0+taskmq``.
"""

import os

__version__ = os.environ.get("TASKMQ_CELERY_VERSION", "5.6.3+taskmq")
