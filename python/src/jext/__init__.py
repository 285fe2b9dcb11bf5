"""ext2, ext3 and ext4 in user space: images are made, read, written and checked without a mount.

    import jext

    jext.mkfs("disk.img", "64M")
    with jext.open("disk.img") as volume:
        volume.makedirs("/etc")
        volume.write_bytes("/etc/motd", b"Dear all,\\n")
    print(jext.check("disk.img").clean)

- `open`: opens an image, a `Volume`, which has the calls of `os` and the builtin `open`.
- `mkfs`, `build`: make a file system, an empty one, or one of directories and archives;
  `mkjournal`: an external journal.
- `check`: checks one without changing it.
- `jext.lab`: runs plans of the laboratory.
- `jext.filesystem`: file systems of fsspec with the protocols `ext4`, `ext3` and `ext2`.

Errors are `OSError` and its subclasses; damage is a `DamageError`.
"""

from ._check import Problem, Report, check
from ._files import RawFile
from ._format import FormatOptions, Partition, Summary, Verity, build, mkfs, mkjournal
from ._native import DamageError, __version__
from ._stat import DirEntry, StatResult, StatvfsResult
from ._types import HostPath, Image, VolumePath
from ._volume import Volume, open

__all__ = [
    "DamageError",
    "DirEntry",
    "FormatOptions",
    "HostPath",
    "Image",
    "Partition",
    "Problem",
    "RawFile",
    "Report",
    "StatResult",
    "StatvfsResult",
    "Summary",
    "Verity",
    "Volume",
    "VolumePath",
    "__version__",
    "build",
    "check",
    "mkfs",
    "mkjournal",
    "open",
]
