"""`mkfs` and `build`."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

from . import _native
from ._types import HostPath, Image

if TYPE_CHECKING:
    from typing_extensions import Unpack


class FormatOptions(TypedDict, total=False):
    """The options of a new file system, as those of mke2fs(8). The defaults are those of mke2fs."""

    # Label of at most 16 bytes.
    label: str
    uuid: str
    # Size of a block in bytes: 1024, 2048 or 4096.
    block_size: int
    # Size of a cluster in bytes, with the feature bigalloc.
    cluster_size: int
    blocks_per_group: int
    # One inode for so many bytes.
    bytes_per_inode: int
    # Size of an inode in bytes.
    inode_size: int
    # Number of inodes.
    inodes: int
    # Percentage of blocks that are reserved for root.
    reserved_percent: float
    # Features to add, or with ^ to remove: "^resize_inode,casefold", or a list of them.
    features: str | Iterable[str]
    # The system that will use the file system, such as "debian-13"; only for ext4.
    target: str
    # Usage: floppy, small, default, big, huge, news, largefile or largefile4.
    usage: str
    # Size of the journal in MiB.
    journal_mib: int
    # User and group of the root directory.
    root_owner: tuple[int, int]
    # Seed of directory hashes, a UUID.
    hash_seed: str
    # True to leave unused inode tables to the first mount.
    lazy_itable_init: bool
    # Time of creation in seconds since 1970; that of the environment variable SOURCE_DATE_EPOCH, or
    # the current time.
    created: int


@dataclass(frozen=True)
class Summary:
    """A new file system."""

    uuid: str
    features: list[str]
    block_size: int
    blocks: int
    free_blocks: int
    reserved_blocks: int
    groups: int
    inodes: int
    free_inodes: int
    inode_size: int
    # Number of blocks of the journal; 0 without one.
    journal_blocks: int
    # Deviations from the options, with their reasons.
    warnings: list[str]
    # Number of files that were copied.
    files: int = 0
    # Number of bytes of their data.
    data_bytes: int = 0


def mkfs(
    image: Image,
    size: int | str | None = None,
    type: str = "ext4",
    *,
    offset: int = 0,
    force: bool = False,
    journal: Image | None = None,
    **options: Unpack[FormatOptions],
) -> Summary:
    """Makes an empty file system on an image.

    - `image`: a path, or a seekable binary file object. A path that does not exist, and an image
      that is empty, get the `size`.
    - `size`: size of the file system in bytes, or text such as `"64M"`; by default that of the image.
    - `type`: `"ext2"`, `"ext3"` or `"ext4"`.
    - `offset`: first byte of the file system.
    - `force`: true to replace what the image holds.
    - `journal`: an external journal, which `mkjournal` has made.
    - `options`: see `FormatOptions`.
    """
    if size is not None and isinstance(image, (str, bytes, os.PathLike)):
        _grow(image, size, offset)
    made = _native.mkfs(image, size, offset, force, journal, _checked("mkfs", type, options))
    return Summary(**made)


def mkjournal(
    image: Image,
    size: int | str | None = None,
    *,
    block_size: int = 4096,
    uuid: str | None = None,
    label: str = "",
    force: bool = False,
) -> str:
    """Makes an external journal on an image, for a file system with blocks of this size.

    Returns its UUID. The other arguments are those of `mkfs`.
    """
    if size is not None and isinstance(image, (str, bytes, os.PathLike)):
        _grow(image, size, 0)
    chosen = str(uuid4()) if uuid is None else uuid
    _native.mkjournal(image, size, force, block_size, chosen, label)
    return chosen


def _grow(path: HostPath, size: int | str, offset: int) -> None:
    """Gives an empty file its size."""
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        os.truncate(path, _native.size_of(size) + offset)


def build(
    out: HostPath,
    sources: HostPath | Iterable[HostPath],
    *,
    type: str = "ext4",
    size: int | str | None = None,
    slack: int = 10,
    force: bool = False,
    platform: str | None = None,
    owner: tuple[int, int] | None = None,
    owner_map: str | None = None,
    file_contexts: HostPath | None = None,
    xattrs: str | None = None,
    dumpfile: HostPath | None = None,
    basedir: HostPath | None = None,
    **options: Unpack[FormatOptions],
) -> Summary:
    """Makes an image of directories, tar archives (plain, gzip or zstd) and container images.

    The image appears when it is complete. With `created` or SOURCE_DATE_EPOCH the same sources give
    the same bytes.

    - `out`: path of the image, which must not exist, unless `force`.
    - `sources`: a directory, an archive or a container image (an image layout of OCI, as a
      directory or an archive, or an archive of `docker save`), or several of them: later ones
      replace files of earlier ones. Owners, modes, times, links and extended attributes are kept.
    - `size`: size of the image; by default what the sources need, and `slack` percent.
    - `platform`: the platform of container images for several, such as "linux/amd64".
    - `owner`: user and group of all files; or `owner_map`: ranges such as "u:0:100000:65536".
    - `file_contexts`: file with SELinux labels.
    - `xattrs`: extended attributes to keep, such as "user.*,^user.secret"; all by default.
    - `dumpfile`: dump file of composefs, the last source; contents lie below `basedir`.
    - `options`: see `FormatOptions`.
    """
    paths = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    if not paths and dumpfile is None:
        raise ValueError("build: there is no source")
    choices = {
        "platform": platform,
        "owner": owner,
        "owner_map": owner_map,
        "file_contexts": file_contexts,
        "xattrs": xattrs,
        "dumpfile": dumpfile,
        "basedir": basedir,
    }
    checked = _checked("build", type, options)
    target = os.fsdecode(out)
    if os.path.lexists(target) and not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    folder, name = os.path.split(target)
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
    try:
        os.fchmod(descriptor, 0o666 & ~_umask())
        os.close(descriptor)
        made = _native.build(unfinished, paths, size, slack, checked, choices)
        if force:
            os.replace(unfinished, target)
        else:
            os.link(unfinished, target)
    finally:
        if os.path.lexists(unfinished):
            os.unlink(unfinished)
    return Summary(**made)


def _umask() -> int:
    # Only a change of the umask returns it, which other threads would see.
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def _checked(name: str, type: str, options: Any) -> dict[str, Any]:
    """Returns the options for the engine; refuses unknown ones."""
    known = FormatOptions.__annotations__
    for option in options:
        if option not in known:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
    checked = {option: value for option, value in options.items() if value is not None}
    checked["kind"] = type
    features = checked.get("features")
    if features is not None and not isinstance(features, str):
        checked["features"] = ",".join(features)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if "created" not in checked and epoch is not None:
        try:
            checked["created"] = int(epoch)
        except ValueError:
            raise ValueError(f"SOURCE_DATE_EPOCH={epoch}: expected seconds since 1970") from None
    return checked


__all__ = ["FormatOptions", "Summary", "build", "mkfs", "mkjournal"]
