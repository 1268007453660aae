"""The kinds of value a key may hold (rule A2).

Each refuses what YAML lets through by accident: booleans and quoted text where a number belongs, `.nan`,
`.inf`, zero, parts of a thing that only comes whole.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

_NUMERIC = re.compile(r"\s*[-+]?[\d.][\d._eE+-]*\s*")


class Section(BaseModel):
    """A mapping of config.yaml: frozen, nothing is coerced, an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def refuse(rule: str) -> PydanticCustomError:
    """An error whose text says what is allowed. ``rule`` follows the value in the sentence."""
    return PydanticCustomError("not_allowed", "{rule}", {"rule": rule})


def finite(value: Any, allowed: str) -> float:
    """A finite number as given (int stays int), or an error that says what is ``allowed``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = ", without quotes" if isinstance(value, str) and _NUMERIC.fullmatch(value) else ""
        raise refuse(f"must be {allowed}{hint}")
    if not math.isfinite(value):
        raise refuse(f"must be {allowed}; it has to be finite")
    return value


def whole(value: Any, allowed: str) -> int:
    """A whole number; 20.0 is read as 20 (rule A2)."""
    number = finite(value, allowed)
    if number != int(number):
        raise refuse(f"must be {allowed}")
    return int(number)


def positive_whole(value: Any) -> int:
    number = whole(value, "a whole number of 1 or more")
    if number < 1:
        raise refuse("must be a whole number of 1 or more")
    return number


def positive_number(value: Any) -> float:
    number = finite(value, "a number above 0")
    if number <= 0:
        raise refuse("must be a number above 0")
    return float(number)


def share(value: Any) -> float:
    """A number in (0, 1]. Who writes 80 means 80 %."""
    number = finite(value, "a number above 0 and at most 1")
    if 1 < number <= 100:
        raise refuse(f"must be a number above 0 and at most 1 (did you mean {number / 100:g}?)")
    if not 0 < number <= 1:
        raise refuse("must be a number above 0 and at most 1")
    return float(number)


def port_number(value: Any) -> int:
    number = whole(value, "a whole number from 0 to 65535")
    if not 0 <= number <= 65535:
        raise refuse("must be a whole number from 0 to 65535")
    return number


def non_blank(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise refuse("must be a text that is not empty")
    return value


PositiveWhole = Annotated[int, BeforeValidator(positive_whole)]
PositiveNumber = Annotated[float, BeforeValidator(positive_number)]
Share = Annotated[float, BeforeValidator(share)]
Port = Annotated[int, BeforeValidator(port_number)]
Text = Annotated[str, BeforeValidator(non_blank)]
