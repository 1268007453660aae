"""What a refusal looks like when only its words give it away (rule E4).

A short reply counts as one when it opens like a refusal, says that the model cannot, and holds nothing
concrete. Words are compared without case; add a language by adding its phrases.
"""

from __future__ import annotations

import re

_MAX_CHARS = 400
_OPENING_CHARS = 160

_OPENINGS = (
    *("i'm sorry", "i am sorry", "i'm really sorry", "i'm very sorry", "sorry", "i apologi", "my apologies"),
    *("apologies", "unfortunately", "as an ai", "as a language model", "as an artificial"),
    *("很抱歉", "非常抱歉", "抱歉", "对不起", "對不起", "不好意思", "作为一个", "作為一個"),
    *("申し訳", "すみません", "恐れ入りますが", "ごめんなさい", "죄송", "미안"),
    *("lo siento", "lamentablemente", "disculpa", "perdón"),
    *("désolé", "je suis désolé", "je regrette", "malheureusement"),
    *("es tut mir leid", "tut mir leid", "entschuldigung", "leider"),
    *("desculpe", "sinto muito", "lamento", "infelizmente", "mi dispiace", "scusa", "purtroppo"),
    *("извините", "простите", "к сожалению", "прошу прощения", "مؤسف", "عذر", "آسف", "maaf", "xin lỗi"),
)
_INABILITIES = (
    *("can't", "cannot", "can not", "couldn't", "won't", "will not", "unable", "not able", "decline"),
    *("not allowed", "not permitted", "无法", "無法", "不能", "没法", "沒法", "不便", "拒绝", "拒絕"),
    *("できません", "できかねます", "いたしかねます", "수 없", "어렵", "불가"),
    *(
        "no puedo",
        "no es posible",
        "ne peux pas",
        "ne peux",
        "ne suis pas",
        "kann ich",
        "ich kann",
        "darf ich",
    ),
    *("não posso", "não consigo", "non posso", "non sono in grado", "не могу", "не смогу"),
    *("لا أستطيع", "لا يمكن", "tidak dapat", "tidak bisa", "không thể"),
)
_OUTRIGHT = (
    r"i (?:can't|cannot|can not|won't|will not|am unable to|am not able to|must decline)"
    r" (?:\w+ )?(?:assist|help|comply|fulfil|provide|continue|do that|engage|summari|discuss)",
    r"i'm (?:unable|not able) to (?:\w+ )?(?:assist|help|comply|fulfil|provide|continue|engage|summari)",
    r"我?(?:无法|無法|不能)(?:协助|協助|帮助|幫助|提供|满足|滿足|完成|处理|處理|回答|继续|繼續)",
    r".{0,20}(?:お手伝い|お答え|対応).{0,10}(?:できません|できかねます|いたしかねます)",
    r"no puedo (?:ayudar|cumplir|proporcionar|continuar|asistir|resumir)",
    r"je ne peux pas (?:vous )?(?:aider|répondre|fournir|satisfaire|résumer)",
    r"(?:dabei|damit|hierbei) kann ich .{0,30}nicht",
    r"ich kann .{0,30}nicht (?:helfen|nachkommen|weiterhelfen|erfüllen|zusammenfassen)",
)
_OUTRIGHT_PATTERN = re.compile("|".join(_OUTRIGHT))
# A reply with structure or a concrete thing in it says something, whatever sentence it begins with.
_CONCRETE = re.compile(
    r"^\s*(?:#{1,6}\s|[-*•]\s|\d+[.)]\s)|://|/[\w.-]+/|\b[\w-]{2,}\.[a-z]{2,4}\b|`[^`]+`|\d{3,}", re.MULTILINE
)


def reads_like_refusal(text: str) -> bool:
    """Whether ``text`` is nothing but a model's sentence that it will not do what it was asked."""
    if len(text) > _MAX_CHARS or _CONCRETE.search(text):
        return False
    opening = text.replace("’", "'").casefold().lstrip(" \n\"'*_#>")[:_OPENING_CHARS]
    if _OUTRIGHT_PATTERN.match(opening):
        return True
    return opening.startswith(_OPENINGS) and any(words in opening for words in _INABILITIES)
