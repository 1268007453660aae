"""Deterministic text of every kind a tool may return: files, logs, search results, JSON, in several scripts."""

from __future__ import annotations

import json
import random
from typing import Literal

Kind = Literal["code", "log", "matches", "json", "prose", "chinese", "japanese", "korean", "emoji"]

_NOUNS = (
    "account archive batch bucket cache channel client cluster column config cursor digest driver event filter"
    " folder frame gateway handler index invoice journal kernel ledger limit loader member mirror node order"
    " packet parser policy queue record region report route schema session shard signal snapshot stream table"
    " tenant thread ticket token tracker vault vector watcher window worker"
)
_VERBS = "apply build check close commit copy count drop emit fetch flush gather load lock merge open pack"
_WORDS = (
    "the a this each every new old first last stable slow quick broken careful quiet remote local shared late early"
    " carries keeps returns expects replaces follows leaves finds needs holds and but because although while after"
)
_SCRIPTS: dict[str, tuple[str, str]] = {
    "chinese": ("会议记录用户系统数据文件更新版本测试结果分析问题方案时间服务需要完成检查部分", "，。"),
    "japanese": ("会議の記録とシステムのデータを確認して、テスト結果を分析するファイルがあります", "、。"),
    "korean": ("회의 기록과 시스템 데이터를 확인하고 시험 결과를 분석하는 파일이 있습니다", ", ."),
    "emoji": ("🚀🎉🔧📦🧪🐛✨👩‍💻🇩🇪👍🏽📈🗂️", "  "),
}


def text(kind: Kind, chars: int, seed: int) -> str:
    """Exactly so many characters of that kind; the same for the same arguments."""
    rng = random.Random(f"{kind}/{seed}")
    pieces: list[str] = []
    size = 0
    while size < chars:
        piece = _piece(kind, rng, len(pieces) + 1) + "\n"
        pieces.append(piece)
        size += len(piece)
    return "".join(pieces)[:chars]


def _piece(kind: Kind, rng: random.Random, number: int) -> str:
    match kind:
        case "code":
            return _function(rng)
        case "log":
            level = rng.choice(("DEBUG", "INFO", "INFO", "WARNING", "ERROR"))
            return f"2026-03-{number % 28 + 1:02} {rng.randint(0, 23):02}:{number % 60:02} {level} {_sentence(rng)}"
        case "matches":
            return f"src/{_name(rng)}/{_name(rng)}.py:{rng.randint(1, 900)}: {_function(rng).splitlines()[0]}"
        case "json":
            return json.dumps(
                {"id": rng.randint(1, 10**6), "name": _name(rng), "tags": [_name(rng), _name(rng)]}
            )
        case "prose":
            return " ".join(_sentence(rng) for _ in range(rng.randint(2, 6)))
        case _:
            letters, stops = _SCRIPTS[kind]
            return "".join(rng.choice(letters) for _ in range(rng.randint(20, 60))) + rng.choice(stops)


def _sentence(rng: random.Random) -> str:
    words = [_pick(rng, _WORDS if place % 2 else _NOUNS) for place in range(rng.randint(6, 14))]
    return " ".join(words).capitalize() + f" {rng.randint(2, 9_999)}."


def _function(rng: random.Random) -> str:
    name, argument, other = f"{_pick(rng, _VERBS)}_{_name(rng)}", _pick(rng, _NOUNS), _pick(rng, _NOUNS)
    return (
        f"def {name}({argument}: str, {other}: int = {rng.randint(0, 99)}) -> dict[str, int]:\n"
        f'    """{_sentence(rng)}"""\n'
        f"    if {other} < {rng.randint(1, 9)} & {argument} != '':\n"
        f"        return {{{argument!r}: {other}}}\n"
    )


def _name(rng: random.Random) -> str:
    return f"{_pick(rng, _NOUNS)}_{_pick(rng, _NOUNS)}"


def _pick(rng: random.Random, words: str) -> str:
    return rng.choice(words.split())
