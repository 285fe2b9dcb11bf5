"""Types of arguments."""

import os
from typing import Optional, Protocol, TypedDict, Union


class BinaryFile(Protocol):
    """A seekable binary file object: `io.BytesIO`, an open file, a file of fsspec."""

    def read(self, size: int, /) -> bytes:
        """Reads at most `size` bytes."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Moves the position."""


# A path of the host.
HostPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
# A path within a volume: with or without a leading slash, it starts at the root. Names that are not
# UTF-8 are written as bytes, or with `surrogateescape`.
VolumePath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
# An image.
Image = Union[HostPath, BinaryFile]

# The attributes of an inode as the engine gives them: mode, inode, links, uid, gid, size, sectors;
# times of access, modification, change and birth; device, flags, generation, project.
Numbers = tuple[
    tuple[int, int, int, int, int, int, int],
    tuple[int, int, int, Optional[int]],
    tuple[int, int, int, int, int],
]
# Permissions, umask, user and group of a new inode.
NewArguments = tuple[int, int, int, int]


class Access(TypedDict):
    """The way in which a file is opened."""

    read: bool
    write: bool
    append: bool
    truncate: bool
    create: bool
    exclusive: bool


def decoded(name: bytes) -> str:
    """Returns a name as text; bytes that are not UTF-8 become lone surrogates."""
    return name.decode("utf-8", "surrogateescape")


def fspath(path: VolumePath) -> Union[str, bytes]:
    """Returns the text or bytes of a path."""
    return os.fspath(path)
