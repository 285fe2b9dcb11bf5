"""`open` and `Volume`."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import threading
import time
import warnings
import weakref
from typing import IO, TYPE_CHECKING, Any, AnyStr, overload

from . import _native
from ._files import RawFile, access_of, check_arguments, raw_mode, wrapped
from ._stat import DirEntry, StatResult, StatvfsResult, joined, stat_result
from ._types import HostPath, Image, VolumePath, decoded, fspath

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Self

_READ_ONLY = 1  # ST_RDONLY
_NANOS = 1_000_000_000


def open(
    image: Image,
    *,
    offset: int = 0,
    size: int | None = None,
    read_only: bool = False,
    options: str = "",
    journal: Image | None = None,
    uid: int = 0,
    gid: int = 0,
    umask: int = 0o022,
) -> Volume:
    """Opens the file system on an image.

    A journal that has to be replayed is replayed: in memory if `read_only`, so that the image does
    not change.

    - `image`: a path of a file or a block device, which is locked against other programs; or a
      seekable binary file object, which nothing else may use meanwhile.
    - `offset`, `size`: the part of the image that holds the file system, in bytes.
    - `options`: mount options of ext4, such as `"data=journal,commit=30"`.
    - `journal`: the device of an external journal.
    - `uid`, `gid`, `umask`: owner and missing permissions of what is created.
    """
    core = _native.Volume(image, offset, size, read_only, options, journal)
    return Volume(core, _described(image), uid, gid, umask)


def _described(image: Image) -> str:
    if isinstance(image, (str, bytes, os.PathLike)):
        return os.fsdecode(image)
    return f"<{type(image).__name__}>"


class Volume:
    """An open file system, made by `jext.open`.

    Paths start at the root, with or without a slash. All threads may use a volume at the same time.
    A forked process may not: its calls raise `RuntimeError`.

    `close`, or the end of a `with` statement, writes everything. A volume that is forgotten is
    closed when it is collected or the program ends, with a `ResourceWarning`.
    """

    def __init__(
        self, core: _native.Volume, image: str, uid: int = 0, gid: int = 0, umask: int = 0o022
    ) -> None:
        self._core = core
        self._image = image
        self._uid = uid
        self._gid = gid
        self._umask = umask
        self._block_size = core.usage()[0]
        # Open files, which are flushed before the volume closes.
        self._files: weakref.WeakSet[RawFile] = weakref.WeakSet()
        self._files_lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _close_forgotten, core, self._files, image, True)

    # Opening and closing.

    def __enter__(self) -> Self:
        if self.closed:
            raise ValueError("the volume is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<jext.Volume {self._image!r}{' closed' if self.closed else ''}>"

    def close(self) -> None:
        """Closes all files, writes everything, marks the file system clean.

        Fails if something could not be written; the volume is closed in any case.
        """
        self._finalizer.detach()
        _close(self._core, self._files)

    @property
    def closed(self) -> bool:
        """True if the volume was closed, or belongs to another process."""
        return self._core.closed

    @property
    def read_only(self) -> bool:
        """True if the volume is, or has become, read-only."""
        return self._core.read_only

    @property
    def label(self) -> str:
        """The label when the volume was opened."""
        return decoded(self._core.label)

    @property
    def uuid(self) -> str:
        """The UUID when the volume was opened."""
        return self._core.uuid

    @property
    def features(self) -> list[str]:
        """The names of the features when the volume was opened."""
        return self._core.features

    @property
    def block_size(self) -> int:
        """The size of a block in bytes."""
        return self._block_size

    @property
    def replayed_transactions(self) -> int:
        """Number of transactions and fast commits of the journal that were replayed at open."""
        return sum(self._core.replayed)

    @property
    def has_errors(self) -> bool:
        """True if damage is recorded in the superblock: a check is due."""
        return self._core.has_errors

    def sync(self) -> None:
        """Makes everything that was written to the volume durable.

        Data in the buffer of an open file is not written to it yet: `flush` the file first.
        """
        self._core.sync()

    def trim(self, minimum: int = 0) -> int:
        """Discards free extents of at least `minimum` bytes, so that a sparse image shrinks.

        Returns the number of bytes.
        """
        return self._core.trim(minimum)

    def statvfs(self) -> StatvfsResult:
        """Returns the free and used space."""
        block_size, blocks, free, available, inodes, inodes_free = self._core.usage()
        flags = _READ_ONLY if self.read_only else 0
        return StatvfsResult(
            block_size,
            block_size,
            blocks,
            free,
            available,
            inodes,
            inodes_free,
            inodes_free,
            flags,
            255,
        )

    # Files.

    @overload
    def open(
        self,
        path: VolumePath,
        mode: Literal["r", "w", "x", "a", "r+", "w+", "x+", "a+", "rt", "wt", "xt", "at"] = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o666,
    ) -> io.TextIOWrapper: ...

    @overload
    def open(
        self,
        path: VolumePath,
        mode: Literal["rb", "br"],
        buffering: Literal[-1, 1] = -1,
        *,
        permissions: int = 0o666,
    ) -> io.BufferedReader: ...

    @overload
    def open(
        self,
        path: VolumePath,
        mode: Literal["wb", "bw", "ab", "ba", "xb", "bx"],
        buffering: Literal[-1, 1] = -1,
        *,
        permissions: int = 0o666,
    ) -> io.BufferedWriter: ...

    @overload
    def open(
        self,
        path: VolumePath,
        mode: Literal["rb+", "r+b", "wb+", "w+b", "ab+", "a+b", "xb+", "x+b"],
        buffering: Literal[-1, 1] = -1,
        *,
        permissions: int = 0o666,
    ) -> io.BufferedRandom: ...

    @overload
    def open(  # type: ignore[overload-overlap]
        self,
        path: VolumePath,
        mode: Literal[
            "rb", "br", "wb", "bw", "ab", "ba", "xb", "bx",
            "rb+", "r+b", "wb+", "w+b", "ab+", "a+b", "xb+", "x+b",
        ],
        buffering: Literal[0],
        *,
        permissions: int = 0o666,
    ) -> RawFile: ...

    @overload
    def open(
        self,
        path: VolumePath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o666,
    ) -> IO[Any]: ...

    def open(
        self,
        path: VolumePath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o666,
    ) -> RawFile | IO[Any]:
        """Opens a file as the builtin `open` does.

        A new file gets the `permissions` without those of the volume's umask. Files have no
        descriptor; `raw.sync()` stands for `os.fsync`.
        """
        access = access_of(mode)
        check_arguments(mode, buffering, encoding, errors, newline)
        name = fspath(path)
        file = self._core.open_file(path, access, self._new(permissions))
        raw = RawFile(self, file, access, name, raw_mode(access))
        try:
            opened = wrapped(raw, mode, buffering, encoding, errors, newline)
        except BaseException:
            raw.close()
            raise
        raw.outermost = weakref.ref(opened)
        with self._files_lock:
            self._files.add(raw)
        return opened

    def read_bytes(self, path: VolumePath) -> bytes:
        """Returns the contents of a file."""
        with self.open(path, "rb", 0) as file:
            return file.read()

    def write_bytes(self, path: VolumePath, data: bytes | bytearray | memoryview) -> int:
        """Creates a file with these contents, or replaces those of an existing file."""
        view = memoryview(data).cast("B")
        with self.open(path, "wb", 0) as file:
            written = 0
            while written < len(view):
                written += file.write(view[written:])
        return written

    def read_text(
        self, path: VolumePath, encoding: str = "utf-8", errors: str | None = None
    ) -> str:
        """Returns the contents of a file as text."""
        with self.open(path, "r", -1, encoding, errors) as file:
            return file.read()

    def write_text(
        self, path: VolumePath, text: str, encoding: str = "utf-8", errors: str | None = None
    ) -> int:
        """Creates a file with this text, or replaces the contents of an existing file."""
        with self.open(path, "w", -1, encoding, errors) as file:
            return file.write(text)

    def truncate(self, path: VolumePath, length: int) -> None:
        """Sets the size of a file."""
        if length < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), fspath(path))
        self._core.change(path, True, size=length)

    # Attributes.

    def stat(self, path: VolumePath, *, follow_symlinks: bool = True) -> StatResult:
        """Returns the attributes of a path, as `os.stat`."""
        return stat_result(self._core.stat(path, follow_symlinks), self._block_size)

    def lstat(self, path: VolumePath) -> StatResult:
        """Returns the attributes of a path; those of a symbolic link itself."""
        return self.stat(path, follow_symlinks=False)

    def exists(self, path: VolumePath, *, follow_symlinks: bool = True) -> bool:
        """Returns true if a path exists."""
        return self._kind(path, follow_symlinks) is not None

    def is_file(self, path: VolumePath, *, follow_symlinks: bool = True) -> bool:
        """Returns true if a path is a regular file."""
        return self._kind(path, follow_symlinks) == stat.S_IFREG

    def is_dir(self, path: VolumePath, *, follow_symlinks: bool = True) -> bool:
        """Returns true if a path is a directory."""
        return self._kind(path, follow_symlinks) == stat.S_IFDIR

    def is_symlink(self, path: VolumePath) -> bool:
        """Returns true if a path is a symbolic link."""
        return self._kind(path, False) == stat.S_IFLNK

    def chmod(self, path: VolumePath, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permission bits, as `os.chmod`."""
        self._core.change(path, follow_symlinks, mode=mode)

    def chown(
        self, path: VolumePath, uid: int, gid: int, *, follow_symlinks: bool = True
    ) -> None:
        """Sets owner and group, as `os.chown`; -1 leaves one as it is."""
        self._core.change(
            path,
            follow_symlinks,
            uid=None if uid == -1 else uid,
            gid=None if gid == -1 else gid,
        )

    def utime(
        self,
        path: VolumePath,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets the times of access and modification, as `os.utime`: the current time by default."""
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if times is not None:
            ns = (_nanoseconds(times[0]), _nanoseconds(times[1]))
        if ns is None:
            now = time.time_ns()
            ns = (now, now)
        self._core.change(path, follow_symlinks, times=ns)

    def getxattr(
        self, path: VolumePath, name: str | bytes, *, follow_symlinks: bool = True
    ) -> bytes:
        """Returns the value of an extended attribute, as `os.getxattr`."""
        return self._core.getxattr(path, name, follow_symlinks)

    def setxattr(
        self,
        path: VolumePath,
        name: str | bytes,
        value: bytes,
        flags: int = 0,
        *,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets an extended attribute, as `os.setxattr`."""
        self._core.setxattr(path, name, bytes(value), flags, follow_symlinks)

    def removexattr(
        self, path: VolumePath, name: str | bytes, *, follow_symlinks: bool = True
    ) -> None:
        """Removes an extended attribute, as `os.removexattr`."""
        self._core.removexattr(path, name, follow_symlinks)

    def listxattr(self, path: VolumePath, *, follow_symlinks: bool = True) -> list[str]:
        """Returns the names of the extended attributes, as `os.listxattr`."""
        return [decoded(name) for name in self._core.listxattr(path, follow_symlinks)]

    # The tree.

    @overload
    def listdir(self, path: bytes | os.PathLike[bytes]) -> list[bytes]: ...

    @overload
    def listdir(self, path: str | os.PathLike[str] = "/") -> list[str]: ...

    @overload
    def listdir(self, path: VolumePath = "/") -> list[str] | list[bytes]: ...

    def listdir(self, path: VolumePath = "/") -> list[str] | list[bytes]:
        """Returns the names of the entries of a directory: bytes, if the path is bytes."""
        names = [name for name, _, _ in self._core.entries(path)]
        if isinstance(fspath(path), bytes):
            return names
        return [decoded(name) for name in names]

    @overload
    def scandir(self, path: bytes | os.PathLike[bytes]) -> Iterator[DirEntry[bytes]]: ...

    @overload
    def scandir(self, path: str | os.PathLike[str] = "/") -> Iterator[DirEntry[str]]: ...

    def scandir(self, path: Any = "/") -> Iterator[DirEntry[Any]]:
        """Returns the entries of a directory, as `os.scandir`."""
        directory = fspath(path)
        is_bytes = isinstance(directory, bytes)
        for name, inode, kind in self._core.entries(path):
            shown: Any = name if is_bytes else decoded(name)
            yield DirEntry(self, shown, joined(directory, shown), inode, kind)

    @overload
    def walk(
        self, top: bytes | os.PathLike[bytes]
    ) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]: ...

    @overload
    def walk(
        self, top: str | os.PathLike[str] = "/"
    ) -> Iterator[tuple[str, list[str], list[str]]]: ...

    def walk(self, top: Any = "/") -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Yields directories, each with the names of its directories and of its other entries.

        As `os.walk` from the top down: symbolic links are not followed, and directories that are
        removed from the list are left out.
        """
        waiting = [fspath(top)]
        while waiting:
            directory: Any = waiting.pop()
            directories: list[Any] = []
            others: list[Any] = []
            for entry in self.scandir(directory):
                is_directory = entry.is_dir(follow_symlinks=False)
                (directories if is_directory else others).append(entry.name)
            yield directory, directories, others
            waiting.extend(joined(directory, name) for name in reversed(directories))

    def mkdir(self, path: VolumePath, mode: int = 0o777) -> None:
        """Creates a directory, as `os.mkdir`."""
        self._core.mkdir(path, self._new(mode))

    def makedirs(self, path: VolumePath, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Creates a directory and its missing parents, as `os.makedirs`."""
        text: Any = fspath(path)
        parent, name = posixpath.split(text)
        if not name:
            parent, name = posixpath.split(parent)
        if parent and name and not self.exists(parent):
            self.makedirs(parent, exist_ok=True)
        try:
            self.mkdir(path, mode)
        except OSError:
            # The root cannot be made, for another reason than that it exists.
            if not exist_ok or not self.is_dir(path):
                if self.exists(path, follow_symlinks=False):
                    raise FileExistsError(
                        errno.EEXIST, os.strerror(errno.EEXIST), text
                    ) from None
                raise

    def rmdir(self, path: VolumePath) -> None:
        """Removes an empty directory."""
        self._core.rmdir(path)

    def remove(self, path: VolumePath) -> None:
        """Removes a file, a symbolic link or a node."""
        self._core.remove(path)

    unlink = remove

    def rmtree(self, path: VolumePath) -> None:
        """Removes a directory with everything below it. Symbolic links are not followed."""
        start: Any = fspath(path)
        if not self.is_dir(start, follow_symlinks=False):
            self._core.rmdir(start)
        emptied = []
        for directory, _, others in self.walk(start):
            emptied.append(directory)
            for name in others:
                self.remove(joined(directory, name))
        for directory in reversed(emptied):
            self.rmdir(directory)

    def rename(self, source: VolumePath, target: VolumePath) -> None:
        """Renames a path in one step. An existing target is replaced, as by `os.rename`."""
        self._core.rename(source, target)

    replace = rename

    def symlink(self, source: VolumePath, target: VolumePath) -> None:
        """Creates a symbolic link `target` with the text `source`, as `os.symlink`."""
        self._core.symlink(source, target, self._new(0o777, 0))

    @overload
    def readlink(self, path: bytes | os.PathLike[bytes]) -> bytes: ...

    @overload
    def readlink(self, path: str | os.PathLike[str]) -> str: ...

    @overload
    def readlink(self, path: VolumePath) -> str | bytes: ...

    def readlink(self, path: VolumePath) -> str | bytes:
        """Returns the text of a symbolic link."""
        target = self._core.readlink(path)
        return target if isinstance(fspath(path), bytes) else decoded(target)

    def link(self, source: VolumePath, target: VolumePath) -> None:
        """Adds a hard link `target` to the file `source`, which is not followed."""
        self._core.link(source, target)

    # Helpers.

    def _new(self, mode: int, umask: int | None = None) -> tuple[int, int, int, int]:
        return (mode & 0o7777, self._umask if umask is None else umask, self._uid, self._gid)

    def _kind(self, path: VolumePath, follow: bool) -> int | None:
        try:
            return stat.S_IFMT(self._core.stat(path, follow)[0][0])
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _close_when_forgotten(self) -> None:
        """Leaves out the warning for a volume that is forgotten on purpose."""
        self._finalizer.detach()
        self._finalizer = weakref.finalize(
            self, _close_forgotten, self._core, self._files, self._image, False
        )


def _nanoseconds(seconds: float) -> int:
    whole = int(seconds // 1)
    return whole * _NANOS + int((seconds - whole) * _NANOS)


def _close(core: _native.Volume, files: weakref.WeakSet[RawFile]) -> None:
    """Closes open files and the volume, and raises the first error."""
    error: BaseException | None = None
    if not core.closed:
        for file in list(files):
            try:
                file.close_outermost()
            except Exception as raised:
                error = error or raised
    core.close()
    if error is not None:
        raise error


def _close_forgotten(
    core: _native.Volume, files: weakref.WeakSet[RawFile], image: str, warns: bool
) -> None:
    if core.closed:
        return
    _close(core, files)
    if warns:
        warnings.warn(f"unclosed volume {image!r}", ResourceWarning, stacklevel=2)


__all__ = ["HostPath", "Volume", "open"]
