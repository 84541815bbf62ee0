"""The page of what the model pays says what is measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.render_costs import PAGE, Count, load_counter, render


@pytest.fixture(scope="module")
def count() -> Count:
    try:
        return load_counter()
    except ImportError:
        pytest.skip("the tokenizer bpe-openai, of the dev extra, is not installed")


def test_the_page_of_costs_is_fresh(count: Count) -> None:
    assert PAGE.read_text(encoding="utf-8") == render(count), "run `make costs`"


def test_its_bytes_are_fresh_also_where_no_tokenizer_is_installed() -> None:
    def bytes_alone(page: str) -> str:
        return re.sub(r"\| [\d,]+ \|$", "|", page, flags=re.MULTILINE)

    assert bytes_alone(PAGE.read_text(encoding="utf-8")) == bytes_alone(render(lambda _: 0)), (
        "run `make costs`"
    )
