"""The official JavaScript clients: installed once, run by Node."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "js"
_INSTALL_SECONDS = 240
_RUN_SECONDS = 120
_STAMP = "installed-for"

Facts = dict[str, Any]


class Reports(dict[str, Facts]):
    """What a script reported, by scenario. Looking at one that failed fails."""

    def __getitem__(self, scenario: str) -> Facts:
        facts = super().__getitem__(scenario)
        assert "failed" not in facts, f"{scenario}: {facts['failed']}"
        return facts


def missing() -> str | None:
    """Which program is not on this machine, or None."""
    return next((name for name in ("node", "npm") if shutil.which(name) is None), None)


def install() -> None:
    """Install what the lock file says, unless that is there already. Any number of processes may call it at once."""
    wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    modules = FOLDER / "node_modules"
    with (FOLDER / ".installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = modules / _STAMP
        if stamp.exists() and stamp.read_text() == wanted:
            return
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            command, cwd=FOLDER, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(f"npm ci failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        stamp.write_text(wanted)


async def once(folder: Path, script: str, api: str) -> Reports:
    """As ``run``; of all processes of a test run, which have ``folder`` in common, only one runs the script."""
    kept = folder / f"{script}.json"
    with (folder / f"{script}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(await run(script, api)))
    return Reports(json.loads(kept.read_text()))


async def run(script: str, api: str, **options: Any) -> Reports:
    """Run a script against the service at ``api``: what it reports, by scenario."""
    process = await asyncio.create_subprocess_exec(
        "node",
        *(script, api, json.dumps(options)),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_RUN_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{script} failed:\n{err.decode()[-4000:]}\n{out.decode()[-2000:]}"
    reported = (json.loads(line) for line in out.decode().splitlines() if line.startswith("{"))
    return Reports({facts.pop("scenario"): facts for facts in reported})
