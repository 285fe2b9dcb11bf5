"""Open files: `RawFile`, and what the builtin `open` puts on top of it."""

from __future__ import annotations

import io
import os
import threading
import weakref
from typing import IO, TYPE_CHECKING, Any

from ._stat import stat_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _native
    from ._stat import StatResult
    from ._types import Access
    from ._volume import Volume

# Size of the buffer of a file in bytes.
BUFFER_BYTES = 64 << 10
# Number of bytes that a call of the engine reads or writes. Between two of them a program can be
# interrupted.
CHUNK_BYTES = 1 << 20


def access_of(mode: str) -> Access:
    """Returns the access that a mode of the builtin `open` asks for."""
    letters = set(mode)
    kinds = letters & set("rwxa")
    if letters - set("rwxabt+") or len(mode) > len(letters) or len(kinds) != 1:
        if len(kinds) > 1:
            raise ValueError("must have exactly one of create/read/write/append mode")
        raise ValueError(f"invalid mode: {mode!r}")
    if {"b", "t"} <= letters:
        raise ValueError("can't have text and binary mode at once")
    kind, updates = kinds.pop(), "+" in letters
    return {
        "read": kind == "r" or updates,
        "write": kind != "r" or updates,
        "append": kind == "a",
        "truncate": kind == "w",
        "create": kind != "r",
        "exclusive": kind == "x",
    }


class RawFile(io.RawIOBase):
    """An open file of a volume, unbuffered.

    Threads may share it: calls that move the position wait for each other.
    """

    name: str | bytes
    mode: str

    def __init__(
        self, volume: Volume, file: _native.File, access: Access, name: str | bytes, mode: str
    ) -> None:
        super().__init__()
        # Keeps the volume open until the file is closed.
        self._volume: Volume | None = volume
        self._block_size = volume.block_size
        self._file = file
        self._access = access
        self._lock = threading.Lock()
        self._position = 0
        self.name = name
        self.mode = mode
        # The file object that writes into this one.
        self.outermost: Callable[[], Any] = weakref.ref(self)
        if access["append"]:
            self._position = self.stat().st_size

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self.mode!r}"
        return f"<jext.RawFile name={self.name!r} {state}>"

    def close(self) -> None:
        """Closes the file. Fails if data of an earlier write could not be written."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            volume, self._volume = self._volume, None
            # A volume that was closed first has closed its files.
            if volume is not None and not volume.closed:
                self._file.close()

    def close_outermost(self) -> None:
        """Closes the file with the buffers above it, unless it is being closed."""
        if self._volume is not None:
            outermost = self.outermost()
            (self if outermost is None else outermost).close()

    def readable(self) -> bool:
        """Returns true if the file is open for reading."""
        self._check_open()
        return self._access["read"]

    def writable(self) -> bool:
        """Returns true if the file is open for writing."""
        self._check_open()
        return self._access["write"]

    def seekable(self) -> bool:
        """Returns true."""
        self._check_open()
        return True

    def fileno(self) -> int:
        """Fails: the file has no descriptor."""
        self._check_open()
        raise io.UnsupportedOperation("fileno: a file of a volume has no descriptor")

    def isatty(self) -> bool:
        """Returns false."""
        self._check_open()
        return False

    def readinto(self, buffer: Any, /) -> int:
        """Reads into a buffer. Returns the number of bytes, 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads at most `size` bytes; all without a size."""
        if size is None or size < 0:
            return self.readall()
        return self._read(size)

    def readall(self) -> bytes:
        """Reads to the end."""
        parts: list[bytes] = []
        while True:
            part = self._read(CHUNK_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)

    def write(self, data: Any, /) -> int:
        """Writes at most a megabyte. Returns the number of bytes."""
        self._check(self._access["write"], "not writable")
        part = bytes(memoryview(data).cast("B")[:CHUNK_BYTES])
        with self._lock:
            count = self._file.write(self._position, part)
            if self._access["append"]:
                self._position = self.stat().st_size
            else:
                self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position, which may lie beyond the end. Returns it."""
        self._check_open()
        with self._lock:
            if whence == os.SEEK_SET:
                position = offset
            elif whence == os.SEEK_CUR:
                position = self._position + offset
            elif whence == os.SEEK_END:
                position = self.stat().st_size + offset
            else:
                raise ValueError(f"invalid whence: {whence}")
            if position < 0:
                raise OSError(22, f"Invalid argument: position {position}")
            self._position = position
            return position

    def tell(self) -> int:
        """Returns the position."""
        self._check_open()
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        """Sets the size; that of the position without one. Returns it."""
        self._check(self._access["write"], "truncate: not open for writing")
        size = self._position if size is None else size
        if size < 0:
            raise OSError(22, f"Invalid argument: size {size}")
        self._file.truncate(size)
        return size

    def stat(self) -> StatResult:
        """Returns the attributes of the file."""
        self._check_open()
        return stat_result(self._file.stat(), self._block_size)

    def sync(self, *, data_only: bool = False) -> None:
        """Makes the file durable, as `os.fsync`; with `data_only` as `os.fdatasync`."""
        self._check_open()
        self._file.sync(data_only)

    def _read(self, size: int) -> bytes:
        self._check(self._access["read"], "not readable")
        with self._lock:
            if size > BUFFER_BYTES:
                # No larger buffer than the file can fill.
                left = self.stat().st_size - self._position
                size = min(size, max(left, 0) + 1, CHUNK_BYTES)
            data = self._file.read(self._position, size)
            self._position += len(data)
        return data

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check(self, allowed: bool, text: str) -> None:
        self._check_open()
        if not allowed:
            raise io.UnsupportedOperation(text)


def wrapped(
    raw: RawFile,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> RawFile | IO[Any]:
    """Returns a file as the builtin `open` returns it for these arguments."""
    is_binary = "b" in mode
    if buffering == 0:
        if not is_binary:
            raise ValueError("can't have unbuffered text I/O")
        return raw
    size = buffering if buffering > 1 else BUFFER_BYTES
    buffered: io.BufferedRandom | io.BufferedWriter | io.BufferedReader
    if "+" in mode:
        buffered = io.BufferedRandom(raw, size)
    elif "r" in mode:
        buffered = io.BufferedReader(raw, size)
    else:
        buffered = io.BufferedWriter(raw, size)
    if is_binary:
        return buffered
    text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]
    return text


def raw_mode(access: Access) -> str:
    """Returns the attribute `mode` that an `io.FileIO` has for an access."""
    kind = "x" if access["exclusive"] else "a" if access["append"] else "r"
    if kind == "r" and not access["read"]:
        kind = "w"
    return f"{kind}b+" if access["read"] and access["write"] else f"{kind}b"


def check_arguments(
    mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> None:
    """Fails for arguments that do not fit together, before anything is opened."""
    if "b" in mode:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(f"binary mode doesn't take an {name} argument")
    elif buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    if newline not in (None, "", "\n", "\r", "\r\n"):
        raise ValueError(f"illegal newline value: {newline!r}")
