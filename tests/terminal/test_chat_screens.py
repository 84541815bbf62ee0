"""What people see of a chat. The screens stand in `snapshots`; they are reviewed like code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import read_payloads, read_sources
from tests.models.server import ModelServer, Reply, call, delta, refuse, say
from tests.terminal.conftest import Open, Terminal, matches

Serve = Callable[[Any], ModelServer]
OpenChat = Callable[..., Terminal]

REMIND = call("schedule_create", '{"prompt":"stretch your legs","after_seconds":2}')


def with_model(server: ModelServer) -> tuple[str, ...]:
    return ("--model", "m", "--base-url", server.base_url)


def hanging(*texts: str) -> Reply:
    """An answer that stops in the middle."""
    pieces = [delta(role="assistant", content=""), *(delta(content=text) for text in texts)]
    return Reply(pieces, then="hang")


def said(home: Path) -> list[str]:
    messages = read_payloads(home, "main", "user/message")
    return [message["content"][0]["text"] for message in messages if message["source"]["kind"] == "user"]


def test_an_answer_is_shown_as_it_comes(open_chat: OpenChat) -> None:
    terminal = open_chat(hanging("The first line.\nAnd an unfinished one"), say("Fine."))
    terminal.enter("tell me two lines")
    terminal.until("And an unfinished one")
    terminal.type("a draft")
    matches("streaming", terminal, "a draft")
    terminal.press("C-c")
    terminal.until("(cancelled)")
    terminal.enter(" is sent")
    matches("cancelled", terminal, "Fine.")
    terminal.type("cleared")
    terminal.press("C-c", "C-c")
    terminal.until("(Ctrl-D leaves)", lambda screen: "cleared" not in screen)
    terminal.press("C-d")
    terminal.until("[ended: 0]")


def test_a_reminder_arrives_while_half_a_line_is_typed(open_chat: OpenChat, own_home: Path) -> None:
    terminal = open_chat(
        REMIND, say("You will hear from me."), say("Time to **stretch your legs**."), say("Two.")
    )
    terminal.enter("remind me in two seconds to stretch my legs")
    terminal.until("You will hear from me.")
    terminal.type("how many legs do")
    matches("reminder", terminal, lambda screen: "\u2570" in screen and "how many legs do" in screen)
    terminal.enter(" I have?")
    terminal.until("Two.")
    assert said(own_home)[-1] == "how many legs do I have?"


def test_forty_columns_are_enough(open_chat: OpenChat) -> None:
    terminal = open_chat(columns=40, rows=40)
    terminal.enter("remind me in 1 second to stretch")
    matches("reminder-40-columns", terminal, "\u2570")


def test_refused_requests_are_clear_lines_and_the_session_goes_on(open_chat: OpenChat) -> None:
    slow = refuse(429, headers={"retry-after-ms": "1"})
    terminal = open_chat(slow, slow, refuse(401), say("Here I am."), WATCHBELL_MAX_RETRIES="1", rows=30)
    terminal.enter("hello?")
    terminal.until("[RATE_LIMITED]")
    terminal.enter("hello again?")
    terminal.until("[AUTHENTICATION]")
    terminal.enter("and now?")
    matches("refused", terminal, "Here I am.")


def test_a_killed_chat_goes_on_where_it_was(open_terminal: Open, serve: Serve, own_home: Path) -> None:
    server = serve([REMIND, say("You will hear from me."), hanging(), say("Stretch!")])
    terminal = open_terminal("chat", *with_model(server))
    terminal.ready()
    terminal.enter("remind me in two seconds to stretch my legs")
    terminal.until("You will hear from me.")
    terminal.until("Reminder schedule-1")
    terminal.until(lambda _: len(server.requests) == 3)  # the model has the reminder, and is silent
    os.kill(terminal.pid(), signal.SIGKILL)
    terminal.until("[ended: 137]")
    again = open_terminal("chat", *with_model(server))
    matches("resumed", again, "\u2570")
    again.press("C-d")
    again.until("[ended: 0]")
    assert sum(source.get("plugin") == "schedule" for source in read_sources(own_home, "main")) == 1


def test_a_paste_of_many_lines_is_one_message(open_chat: OpenChat, own_home: Path) -> None:
    terminal = open_chat(say("Three lines."))
    terminal.paste("first\nsecond\n\tthird")
    matches("paste", terminal, "third")
    terminal.press("Enter")
    terminal.until("Three lines.")
    assert said(own_home) == ["first\nsecond\n\tthird"]


def test_without_colour_none_is_sent(open_chat: OpenChat) -> None:
    terminal = open_chat(NO_COLOR="1")
    terminal.enter("remind me in 1 second to stretch")
    terminal.until("\u2570")
    coloured = {f"\x1b[{code}m" for code in (*range(30, 38), *range(90, 98))}
    assert not any(code in terminal.screen(colours=True) for code in coloured)
    assert "38;5" not in terminal.screen(colours=True)


def test_a_dumb_terminal_gets_plain_lines(open_chat: OpenChat) -> None:
    terminal = open_chat(TERM="dumb")
    terminal.enter("remind me in 1 second to stretch")
    matches("dumb", terminal, "Reminder: stretch")
    terminal.press("C-d")
    terminal.until("[ended: 0]")


def test_the_commands_of_a_chat(open_chat: OpenChat, own_home: Path) -> None:
    terminal = open_chat(rows=50)
    terminal.enter("remind me in 5 hours to stretch")
    terminal.until("(schedule-1)")
    terminal.ready()
    for line, answer in {
        "/help": "go on in a copy",
        "/remnders": "did you mean /reminders?",
        "/cancel schedule-7": "no active reminder schedule-7",
        "/cancel schedule-1": "schedule-1 is cancelled.",
        "/reminders": "No reminders pending.",
        "/fork twin": "Session main is closed.",
        "/sessions": "twin (this one)",
    }.items():
        terminal.enter(line)
        sent = f"> {line}\n"
        terminal.until(lambda screen, sent=sent, answer=answer: answer in screen.partition(sent)[2])
        terminal.ready()
    matches("commands", terminal, "(this one)")
    terminal.press("Up", "Up")
    terminal.until(lambda screen: screen.endswith("> /fork twin"))
    assert (own_home / "chat-history").stat().st_mode & 0o777 == 0o600


def test_a_resize_keeps_the_line_being_typed(open_chat: OpenChat) -> None:
    terminal = open_chat()
    terminal.type("a draft that is longer than the narrow terminal will be")
    terminal.resize(40, 20)
    terminal.until("a draft that is longer than the narrow")
    terminal.resize(90, 20)
    terminal.press("Enter")
    terminal.until("offline stand-in")


def test_a_timeline_in_forty_columns(open_terminal: Open) -> None:
    terminal = open_terminal("run", "main", "remind me in 5 days to stretch")
    terminal.until("[ended: 0]")
    drawn = open_terminal("reminders", "--timeline", columns=40)
    matches("timeline-40-columns", drawn, "[ended: 0]")


@pytest.mark.parametrize("arguments", [("--plain",), ()])
def test_without_redrawing_ctrl_c_cancels_an_answer_or_clears_the_line_too(
    open_chat: OpenChat, own_home: Path, arguments: tuple[str, ...]
) -> None:
    terminal = open_chat(
        hanging("A beginning"), say("Fine."), arguments=arguments, TERM="screen" if arguments else "dumb"
    )
    terminal.press("C-c")
    terminal.until("(Ctrl-D leaves)")
    terminal.enter("tell me")
    terminal.until("A beginning")
    terminal.press("C-c")
    terminal.until("(cancelled)")
    terminal.type("a draft")
    terminal.until("a draft")
    terminal.press("C-c")
    terminal.until(lambda screen: screen.count("(Ctrl-D leaves)") == 2)
    terminal.enter("and now")
    terminal.until("Fine.")
    terminal.press("C-d")
    terminal.until("[ended: 0]")
    assert said(own_home) == ["tell me", "and now"]


def test_a_line_entered_in_the_middle_of_an_answer_does_not_repeat_it(
    open_chat: OpenChat, own_home: Path
) -> None:
    terminal = open_chat(hanging("The first line.\nAnd an unfin\x1bished one"), hanging("Fine."))
    terminal.enter("tell me two lines")
    once = "And an unfin\\x1bished one"
    terminal.until(once)
    terminal.enter("/reminders")
    terminal.until("No reminders pending.")
    terminal.enter("and then?")
    terminal.until(
        lambda screen: screen.endswith("\n>") and screen.count(once) == 1,
        lambda screen: once in screen.partition("No reminders pending.")[2],
    )
    terminal.press("C-c")
    terminal.until("Fine.", lambda screen: screen.count(once) == 1)
    terminal.press("C-d")  # leaving stops the answer that is coming
    terminal.until("[ended: 0]")
    aborted = {"kind": "aborted", "reason": {"kind": "disposed"}}
    assert read_payloads(own_home, "main", "turn/end")[-1]["reason"] == aborted


def test_a_draft_of_many_lines_leaves_a_reminder_in_sight(open_chat: OpenChat, own_home: Path) -> None:
    terminal = open_chat(
        REMIND, say("You will hear from me."), say("Time to stretch."), say("Long."), rows=16
    )
    terminal.enter("remind me in two seconds to stretch my legs")
    terminal.until("You will hear from me.")
    draft = "\n".join(f"line {number}" for number in range(30))
    terminal.paste(draft)
    terminal.until("line 29")
    terminal.until("Reminder schedule-1", "Time to stretch.", "line 29")
    terminal.press("Enter")
    terminal.until("Long.")
    assert said(own_home)[-1] == draft


def test_control_c_ends_a_search_in_what_was_typed(open_chat: OpenChat) -> None:
    terminal = open_chat()
    terminal.enter("hello")
    terminal.until("stand-in")
    terminal.ready()
    terminal.press("C-r")
    terminal.type("hel")
    terminal.until("search")
    terminal.press("C-c")
    terminal.until(lambda screen: "search" not in screen.splitlines()[-1])
    assert "(Ctrl-D leaves)" not in terminal.screen()


def test_a_dumb_terminal_prints_nothing_behind_its_prompt(open_chat: OpenChat) -> None:
    terminal = open_chat(hanging("Begun"), say("Second."), TERM="dumb")
    terminal.enter("one")
    terminal.until("Begun")
    terminal.enter("two")
    terminal.until("Beguntwo")
    terminal.press("C-c")
    terminal.until(lambda screen: "\nSecond." in screen)
