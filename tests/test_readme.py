"""README.md says what is so: its commands are run as they stand, its tables are compared with the code."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from app.config import AgentSettings, ModelSettings, Settings, settings_from
from tests.support.service import running

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SHIPPED = yaml.safe_load((ROOT / "config.yaml").read_text())
ADDRESS = "http://127.0.0.1:8000"
TOUR = "A tour in five minutes"
BLOCK_SECONDS = 60
NOT_SETTINGS = {"config_path", "config_dir", "warnings"}


def blocks(language: str) -> Iterator[tuple[str, str, str]]:
    """Every fenced block of a language with the chapter (``##``) and the section (``###``) it stands in."""
    chapter = section = fence = ""
    lines: list[str] = []
    for line in README.splitlines():
        if fence:
            if line == "```":
                if fence == language:
                    yield chapter, section, "\n".join(lines)
                fence = ""
            else:
                lines.append(line)
        elif line.startswith("```"):
            fence, lines = line.removeprefix("```"), []
        elif line.startswith("## "):
            chapter, section = line.removeprefix("## "), ""
        elif line.startswith("### "):
            section = line.removeprefix("### ")


def only_block(language: str, chapter: str) -> str:
    [text] = [text for found, _, text in blocks(language) if found == chapter]
    return text


class Shell:
    """A terminal that somebody pastes blocks into: variables of one block are there in the next."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._port = port

    async def paste(self, block: str) -> str:
        """What the block printed, errors included."""
        assert self._process.stdin
        assert self._process.stdout
        block = block.replace(ADDRESS, f"http://127.0.0.1:{self._port}")
        self._process.stdin.write(f"{block}\necho; echo pasted-to-the-end\n".encode())
        lines: list[str] = []
        async with asyncio.timeout(BLOCK_SECONDS):
            while (line := (await self._process.stdout.readline()).decode()) != "pasted-to-the-end\n":
                assert line or not self._process.stdout.at_eof(), "".join(lines)
                lines.append(line)
        return "".join(lines)


@asynccontextmanager
async def terminal(folder: Path, port: int) -> AsyncIterator[Shell]:
    """A shell in a folder that looks like a clone."""
    shutil.copy(ROOT / "README.md", folder)
    (folder / ".threadkeep").symlink_to("data")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "skills").symlink_to(ROOT / "skills")
    process = await asyncio.create_subprocess_exec(
        "sh",
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=2**24,
    )
    try:
        yield Shell(process, port)
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def json_lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines() if line.startswith(('{"', '[{"'))]


def creates_a_thread(output: str) -> None:
    [thread] = json_lines(output)
    assert thread["metadata"] == {"topic": "tour"}
    assert thread["status"] == "idle"


def streams_an_answer(output: str) -> None:
    events = re.findall(r"^event: (.*)$", output, re.MULTILINE)
    assert (events[0], events[-1]) == ("metadata", "end")
    data = re.findall(r"^event: messages\ndata: (.*)$", output, re.MULTILINE)
    assert "Demo model" in "".join(json.loads(line)[0]["content"] for line in data)


def works_with_files(output: str) -> None:
    assert "Wrote plan.md (16 bytes)." in output
    assert "\n# Plan\nShip it.\n" in output
    assert "The tool read_file answered: “# Threadkeep" in output


def shows_the_context(output: str) -> None:
    context = json.loads(output)
    assert context["tokens"]["messages"] > 1000
    assert [clause["tokens"] for clause in context["trigger"]] == [32000]


def foresees_a_compaction(output: str) -> None:
    [pin] = json_lines(output)
    plan = json.loads(output[output.index("\n{\n") : output.rindex("}") + 1])
    assert (pin["pinned"], plan["dry_run"], plan["would_compact"]) == (True, "plan", True)
    assert pin["message_id"] in [verdict["message_id"] for verdict in plan["keep"]]
    assert plan["tokens_after_estimate"] < plan["tokens_before"]


def compacts_once(output: str) -> None:
    first, again = json_lines(output)[:2]
    assert (first["compacted"], again["compacted"]) == (True, False)
    assert first["tokens_after"] < first["total_tokens"]
    assert again["reason"] == "nothing_to_remove"
    assert '"summary_text": "' in output
    assert re.search(r"^manual \d+ -> \d+ tokens, coverage 1.0$", output, re.MULTILINE)
    assert "  removed: human 'Hello, who are you?'" in output


def undoes_and_redoes(output: str) -> None:
    undo, redo = json_lines(output)
    assert (undo["kind"], redo["kind"]) == ("undo", "redo")
    assert undo["restored_message_count"] == redo["removed_message_count"] > 0
    assert "archived human\n" in output and "live ai\n" in output
    assert re.search(r"^compacted behind \d+ committed$", output, re.MULTILINE)


def compacts_by_itself(output: str) -> None:
    told = [
        json.loads(line.removeprefix("data: ")) for line in output.splitlines() if line.startswith("data: ")
    ]
    assert [event["status"] for event in told[:2]] == ["started", "completed"]
    records = json.loads(output[output.index("\n{\n") :])["data"]
    assert ("auto", "committed") in [(record["kind"], record["status"]) for record in records]


def comes_back(output: str) -> None:
    ids = [int(number) for number in re.findall(r"^id: (\d+)$", output, re.MULTILINE)]
    again = next(i for i in range(1, len(ids)) if ids[i] < ids[i - 1])
    first, second = ids[:again], ids[again:]
    assert (first[0], second[0]) == (1, 21)
    assert first == sorted(set(first))
    assert second == sorted(set(second))
    assert 21 < first[-1] < second[-1]


def is_still_there(output: str) -> None:
    assert re.search(r"^\d+ messages and a summary of \d+ characters$", output, re.MULTILINE)
    [runs] = json_lines(output)
    assert [run["status"] for run in runs] == ["success"] * 3


def is_gone(output: str) -> None:
    assert output.split() == ["204"]


EXPECTED: dict[str, Callable[[str], None]] = {
    "Create a thread": creates_a_thread,
    "Stream a run": streams_an_answer,
    "Let the agent use its tools": works_with_files,
    "Look at the context": shows_the_context,
    "See what a compaction would do": foresees_a_compaction,
    "Compact it by hand": compacts_once,
    "Read the whole conversation, and take the compaction back": undoes_and_redoes,
    "Let it happen by itself": compacts_by_itself,
    "Leave a stream and come back": comes_back,
    "Restart it": is_still_there,
    "Delete it": is_gone,
}


def sections_of_the_tour() -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for chapter, section, text in blocks("sh"):
        if chapter == TOUR:
            sections.setdefault(section, []).append(text)
    return sections


async def follow(shell: Shell, sections: dict[str, list[str]]) -> None:
    for section, texts in sections.items():
        output = "".join([await shell.paste(text) for text in texts])
        try:
            EXPECTED[section](output)
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"{section}: {error}\n{output[-4000:]}") from error


async def run_python(folder: Path, program: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", program),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.timeout(300)
async def test_everything_that_can_be_pasted_works(open_folder: Path) -> None:
    sections = sections_of_the_tour()
    assert list(sections) == list(EXPECTED)
    names = list(sections)
    before = {name: sections[name] for name in names[: names.index("Restart it")]}
    after = {name: sections[name] for name in names[names.index("Restart it") :]}
    port = free_port()
    async with terminal(open_folder, port) as shell:
        async with running(open_folder, SHIPPED, "--port", str(port)) as service:
            await follow(shell, before)
            assert_it_started_as_shown("".join(service.output))
        async with running(open_folder, SHIPPED, "--port", str(port)):
            await follow(shell, after)
            program = only_block("python", "With the official Python client")
            said = await run_python(open_folder, program.replace(ADDRESS, f"http://127.0.0.1:{port}"))
            assert "Demo model" in said
            assert re.search(r"\d+ messages at checkpoint \S+", said)
            [backup] = [text for _, section, text in blocks("sh") if section == "Backup"]
            assert (await shell.paste(backup)).strip() == ""
            assert (open_folder / "threadkeep.dump").read_bytes().startswith(b"PGDMP")


def assert_it_started_as_shown(output: str) -> None:
    """Line by line, but for the port and the folder."""
    shown = only_block("text", "Start").splitlines()
    printed = output.splitlines()[: len(shown)]
    places = re.compile(r":\d+$| in /\S+$")
    assert [places.sub("", line) for line in printed] == [places.sub("", line) for line in shown]


@pytest.mark.parametrize("text", [text for _, _, text in blocks("yaml")])
def test_every_piece_of_configuration_is_valid(text: str) -> None:
    assert settings_from(yaml.safe_load(text), environ={}).warnings is not None


def rows(chapter: str) -> list[list[str]]:
    """The cells of all tables of a chapter."""
    body = README.split(f"\n## {chapter}\n", 1)[1].split("\n## ", 1)[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in body.splitlines()
        if line.startswith("| ")
    ]


def settings_by_key() -> dict[str, Any]:
    """Each key of config.yaml and its default; ``...`` where it has none or stands for whole things."""
    settings = settings_from({})
    keys: dict[str, Any] = {}
    listed = {"models": ModelSettings, "agents": AgentSettings}
    for item in fields(Settings):
        value = getattr(settings, item.name)
        if item.name in NOT_SETTINGS:
            continue
        if isinstance(value, BaseModel):
            keys |= keys_of(type(value), item.name)
        elif item.name in listed:
            keys |= keys_of(listed[item.name], f"{item.name}[]")
        else:
            keys[item.name] = value if isinstance(value, str) else ...
    return keys


def keys_of(section: type[BaseModel], prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}.{name}": ... if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in section.model_fields.items()
    }


def documented() -> dict[str, str]:
    """The first table of the chapter: keys and defaults as they are written."""
    table = [cells for cells in rows("Configuration") if len(cells) == 3]
    settings = table[: next(i for i, cells in enumerate(table) if cells[0] == "Flag")]
    return {cells[0].strip("`"): cells[1] for cells in settings[1:]}


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table, keys = documented(), settings_by_key()
    # A mapping whose keys are names is one row for all of them.
    keys["graphs.NAME"] = keys.pop("graphs")
    assert sorted(set(keys) - set(table)) == []
    assert sorted(set(table) - set(keys)) == ["models[].…"]
    for key, default in keys.items():
        written = table[key]
        if default is not ... and written.startswith("`"):
            expected = list(default) if isinstance(default, tuple) else default
            assert yaml.safe_load(written.strip("`")) == expected, key


def test_every_flag_and_variable_is_in_the_tables() -> None:
    described = {word for cells in rows("Configuration") for cell in cells[:2] for word in cell.split("`")}
    source = "".join(path.read_text() for path in (ROOT / "app").rglob("*.py")) + (ROOT / "run").read_text()
    variables = set(re.findall(r"THREADKEEP_[A-Z_]+", source))
    # Those of the services; the other commands explain their own.
    arguments = (ROOT / "app" / "commands" / "arguments.py").read_text().partition("def _add_keys")[0]
    flags = set(re.findall(r'add_argument\(\s*"(--[a-z-]+)', arguments))
    assert variables
    assert flags
    assert variables - described == set()
    assert flags - {word.split()[0] for word in described if word.startswith("--")} == set()


def test_every_page_that_is_linked_exists() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    for link in links:
        assert link[1:] in headings if link.startswith("#") else (ROOT / link.partition("#")[0]).exists(), (
            link
        )
