"""Types of arguments."""

import os
from typing import Any, Protocol, Union


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
# Whatever has a length in bytes.
Buffer = Any


def decoded(name: bytes) -> str:
    """Returns a name as text; bytes that are not UTF-8 become lone surrogates."""
    return name.decode("utf-8", "surrogateescape")


def fspath(path: VolumePath) -> Union[str, bytes]:
    """Returns the text or bytes of a path."""
    return os.fspath(path)
