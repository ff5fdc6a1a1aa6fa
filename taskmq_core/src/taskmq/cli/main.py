"""What every command has in common: one line for an error, an exit code, and silence when the
reader of the output is gone or Ctrl-C was pressed."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from taskmq import Config

from .exits import Exit, exit_for, one_line
from .parser import build_parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Never raises on account of what the user did."""
    arguments: argparse.Namespace | None = None
    try:
        words = sys.argv[1:] if argv is None else argv
        arguments = build_parser(words).parse_args(words)
        Config.from_env()  # a setting that is misspelt there is told before anything is done
        code = int(arguments.command(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more at its end: let it flush into nothing
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE
    except Exception as error:
        if os.environ.get("TASKMQ_DEBUG") or (arguments and arguments.traceback):
            traceback.print_exc()
        sys.stderr.write(f"taskmq: error: {one_line(error)}\n")
        return exit_for(error)


if __name__ == "__main__":
    sys.exit(main())
