from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.cli.console.output import escape, print_answer, print_json, print_line, print_table, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x07\x7f\x9b", "\\x07\\x7f\\x9b"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud83d", "\\ud83d"),
        ("✓ 日本 😀 é", "✓ 日本 😀 é"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_text_of_several_lines_keeps_line_ends_and_tabs_alone() -> None:
    assert escape("a\n\tb\r\x1b", multiline=True) == "a\n\tb\\r\\x1b"


@given(st.text(st.characters(blacklist_categories=())))
def test_no_control_character_ever_passes(text: str) -> None:
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for mark in escape(text):
        assert unicodedata.category(mark) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(mark) not in bidirectional


def test_a_short_text_is_whole_and_a_long_one_says_that_it_was_cut() -> None:
    assert shorten("x" * 10, 10) == "x" * 10
    assert shorten("x" * 11, 10) == "xxxxxxx..."


def test_stored_text_is_never_taken_for_markup_or_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("[red]x[/red] [/nothing] :smile:")
    print_answer("[bold]y")
    print_table(["[b]HEAD"], [["[link=http://x]z"]])
    assert capsys.readouterr().out == "[red]x[/red] [/nothing] :smile:\n[bold]y[b]HEAD\n[link=http://x]z\n"


def test_columns_line_up_for_wide_characters_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "B"], [["日本", "1"], ["x", "2"]])
    assert capsys.readouterr().out == "A     B\n日本  1\nx     2\n"


def test_json_is_pure_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "✓\x1b\ud83d"}, indent=None)
    assert capsys.readouterr().out == '{"text":"\\u2713\\u001b\\ud83d"}\n'
