"""``python -m celery``, and what the ``celery`` console script calls."""

from __future__ import annotations

import sys

from celery.bin.celery import main as _main

__all__ = ("main",)


def main() -> None:
    """Run the command line; exits."""
    sys.exit(_main())


if __name__ == "__main__":
    main()
