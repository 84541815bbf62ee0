"""The calls that change a disk, in one place, so that a test can make each of them fail."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Generator
from pathlib import Path

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None

# What a file system answers that does not know the request.
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.ENOTTY}
# What a network's file system answers that locks only what is open for writing; a directory never is.
_NO_LOCKS = _UNSUPPORTED | {errno.EBADF, errno.ENOLCK}


class FileSystem:
    """The operating system's calls; a subclass can fail, or write short, instead."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file; a new one is for its owner alone."""
        return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of `data`, at least one byte, and return how many."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Bring a file, or a directory's entries, to the medium itself, past the drive's cache."""
        if sys.platform == "darwin" and fcntl is not None:
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        os.fsync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, length)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; a taken name is an error."""
        target.hardlink_to(source)

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        path.unlink()

    def mkdir(self, path: Path) -> None:
        """Make a directory for its owner alone."""
        path.mkdir(0o700)


def raise_descriptor_limit() -> None:
    """Let the process open as many files as it may: each session that is open for writing holds one."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS says "no limit" and refuses it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def write_all(files: FileSystem, descriptor: int, data: bytes) -> None:
    """Write all of `data`, however little each call takes."""
    left = memoryview(data)
    while left:
        left = left[files.write(descriptor, left) :]


@contextlib.contextmanager
def alone_in(files: FileSystem, path: Path) -> Generator[None]:
    """Keep out everybody else who comes to a directory this way, in any process; waits for them.

    Where directories cannot be locked, nobody is kept out.
    """
    if fcntl is None:
        yield
        return
    descriptor = files.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)


def sync_directory(files: FileSystem, path: Path) -> None:
    """Make the names in a directory durable."""
    if sys.platform == "win32":
        return  # directories cannot be opened there; NTFS journals their entries
    descriptor = files.open(path, os.O_RDONLY)
    try:
        files.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(files: FileSystem, path: Path) -> list[Path]:
    """Make a directory and its missing parents; return those that are new, outermost first."""
    missing = [path, *path.parents]
    missing = [directory for directory in missing if not directory.is_dir()]
    made: list[Path] = []
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            files.mkdir(directory)
            made.append(directory)
    return made


def sync_names(files: FileSystem, path: Path, levels: int) -> None:
    """Make a file's name durable, and those of the `levels` directories around it, outermost first.

    That a directory is there does not mean that its name is durable: whoever made it may have been killed, or
    may not have come to it yet.
    """
    for directory in reversed(path.parents[: levels + 1]):
        sync_directory(files, directory)
