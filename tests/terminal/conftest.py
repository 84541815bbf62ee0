"""A real terminal for tests: tmux holds it, and its screen is compared with one that is kept as text."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.server import Answer, ModelServer, Reply

SNAPSHOTS = Path(__file__).parent / "snapshots"
PATIENCE_SECONDS = 60.0
STILL_LOOKS = 10
# What differs from run to run, each in a form as long as itself where that matters for the layout.
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "YYYY-MM-DD hh:mm:ss"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "YYYY-MM-DDThh:mm:ss.sssZ"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"in \d+\.\d s"), "in N s"),
)
# A text that is to be seen, wherever its lines break, or what holds of the whole screen.
Shown = str | Callable[[str], bool]


class Terminal:
    """One program in a terminal of a given size."""

    def __init__(
        self, columns: int, rows: int, environment: dict[str, str], arguments: tuple[str, ...]
    ) -> None:
        self._server = f"watchbell-{uuid.uuid4().hex}"
        set_ = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        program = shlex.join([sys.executable, "-m", "watchbell", *arguments])
        # The shell stays, so that what the program printed last can be seen, and with which code it ended.
        command = f'env -u COLUMNS -u LINES {set_} {program}; echo "[ended: $?]"; exec sleep 60'
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def type(self, text: str) -> None:
        """Press the keys of a text."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them."""
        self._tmux("send-keys", *keys)

    def enter(self, text: str) -> None:
        """Type a line and send it."""
        self.type(text)
        self.press("Enter")

    def paste(self, text: str) -> None:
        """Paste a text, as a terminal does that marks what is pasted."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def pid(self) -> int:
        """Return the process id of the program."""
        pane = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{pane}/task/{pane}/children").read_text(encoding="ascii").split()
        return int(children[0])

    def screen(self, *, colours: bool = False) -> str:
        """Return what is to be seen, lines that wrapped joined again."""
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else [])).rstrip()

    def until(self, *all_of: Shown) -> None:
        """Wait until one screen shows all the texts and is all that is said of it.

        The program draws while the screen is read: what is to be seen together is waited for together, since
        the screen that came first tells nothing else.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(_is_so(screen := self.screen(), each) for each in all_of):
            assert time.monotonic() < deadline, f"waited in vain for {all_of}:\n{screen}"
            time.sleep(0.03)

    def settled(self, *all_of: Shown) -> str:
        """Wait until the screen is so and stays the same for a while; return it, whole."""
        screen, same = "", 0
        while same < STILL_LOOKS:
            self.until(*all_of)
            before, screen = screen, self.screen()
            same = same + 1 if screen == before else 0
            time.sleep(0.03)
        return screen

    def ready(self) -> None:
        """Wait until the prompt is there and nothing was typed."""
        self.until(lambda screen: screen.endswith("\n>"))

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], check=False, capture_output=True)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._server, *arguments], check=True, capture_output=True, encoding="utf-8"
        )
        return done.stdout


def _is_so(screen: str, said: Shown) -> bool:
    return said in " ".join(screen.split()) if isinstance(said, str) else said(screen)


Open = Callable[..., Terminal]


@pytest.fixture
def open_terminal(own_home: Path) -> Iterator[Open]:
    """Start the program in a terminal."""
    if shutil.which("tmux") is None or not Path("/proc/self/task").exists():
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []

    def start(*arguments: str, columns: int = 80, rows: int = 24, **environment: str) -> Terminal:
        known = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": os.pathsep.join(sys.path)}
        known |= {"WATCHBELL_HOME": str(own_home), "TERM": "screen-256color"}
        opened.append(Terminal(columns, rows, known | environment, arguments))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Any], ModelServer]]:
    """Start a model server on a thread of its own; it plays the replies in order, or as a function says."""
    ends: list[Callable[[], None]] = []

    def start(replies: Any | Answer) -> ModelServer:
        server, loop = ModelServer(replies), asyncio.new_event_loop()
        asyncio.set_event_loop(None)
        loop.run_until_complete(server.__aenter__())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()

        def end() -> None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server._server.close()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

        ends.append(end)
        return server

    yield start
    for end in ends:
        end()


@pytest.fixture
def open_chat(open_terminal: Open, serve: Callable[[Any], ModelServer]) -> Callable[..., Terminal]:
    """Start a chat whose model gives these replies, the offline one without any, and wait for its prompt."""

    def start(*replies: Reply, arguments: tuple[str, ...] = (), **options: Any) -> Terminal:
        model = ("--model", "m", "--base-url", serve(replies).base_url) if replies else ()
        terminal = open_terminal("chat", *arguments, *model, **options)
        terminal.ready()
        return terminal

    return start


def matches(name: str, terminal: Terminal, *all_of: Shown) -> None:
    """Wait until the screen is the kept one; WATCHBELL_SNAPSHOTS=write keeps what is shown now."""
    kept = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("WATCHBELL_SNAPSHOTS") == "write":
        kept.write_text(_lasting(terminal.settled(*all_of)), encoding="utf-8")
    expected = kept.read_text(encoding="utf-8")
    try:
        terminal.until(lambda screen: _lasting(screen) == expected)
    except AssertionError:
        assert _lasting(terminal.screen()) == expected
        raise


def _lasting(screen: str) -> str:
    for pattern, stands_for in _VARYING:
        screen = pattern.sub(stands_for, screen)
    return "".join(f"{line.rstrip()}\n" for line in screen.splitlines())
