"""Values are encoded as what they are, whatever class they have."""

from __future__ import annotations

import enum
import json

import pytest

from watchbell.errors import InvalidEventError
from watchbell.log.messages import TextBlock
from watchbell.log.values import encode_json


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Number(int):
    pass


class Share(float):
    pass


class Rank(enum.IntEnum):
    FIRST = 1


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("x"), "x"),
        (Number(3), 3),
        (Share(1.5), 1.5),
        (True, True),
        (Rank.FIRST, 1),
        (Color.RED, "red"),
        ({Text("k"): [Text("x"), Number(2)]}, {"k": ["x", 2]}),
        (TextBlock(Text("x")), {"type": "text", "text": "x"}),
        (Text("half a pair \ud83d"), "half a pair \ud83d"),
        ([Number(3), "\ud83d"], [3, "\ud83d"]),
    ],
)
def test_a_value_of_a_class_of_its_own_is_stored_as_the_plain_one(value: object, plain: object) -> None:
    assert json.loads(encode_json(value)) == plain


def test_an_object_that_is_no_json_is_refused_by_its_class() -> None:
    with pytest.raises(InvalidEventError, match="objects of type object are not JSON"):
        encode_json({"x": object()})
