"""``python -m taskmq`` is the same as ``taskmq``."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
