"""Images for tests, and what the programs of e2fsprogs say about them."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import jext


def e2fsck(image: pathlib.Path) -> None:
    """Fails unless e2fsck finds nothing."""
    program = shutil.which("e2fsck", path="/usr/sbin:/sbin:/usr/bin:/bin")
    assert program is not None, "e2fsck is needed: run scripts/install-test-tools"
    found = subprocess.run([program, "-fn", str(image)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def clean(image: pathlib.Path) -> None:
    """Fails unless both checkers find nothing."""
    report = jext.check(image)
    assert report.clean, report.problems
    e2fsck(image)


@pytest.fixture
def image(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty ext4 of 32 MiB."""
    path = tmp_path / "disk.img"
    jext.mkfs(path, "32M")
    return path


@pytest.fixture
def volume(image: pathlib.Path) -> Iterator[jext.Volume]:
    """An open volume, which is checked at the end."""
    with jext.open(image) as volume:
        yield volume
    clean(image)
