"""The command line: `python -m compat`."""

from __future__ import annotations

import sys
from pathlib import Path

# The services that tests start are part of the checkout, not of anything that is installed.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from compat.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
