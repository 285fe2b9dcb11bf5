"""Results of `stat`, `scandir` and `statvfs`."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, AnyStr, Generic, NamedTuple

from ._types import fspath

if TYPE_CHECKING:
    from ._types import Numbers
    from ._volume import Volume

_NANOS = 1_000_000_000


@dataclass(frozen=True)
class StatResult:
    """The attributes of an inode, as `os.stat_result`."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    # Allocated space in units of 512 bytes.
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    # None if the inode has no room for it.
    st_birthtime_ns: int | None
    st_blksize: int
    # Major and minor number of a device node.
    st_rdev: tuple[int, int]
    # Flags of chattr(1).
    st_flags: int
    st_gen: int
    st_project: int
    # A volume is one device, which has no number here.
    st_dev: int = 0

    @property
    def st_atime(self) -> float:
        """Time of the last access, in seconds since 1970."""
        return _seconds(self.st_atime_ns)

    @property
    def st_mtime(self) -> float:
        """Time of the last change of the contents, in seconds since 1970."""
        return _seconds(self.st_mtime_ns)

    @property
    def st_ctime(self) -> float:
        """Time of the last change of the inode, in seconds since 1970."""
        return _seconds(self.st_ctime_ns)

    @property
    def st_birthtime(self) -> float | None:
        """Time of birth, in seconds since 1970; None if the inode has no room for it."""
        return None if self.st_birthtime_ns is None else _seconds(self.st_birthtime_ns)


def _seconds(nanoseconds: int) -> float:
    """Returns a time as Python rounds those of the host."""
    whole, rest = divmod(nanoseconds, _NANOS)
    return whole + 1e-9 * rest


def stat_result(numbers: Numbers, block_size: int) -> StatResult:
    """Returns the result for the numbers of the engine."""
    (mode, inode, links, uid, gid, size, sectors), times, rest = numbers
    atime, mtime, ctime, birth = times
    major, minor, flags, generation, project = rest
    return StatResult(
        st_mode=mode,
        st_ino=inode,
        st_nlink=links,
        st_uid=uid,
        st_gid=gid,
        st_size=size,
        st_blocks=sectors,
        st_atime_ns=atime,
        st_mtime_ns=mtime,
        st_ctime_ns=ctime,
        st_birthtime_ns=birth,
        st_blksize=block_size,
        st_rdev=(major, minor),
        st_flags=flags,
        st_gen=generation,
        st_project=project,
    )


class StatvfsResult(NamedTuple):
    """The free and used space of a volume, as `os.statvfs_result`."""

    f_bsize: int
    f_frsize: int
    f_blocks: int
    f_bfree: int
    f_bavail: int
    f_files: int
    f_ffree: int
    f_favail: int
    f_flag: int
    f_namemax: int


class DirEntry(Generic[AnyStr]):
    """An entry of a directory, as `os.DirEntry`."""

    __slots__ = ("_inode", "_kind", "_volume", "name", "path")

    name: AnyStr
    path: AnyStr

    def __init__(self, volume: Volume, name: AnyStr, path: AnyStr, inode: int, kind: int) -> None:
        self._volume = volume
        self._inode = inode
        self._kind = kind
        self.name = name
        self.path = path

    def __fspath__(self) -> AnyStr:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        """Returns the number of the inode."""
        return self._inode

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Returns true for a directory."""
        return self._is(stat.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Returns true for a regular file."""
        return self._is(stat.S_IFREG, follow_symlinks)

    def is_symlink(self) -> bool:
        """Returns true for a symbolic link."""
        return self._is(stat.S_IFLNK, False)

    def stat(self, *, follow_symlinks: bool = True) -> StatResult:
        """Returns the attributes of the inode."""
        return self._volume.stat(self.path, follow_symlinks=follow_symlinks)

    def _is(self, kind: int, follow_symlinks: bool) -> bool:
        known = self._kind
        if known == 0 or (known == stat.S_IFLNK and follow_symlinks):
            try:
                known = stat.S_IFMT(self.stat(follow_symlinks=follow_symlinks).st_mode)
            except FileNotFoundError:
                return False
        return known == kind


def joined(directory: AnyStr, name: AnyStr) -> AnyStr:
    """Returns the path of an entry."""
    if isinstance(directory, bytes):
        separator = b"" if directory.endswith(b"/") or not directory else b"/"
        return directory + separator + name
    separator_text = "" if directory.endswith("/") or not directory else "/"
    return directory + separator_text + name


__all__ = ["DirEntry", "StatResult", "StatvfsResult", "fspath", "joined", "stat_result"]
