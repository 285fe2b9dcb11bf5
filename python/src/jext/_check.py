"""`check`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from . import _native
from ._types import Image, decoded


@dataclass(frozen=True)
class Problem:
    """A fault of a file system. Parts of its place that do not apply are None."""

    # Number and name of the kind: see docs/fsck.md.
    number: int
    name: str
    # False for a note: the file system counts as clean.
    is_error: bool
    # Number, place and sentence.
    text: str
    group: int | None
    inode: int | None
    block: int | None
    file_block: int | None
    # Name of the directory entry.
    entry_name: str | None
    found: int | None
    expected: int | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Report:
    """The result of a check."""

    # True if nothing is wrong but notes.
    clean: bool
    problems: list[Problem]
    # Number of further problems.
    omitted: int
    # True if the journal had to be replayed, which was done in memory.
    needs_recovery: bool
    # Number of transactions and fast commits that were replayed.
    replayed: int
    # The reason why some of the journal was not replayed.
    not_replayed_because: str | None
    block_size: int
    blocks: int
    used_blocks: int
    inodes: int
    used_inodes: int
    regular_files: int
    directories: int
    symlinks: int

    @property
    def errors(self) -> list[Problem]:
        """The problems that are not notes."""
        return [problem for problem in self.problems if problem.is_error]


def check(
    image: Image, *, offset: int = 0, size: int | None = None, journal: Image | None = None
) -> Report:
    """Checks a file system with a checker that shares no code with the engine. Nothing is written.

    - `image`: a path, or a seekable binary file object.
    - `offset`, `size`: the part of the image that holds the file system, in bytes.
    - `journal`: the device of an external journal.

    Raises `DamageError` if there is no superblock.
    """
    found = _native.check(image, offset, size, journal, int(time.time()))
    problems = []
    for problem in found.pop("problems"):
        name = problem.pop("entry_name")
        problems.append(Problem(entry_name=None if name is None else decoded(name), **problem))
    return Report(problems=problems, **found)


__all__ = ["Problem", "Report", "check"]
