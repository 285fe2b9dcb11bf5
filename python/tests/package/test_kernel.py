"""Six lines of Python make an image that e2fsck and the kernel find good."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

import jext
from conftest import e2fsck

SIX_LINES = """
jext.mkfs("disk.img", "64M")
with jext.open("disk.img") as volume:
    volume.makedirs("/etc/conf.d")
    volume.write_text("/etc/motd", "Dear all,\\n")
    with volume.open("/etc/log", "a") as log:
        print("größer", *range(10_000), file=log)
"""


def test_six_lines_make_an_image_for_linux(tmp_path: pathlib.Path) -> None:
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        exec(SIX_LINES, {"jext": jext})
    finally:
        os.chdir(before)
    image, mount = tmp_path / "disk.img", tmp_path / "mnt"
    e2fsck(image)
    if os.environ.get("JEXT_TEST_UNPRIVILEGED") == "1":
        pytest.skip("mounting an image takes root")
    assert os.geteuid() == 0, "mounting takes root, or JEXT_TEST_UNPRIVILEGED=1 leaves it out"
    mount.mkdir()
    subprocess.run(["mount", "-o", "loop,ro", str(image), str(mount)], check=True)
    try:
        with jext.open(image, read_only=True) as volume:
            for directory, directories, others in volume.walk("/"):
                host = mount / directory.strip("/")
                assert sorted(os.listdir(host)) == sorted(directories + others)
                for name in others:
                    assert (host / name).read_bytes() == volume.read_bytes(f"{directory}/{name}")
                    own, theirs = volume.stat(f"{directory}/{name}"), (host / name).stat()
                    for field in ("mode", "ino", "nlink", "uid", "gid", "size", "mtime_ns"):
                        assert getattr(own, f"st_{field}") == getattr(theirs, f"st_{field}")
        assert (mount / "etc/motd").read_text() == "Dear all,\n"
        assert (mount / "etc/log").read_text(encoding="utf-8").startswith("größer 0 1 2")
    finally:
        subprocess.run(["umount", str(mount)], check=True)
