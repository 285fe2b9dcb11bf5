"""File systems of fsspec: the protocols `ext4`, `ext3` and `ext2`.

    import fsspec

    with fsspec.open("ext4://etc/motd::file://disk.img", "rt") as file:
        print(file.read())

The package registers them; fsspec has to be installed.
"""

from __future__ import annotations

import datetime
import os
import shutil
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike, stringify_path

from ._volume import Volume
from ._volume import open as open_volume

if TYPE_CHECKING:
    from ._stat import StatResult

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
# Open volumes of images of the host: instances of the same image share one, as an image is locked.
_shared: weakref.WeakValueDictionary[tuple[Any, ...], Volume] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


class ExtFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of an image of ext4, ext3 or ext2.

    - `fo`: a path or URL of an image, a seekable binary file object, or a `jext.Volume`, which is
      not closed then.
    - `target_protocol`, `target_options`: protocol and options of the file system that holds the
      image.
    - `read_only`: true to change nothing. By default an image is written if it is a file of the host
      that may be written, a volume, or an object that is open for writing.
    - `offset`, `size`, `options`: see `jext.open`.

    What was written is in the image when `close` was called or the instance is collected, and durable
    after `sync`.
    """

    protocol = ("ext4", "ext3", "ext2")
    root_marker = "/"
    # An instance holds a lock on its image.
    cachable = False

    def __init__(
        self,
        fo: Any = "",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        read_only: bool | None = None,
        offset: int = 0,
        size: int | None = None,
        options: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Closes the volume and the file below it.
        self._close: Any = None
        self._owns = not isinstance(fo, Volume)
        part: dict[str, Any] = {"offset": offset, "size": size, "options": options}
        if isinstance(fo, Volume):
            self.volume = fo
        elif isinstance(fo, (str, os.PathLike)):
            if not os.fspath(fo):
                raise ValueError("ext4: name an image: ext4://path::file://disk.img, or fo=")
            self.volume = self._open_url(
                stringify_path(fo), target_protocol, target_options or {}, read_only, part
            )
        else:
            if read_only is None:
                read_only = not (hasattr(fo, "writable") and fo.writable())
            self.volume = open_volume(fo, read_only=read_only, **part)
        if self._owns:
            self.volume._close_when_forgotten()

    def _open_url(
        self,
        url: str,
        protocol: str | None,
        target_options: dict[str, Any],
        read_only: bool | None,
        part: dict[str, Any],
    ) -> Volume:
        opened = fsspec.open(url, mode="rb", protocol=protocol, **target_options)
        if getattr(opened.fs, "local_file", False) and not target_options:
            path = os.path.realpath(opened.path)
            if read_only is None:
                read_only = not os.access(path, os.W_OK)
            key = (path, read_only, *part.values())
            with _shared_lock:
                shared = _shared.get(key)
                if shared is None or shared.closed:
                    shared = open_volume(path, read_only=read_only, **part)
                    _shared[key] = shared
            # Others may have it too.
            self._owns = False
            shared._close_when_forgotten()
            return shared
        if read_only is False:
            opened = fsspec.open(url, mode="r+b", protocol=protocol, **target_options)
        file = opened.open()
        try:
            volume = open_volume(file, read_only=read_only is not False, **part)
        except BaseException:
            file.close()
            raise
        self._close = weakref.finalize(self, _close_both, volume, file)
        return volume

    def close(self) -> None:
        """Closes the volume, unless others use it."""
        if self._close is not None:
            self._close()
        elif self._owns:
            self.volume.close()

    def sync(self) -> None:
        """Makes everything durable that was written."""
        self.volume.sync()

    @property
    def fsid(self) -> str:
        """The UUID of the volume."""
        return f"{self.protocol[0]}-{self.volume.uuid}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        for protocol in cls.protocol:
            if text.startswith(f"{protocol}://"):
                text = text[len(protocol) + 3 :]
                break
        return "/" + text.strip("/")

    def _info(self, name: str, found: StatResult) -> dict[str, Any]:
        kind = stat.S_IFMT(found.st_mode)
        info: dict[str, Any] = {"name": name, "islink": kind == stat.S_IFLNK}
        if info["islink"]:
            info["destination"] = self.volume.readlink(name)
            try:
                found = self.volume.stat(name)
                kind = stat.S_IFMT(found.st_mode)
            except (FileNotFoundError, OSError):
                pass
        info["size"] = found.st_size
        info["type"] = _TYPES.get(kind, "other")
        info["created"] = found.st_birthtime if found.st_birthtime is not None else found.st_ctime
        for field in ("mode", "uid", "gid", "mtime", "ino", "nlink"):
            info[field] = getattr(found, f"st_{field}")
        return info

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Returns the attributes of a path."""
        path = self._strip_protocol(path)
        return self._info(path, self.volume.lstat(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """Returns the entries of a directory."""
        path = self._strip_protocol(path)
        own = self.info(path)
        if own["type"] != "directory":
            return [own] if detail else [path]
        entries = self.volume.scandir(path)
        if not detail:
            return [entry.path for entry in entries]
        return [self._info(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Returns true if a path exists."""
        return self.volume.exists(self._strip_protocol(path))

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Returns true if a path exists, even as a dangling link."""
        return self.volume.exists(self._strip_protocol(path), follow_symlinks=False)

    def isfile(self, path: str) -> bool:
        """Returns true for a regular file."""
        return self.volume.is_file(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        """Returns true for a directory."""
        return self.volume.is_dir(self._strip_protocol(path))

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Creates a directory."""
        path = self._strip_protocol(path)
        if create_parents:
            self.volume.makedirs(path)
        else:
            self.volume.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Creates a directory and its missing parents."""
        self.volume.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self.volume.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` directories."""
        for one in path if isinstance(path, list) else [path]:
            stripped = self._strip_protocol(one)
            if maxdepth is not None or any(letter in stripped for letter in "*?["):
                super().rm(stripped, recursive=recursive, maxdepth=maxdepth)
            elif self.volume.is_dir(stripped, follow_symlinks=False):
                if not recursive:
                    raise ValueError("Cannot delete directory, set recursive=True")
                self.volume.rmtree(stripped)
            else:
                self.volume.remove(stripped)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file, or creates the directory of a copy."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.volume.is_dir(source):
            self.volume.makedirs(target, exist_ok=True)
            return
        with self.volume.open(source, "rb") as reader:
            self._make_parent(target)
            with self.volume.open(target, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Renames a path in one step, or moves it into a directory."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.volume.is_dir(target):
            target = self._strip_protocol(f"{target}/{source.rsplit('/', 1)[1]}")
        self._make_parent(target)
        self.volume.rename(source, target)

    mv_file = mv

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, **kwargs: Any) -> None:
        """Copies a file of the host into the volume."""
        if isfilelike(lpath) or callback is not None:
            super().put_file(lpath, rpath, **({"callback": callback} if callback else {}), **kwargs)
            return
        target = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.volume.makedirs(target, exist_ok=True)
            return
        self._make_parent(target)
        with open(lpath, "rb") as reader, self.volume.open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)

    def link(self, src: str, dst: str, **kwargs: Any) -> None:
        """Adds a hard link."""
        self.volume.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        """Creates a symbolic link to a path of the volume."""
        self.volume.symlink(self._strip_protocol(src), self._strip_protocol(dst))

    def islink(self, path: str) -> bool:
        """Returns true for a symbolic link."""
        return self.volume.is_symlink(self._strip_protocol(path))

    def chmod(self, path: str, mode: int) -> None:
        """Sets the permission bits."""
        self.volume.chmod(self._strip_protocol(path), mode)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Creates a file, or empties it, or only sets its times."""
        path = self._strip_protocol(path)
        self._make_parent(path)
        with self.volume.open(path, "wb" if truncate else "ab"):
            pass
        self.volume.utime(path)

    def created(self, path: str) -> datetime.datetime:
        """Returns the time of birth."""
        return _time(self.info(path)["created"])

    def modified(self, path: str) -> datetime.datetime:
        """Returns the time of the last change."""
        return _time(self.info(path)["mtime"])

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        return self.volume.open(path, mode if "b" in mode else f"{mode}b")

    def _make_parent(self, path: str) -> None:
        parent = self._parent(path)
        if not self.volume.is_dir(parent):
            self.volume.makedirs(parent, exist_ok=True)


def _close_both(volume: Volume, file: Any) -> None:
    try:
        volume.close()
    finally:
        file.close()


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


__all__ = ["ExtFileSystem"]
