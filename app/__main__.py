"""The command line: ``python -m app serve|worker|migrate|keys|erase|bench``.

Nothing heavy is imported here: help and wrong arguments are answered at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from app.commands.arguments import parser
from app.loading import load


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, 1 (it cannot work), 2 (the configuration or the call is wrong), 128
    and the signal for a command that was told to stop before it was done."""
    arguments = parser().parse_args(argv)
    try:
        status: int = load("app.commands.process:run")(arguments)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


if __name__ == "__main__":
    sys.exit(main())
