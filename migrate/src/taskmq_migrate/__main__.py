"""``python -m taskmq_migrate``."""

from .cli.main import main

if __name__ == "__main__":
    main()
