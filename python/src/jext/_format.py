"""`mkfs` and `build`."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict
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
class Verity:
    """The hash tree of an image: what `veritysetup` asks for."""

    # The root hash and the salt in hexadecimal digits.
    root_hash: str
    salt: str
    # UUID in the superblock of the tree.
    uuid: str
    # Offset of the tree in bytes from the start of the image, or of its own file.
    hash_offset: int
    # Number of data blocks, of 4096 bytes.
    data_blocks: int


@dataclass(frozen=True)
class Partition:
    """The partition that an image is in."""

    # Offset and size in bytes.
    offset: int
    size: int
    # UUID of the partition, by which Linux finds it (PARTUUID).
    uuid: str
    # UUID of the disk.
    disk_uuid: str


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
    # The hash tree that was added.
    verity: Verity | None = None
    # The partition that the file system is in.
    partition: Partition | None = None


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
    slack: int | None = None,
    fit: bool = False,
    free: int | str | None = None,
    verity: bool | HostPath = False,
    partition: Literal["gpt"] | None = None,
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
    - `size`: size of the image; by default what the sources need, and `slack` percent, 10.
    - `fit`: true for the smallest image; nothing is reserved without `reserved_percent`. `free`: an
      image with exactly this free space besides reserved blocks, a number of bytes, or text such
      as `"100M"` or `"20%"`. Only one of `size`, `slack`, `fit` and `free` can be given.
    - `verity`: true for a dm-verity hash tree behind the image, or the path of a file for it. Image
      and file appear together. The summary has the root hash.
    - `partition`: `"gpt"` to put the image into the only partition of a disk.
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
    if partition not in (None, "gpt"):
        raise ValueError(f"build: partition={partition!r}: expected 'gpt'")
    rules = {"size": size, "slack": slack, "fit": fit or None, "free": free}
    given = [name for name, rule in rules.items() if rule is not None]
    if len(given) > 1:
        raise ValueError(f"build: {given[0]} and {given[1]} exclude each other")
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
    if fit:
        checked.setdefault("reserved_percent", 0)
    target = os.fsdecode(out)
    # The image is the last: where it is, its hash tree is.
    targets = [target] if isinstance(verity, bool) else [os.fsdecode(verity), target]
    _refuse_present(targets, force)
    unfinished: list[str] = []
    try:
        for path in targets:
            unfinished.append(_unfinished(path))
        shape = {
            "size": size,
            "free": 0 if fit else free,
            "slack": 10 if slack is None else slack,
            "verity": verity is not False,
            "hashes": None if isinstance(verity, bool) else unfinished[0],
            "partitioned": partition is not None,
        }
        made = _native.build(unfinished[-1], paths, shape, checked, choices)
        _native.publish(list(zip(unfinished, targets)), force)
    finally:
        for path in unfinished:
            if os.path.lexists(path):
                os.unlink(path)
    found, place = made.pop("verity"), made.pop("partition")
    return Summary(
        **made,
        verity=None if found is None else Verity(**found),
        partition=None if place is None else Partition(**place),
    )


def _refuse_present(targets: list[str], force: bool) -> None:
    for path in targets:
        if os.path.lexists(path) and not force:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"build: {path!r} is no regular file, and would be replaced by one")
    if len({_place(path) for path in targets}) < len(targets):
        raise ValueError(f"build: verity={targets[0]!r} is the image itself")


def _place(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _unfinished(target: str) -> str:
    """Makes an empty file with a hidden name beside its target."""
    folder, name = os.path.split(target)
    # No longer than names may be.
    shown = os.fsdecode(os.fsencode(name)[:200])
    descriptor, path = tempfile.mkstemp(prefix=f".{shown}.", dir=folder or ".")
    try:
        os.fchmod(descriptor, 0o666 & ~_umask())
    finally:
        os.close(descriptor)
    return path


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


__all__ = ["FormatOptions", "Partition", "Summary", "Verity", "build", "mkfs", "mkjournal"]
