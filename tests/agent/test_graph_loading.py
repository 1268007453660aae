"""What ``graphs:`` names, imported: what works, and the one line that says what does not."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from subprocess import run

import pytest

from app.agent.hosted import loaded_graphs
from app.config import settings_from
from app.config.agents import graph_from
from app.errors import ConfigError

GRAPH = """
from langgraph.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState)
graph.add_node("n", lambda state: {})
graph.add_edge(START, "n")
"""

WRONG = [
    ("graph = 7", "it is a int, not a StateGraph, a compiled one or a function that makes one"),
    ("other = 7", "there is no 'graph' in it"),
    (
        "import nowhere_to_be_found",
        "ModuleNotFoundError: No module named 'nowhere_to_be_found' (line 1 of wrong.py)",
    ),
    ("x = 1\n1 / 0", "ZeroDivisionError: division by zero (line 2 of wrong.py)"),
    ("def graph(:", "SyntaxError: invalid syntax (line 1 of wrong.py)"),
    ("raise SystemExit('no')", "SystemExit: no (line 1 of wrong.py)"),
    (
        "def graph():\n    raise ValueError('no\\nkey')",
        "graph() failed: ValueError: no key (line 2 of wrong.py)",
    ),
    ("async def graph():\n    return 'text'", "it is a str, not a StateGraph"),
    (
        "def graph(model, tools):\n    pass",
        "a factory takes nothing or the config, this one wants model, tools",
    ),
    ("def graph(config):\n    return config['configurable']['x']", "graph() failed: KeyError: 'x' (line 2"),
    (GRAPH.replace('add_edge(START, "n")', 'add_edge("m", "n")'), "the graph does not compile: "),
    (
        "from langgraph.graph import StateGraph, START\ngraph = StateGraph(list)\n"
        "graph.add_node('n', lambda s: [])\ngraph.add_edge(START, 'n')",
        "its state must have keys",
    ),
    (
        "from langgraph.func import entrypoint\n@entrypoint()\ndef graph(x):\n    return x",
        "it is a Pregel, not a StateGraph",
    ),
]


@pytest.mark.parametrize(("source", "cause"), WRONG)
async def test_what_cannot_be_hosted_is_one_line_that_says_why(
    tmp_path: Path, source: str, cause: str
) -> None:
    (tmp_path / "wrong.py").write_text(source)
    with pytest.raises(ConfigError) as raised:
        async with loaded_graphs([graph_from("mine", "./wrong.py:graph", tmp_path)]):
            pass
    text = str(raised.value)
    assert text.startswith('graphs.mine: "./wrong.py:graph" cannot be hosted: ')
    assert cause in text and "\n" not in text


async def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_graphs.py").write_text(GRAPH)
    (tmp_path / "asks_neighbour.py").write_text("from neighbour_of_graphs import graph")
    async with loaded_graphs([graph_from("mine", "./asks_neighbour.py:graph", tmp_path)]) as [mine]:
        assert "n" in mine.template.nodes


async def test_a_file_in_a_package_imports_relatively(tmp_path: Path) -> None:
    package = tmp_path / "a_package_of_graphs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(GRAPH)
    (package / "entry.py").write_text("from .parts import graph")
    targets = ["./a_package_of_graphs/entry.py:graph", "a_package_of_graphs.parts:graph"]
    settings = [graph_from(f"g{number}", target, tmp_path) for number, target in enumerate(targets)]
    async with loaded_graphs(settings) as [first, second]:
        assert set(first.template.nodes) == set(second.template.nodes)


async def test_two_files_of_the_same_name_are_two_modules(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(GRAPH.replace('"n"', f'"{folder}"'))
    settings = [graph_from(name, f"./{name}/same_name.py:graph", tmp_path) for name in ("one", "two")]
    async with loaded_graphs(settings) as graphs:
        assert [set(graph.template.nodes) - {"__start__"} for graph in graphs] == [{"one"}, {"two"}]


async def test_a_file_that_is_named_like_a_library_does_not_stand_in_for_it(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(GRAPH)
    async with loaded_graphs([graph_from("mine", "./json.py:graph", tmp_path)]) as [mine]:
        assert json.dumps({}) == "{}"
        assert "n" in mine.template.nodes


async def test_what_factories_hold_open_is_closed_at_the_end(tmp_path: Path) -> None:
    held = (
        "from contextlib import contextmanager\nLOG = []\n@contextmanager\ndef held():\n    LOG.append(1)\n"
    )
    (tmp_path / "holding_graph.py").write_text(f"{GRAPH}\n{held}    yield graph\n    LOG.append(2)\n")
    async with loaded_graphs([graph_from("mine", "./holding_graph.py:held", tmp_path)]):
        holding_graph = importlib.import_module("holding_graph")
        assert holding_graph.LOG == [1]
    assert holding_graph.LOG == [1, 2]


def test_names_of_agents_and_graphs_differ(tmp_path: Path) -> None:
    document = {"agents": [{"name": "same"}], "graphs": {"same": "some.module:graph"}}
    with pytest.raises(ConfigError, match=r"graphs\.same"):
        settings_from(document)


def test_a_service_with_a_broken_graph_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found")
    (tmp_path / "config.yaml").write_text("graphs: {mine: './broken.py:graph'}")
    ended = run(
        [sys.executable, "-m", "app", "serve", "--config", str(tmp_path / "config.yaml"), "--port", "0"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        'threadkeep: graphs.mine: "./broken.py:graph" cannot be hosted: the import failed: ModuleNotFoundError: '
        "No module named 'nowhere_to_be_found' (line 1 of broken.py)\n"
    )
    assert not (tmp_path / ".threadkeep").exists()
