"""A disk whose durable bytes are known at each instant, under the real `JsonlStorage`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

from watchbell.storage.jsonl.files import FileSystem
from watchbell.testing.loop import ProcessKilled

_Change: TypeAlias = tuple[int, bytes | None]
"""Bytes written at an offset; None cuts the file there."""

_Entry: TypeAlias = int | None
"""What a name stands for: the number of a file, None for a directory."""

_GONE = -1


class _File:
    """A file: what is durable of it, and what was changed since, in order."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.changes: list[_Change] = []
        self.inherited = 0  # how many of them are an earlier process's

    def content(self) -> bytes:
        return self._after(self.changes)

    def sync(self) -> None:
        self.durable = self._after(self.changes)
        self.changes, self.inherited = [], 0

    def lose(self) -> None:
        """Drop what was written and not synced: after a failed fsync it counts as clean and never gets there.

        What an earlier process left unsynced stays: nobody could write that anew.
        """
        own = [change for change in self.changes[self.inherited :] if change[1] is None]
        self.changes[self.inherited :] = own

    def after_power_loss(self, random: Random) -> bytes:
        """Return the durable bytes and any prefix of the changes since, cut at any byte."""
        kept = self.changes[: random.randint(0, len(self.changes))]
        if kept:
            offset, data = kept.pop()
            kept.append((offset, None if data is None else data[: random.randint(0, len(data))]))
        return self._after(kept)

    def _after(self, changes: list[_Change]) -> bytes:
        content = bytearray(self.durable)
        for offset, data in changes:
            if data is None:
                del content[offset:]
            else:
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
        return bytes(content)


class SimulatedDisk(FileSystem):
    """Files in a scratch directory, of which it knows what would survive a kill and what a loss of power.

    Give it to a store as its `files`, and its `home` as the store's home:

    ```python
    disk = SimulatedDisk(tmp_path)
    storage = JsonlStorage(disk.home, files=disk)
    ...
    disk.lose_power(Random(7))  # what was not synced is there in part, or not at all
    storage = JsonlStorage(disk.home, files=disk)
    ```

    Written bytes are durable once the file was synced, names once their directory was. A crash moves `home`:
    what a program from before still holds open has no effect on what comes after.

    Args:
        root: An existing directory for it alone; one in memory, such as below `/dev/shm`, is fastest.

    Attributes:
        home: Directory of the files as they are now.
        before: Called before each change with the call's name (`open`, `write`, `fsync`, `truncate`, `link`,
            `unlink`, `mkdir`) and, for `write`, the bytes. It may raise OSError to make the call fail, and
            returns how many of the bytes get written, at least one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._crashes = 0
        self._files: dict[int, _File] = {}
        self._names: dict[Path, _Entry] = {}
        self._renames: list[tuple[Path, _Entry]] = []
        self._open: dict[int, tuple[Path, os.stat_result]] = {}
        self._is_frozen = False
        self.before: Callable[[str, bytes], int] = lambda _, data: len(data)
        self.home = root / "disk-0"
        self.home.mkdir()

    def open(self, path: Path, flags: int) -> int:
        """Open a file."""
        self._before("open")
        is_new = bool(flags & os.O_CREAT) and not path.exists()
        descriptor = super().open(path, flags)
        found = os.fstat(descriptor)
        self._open[descriptor] = path, found
        if is_new:
            self._files[found.st_ino] = _File()
            self._renames.append((path, found.st_ino))
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the data at the file's end."""
        data = data[: self._before("write", bytes(data))]
        found = os.fstat(descriptor)
        written = super().write(descriptor, data)
        self._files[found.st_ino].changes.append((found.st_size, bytes(data[:written])))
        return written

    def fsync(self, descriptor: int) -> None:
        """Make a file's bytes, or a directory's names, durable."""
        path, found = self._open[descriptor]
        file = self._files.get(found.st_ino)
        try:
            self._before("fsync")
        except OSError:
            if file is not None:
                file.lose()
            raise
        if file is not None:
            file.sync()
            return
        self._names.update(change for change in self._renames if change[0].parent == path)
        self._renames = [change for change in self._renames if change[0].parent != path]

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut a file."""
        self._before("truncate")
        super().truncate(descriptor, length)
        self._files[os.fstat(descriptor).st_ino].changes.append((length, None))

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        self._before("link")
        super().link(source, target)
        self._renames.append((target, target.stat().st_ino))

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        self._before("unlink")
        super().unlink(path)
        self._renames.append((path, _GONE))

    def mkdir(self, path: Path) -> None:
        """Make a directory."""
        self._before("mkdir")
        super().mkdir(path)
        self._renames.append((path, None))

    def hand_over(self) -> None:
        """The process that used the disk has ended in good order; another one follows."""
        for file in self._files.values():
            file.inherited = len(file.changes)

    def freeze(self) -> None:
        """Let nothing change until the crash that is to come; a call that would raises ProcessKilled."""
        self._is_frozen = True

    def kill(self) -> None:
        """The process that used the disk is gone; what it wrote stays, synced or not."""
        self._restart({**self._names, **dict(self._renames)}, None)

    def lose_power(self, random: Random) -> None:
        """The machine is gone: of what was not durable, `random` keeps any prefix."""
        kept = self._renames[: random.randint(0, len(self._renames))]
        self._restart({**self._names, **dict(kept)}, random)

    def _before(self, operation: str, data: bytes = b"") -> int:
        if self._is_frozen:
            raise ProcessKilled
        return self.before(operation, data)

    def _restart(self, names: dict[Path, _Entry], random: Random | None) -> None:
        """Put what survived into a new home."""
        for descriptor, (_, opened) in self._open.items():
            with contextlib.suppress(OSError):  # closed long ago, its number perhaps somebody else's now
                if os.path.samestat(os.fstat(descriptor), opened):
                    os.close(descriptor)
        old, self._crashes = self.home, self._crashes + 1
        self.home = self._root / f"disk-{self._crashes}"
        self.home.mkdir()
        files, durable = self._files, self._names
        self._files, self._names, self._renames, self._open = {}, {}, [], {}
        self._is_frozen = False
        placed: dict[int, Path] = {}
        for path, entry in sorted(names.items()):
            new = self.home / path.relative_to(old)
            if entry == _GONE or not new.parent.is_dir():
                continue
            if entry is None:
                new.mkdir()
            elif entry in placed:
                new.hardlink_to(placed[entry])
            else:
                self._place(new, files[entry], random)
                placed[entry] = new
            survivor = None if entry is None else new.stat().st_ino
            if random is not None or durable.get(path, _GONE) == entry:
                self._names[new] = survivor
            else:
                self._renames.append((new, survivor))
        shutil.rmtree(old)

    def _place(self, path: Path, file: _File, random: Random | None) -> None:
        """Write what survived of a file; a process's kill leaves it as unsynced as it was."""
        survivor = file if random is None else _File(file.after_power_loss(random))
        survivor.inherited = len(survivor.changes)
        path.write_bytes(survivor.content())
        self._files[path.stat().st_ino] = survivor
