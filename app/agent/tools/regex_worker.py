"""A program of its own that looks for a regular expression in texts, so that it can be stopped.

Python's ``re`` has no time limit and holds the GIL; some patterns take hours or all memory. Started by
``matchers.py`` with ``python -I``. Standard input: one line of JSON (``pattern, ignore_case, limit, memory,
seconds``), then for each text its length in bytes on a line and the bytes. Standard output: one line of JSON for
the pattern (``null`` or what is wrong with it), then for each text the indexes of the lines that match.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from itertools import islice


def main() -> None:
    task = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_AS, (task["memory"], task["memory"]))
    # Should the parent be killed, nobody else ends a match that does not.
    resource.setrlimit(resource.RLIMIT_CPU, (task["seconds"], task["seconds"]))
    try:
        pattern = re.compile(task["pattern"], re.IGNORECASE if task["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as error:
        answer(str(error))
        return
    answer(None)
    while header := sys.stdin.buffer.readline():
        lines = sys.stdin.buffer.read(int(header)).decode().split("\n")
        found = (index for index, line in enumerate(lines) if pattern.search(line))
        answer(list(islice(found, task["limit"])))


def answer(value: str | list[int] | None) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
