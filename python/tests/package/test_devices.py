"""Images: files of the host, parts of them, and Python objects."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any

import pytest

import jext
from conftest import clean, e2fsck


def fill(image: Any, **options: Any) -> None:
    with jext.open(image, **options) as volume:
        volume.makedirs("/etc")
        volume.write_bytes("/etc/motd", b"Dear all,\n")


@pytest.mark.parametrize("type", ["ext2", "ext3", "ext4"])
def test_objects_are_images(tmp_path: pathlib.Path, type: str) -> None:
    memory = io.BytesIO()
    jext.mkfs(memory, "8M", type)
    fill(memory)
    assert jext.check(memory).clean
    path = tmp_path / "memory.img"
    path.write_bytes(memory.getvalue())
    clean(path)
    for mode, buffering in (("r+b", -1), ("r+b", 0), ("rb", -1)):
        with open(path, mode, buffering) as file:
            read_only = mode == "rb"
            with jext.open(file, read_only=read_only) as volume:
                assert volume.read_bytes("/etc/motd") == b"Dear all,\n"
                if not read_only:
                    volume.write_bytes(f"/{buffering}", bytes(300_000))
            assert not file.closed
        clean(path)
    with tempfile.NamedTemporaryFile() as temporary:
        jext.mkfs(temporary, "4M", type)
        fill(temporary)
        e2fsck(pathlib.Path(temporary.name))


def test_what_is_no_image_is_refused(tmp_path: pathlib.Path, image: pathlib.Path) -> None:
    with open(image, "rb") as file, pytest.raises(ValueError, match="read_only=True"):
        jext.open(file)
    with open(image, "r", encoding="latin-1") as text, pytest.raises(TypeError, match="text file"):
        jext.open(text, read_only=True)  # type: ignore[arg-type]
    reader, writer = os.pipe()
    with open(reader, "rb") as pipe, open(writer, "wb"), pytest.raises(ValueError, match="seekable"):
        jext.open(pipe, read_only=True)
    with pytest.raises(TypeError, match="a path or a seekable binary file object, not int"):
        jext.open(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="holds no file system"):
        jext.open(io.BytesIO(b"x"))
    with pytest.raises(jext.DamageError, match="no ext2/ext3/ext4 superblock"):
        jext.open(io.BytesIO(bytes(1 << 20)))
    with pytest.raises(FileNotFoundError) as missing:
        jext.open(tmp_path / "missing.img")
    assert missing.value.filename == str(tmp_path / "missing.img")
    with pytest.raises(ValueError, match="mount option"):
        jext.open(image, options="data=fast")
    with jext.open(image), pytest.raises(OSError) as used:
        jext.open(image)
    assert used.value.errno == errno.EBUSY


def test_parts_of_images(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "disk.img"
    jext.mkfs(path, "8M", offset=1 << 20)
    fill(path, offset=1 << 20)
    assert path.stat().st_size == 9 << 20
    report = jext.check(path, offset=1 << 20, size=8 << 20)
    assert report.clean and report.regular_files == 1
    with pytest.raises(jext.DamageError):
        jext.open(path)
    with open(path, "rb") as file, jext.open(file, offset=1 << 20, read_only=True) as volume:
        assert volume.read_text("/etc/motd") == "Dear all,\n"
    with pytest.raises(OSError):
        jext.open(path, offset=100)
    with pytest.raises(OSError):
        jext.open(path, offset=1 << 20, size=1 << 40)


def test_read_only_changes_nothing(image: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fill(image)
    volume = jext.open(image)
    volume.write_bytes("/synced", b"synced")
    volume.sync()
    crashed = tmp_path / "crashed.img"
    shutil.copy(image, crashed)
    volume.close()
    before = crashed.read_bytes()
    report = jext.check(crashed)
    assert report.clean and report.needs_recovery and report.replayed > 0
    with jext.open(crashed, read_only=True) as volume:
        assert volume.read_only and volume.replayed_transactions > 0
        assert volume.read_bytes("/synced") == b"synced"
        assert volume.statvfs().f_flag == os.ST_RDONLY
        for change in (
            lambda: volume.write_bytes("/new", b""),
            lambda: volume.remove("/synced"),
            lambda: volume.mkdir("/new"),
            lambda: volume.open("/synced", "r+"),
        ):
            with pytest.raises(OSError) as raised:
                change()
            assert raised.value.errno == errno.EROFS
        # Two may read.
        with jext.open(crashed, read_only=True) as second:
            assert second.read_bytes("/synced") == b"synced"
    assert crashed.read_bytes() == before
    with open(crashed, "rb") as file, jext.open(file, read_only=True) as volume:
        assert volume.read_bytes("/synced") == b"synced"
    with jext.open(crashed) as volume:
        assert volume.replayed_transactions > 0
    clean(crashed)


class Failing(io.BytesIO):
    """Fails while it is told to."""

    error: Exception | None = None

    def write(self, data: Any, /) -> int:
        if self.error is not None:
            raise self.error
        return super().write(data)

    def read(self, size: int | None = -1, /) -> bytes:
        if self.error is not None:
            raise self.error
        return super().read(size)


def test_exceptions_of_objects_are_causes() -> None:
    image = Failing()
    jext.mkfs(image, "8M")
    fill(image)
    image.error = RuntimeError("the cable is out")
    with pytest.raises(OSError, match="the cable is out") as raised:
        jext.open(image)
    assert raised.value.__cause__ is image.error
    image.error = None
    volume = jext.open(image)
    volume.write_bytes("/file", b"x")
    image.error = RuntimeError("the cable is out")
    with pytest.raises(OSError) as raised:
        volume.sync()
    assert raised.value.errno == errno.EIO
    assert raised.value.__cause__ is image.error
    image.error = None
    with pytest.raises(OSError):
        volume.close()
    assert volume.closed
    assert jext.check(image).clean
    image.error = OSError(errno.ENOSPC, "full")
    with pytest.raises(OSError) as raised:
        jext.mkfs(image, "8M", force=True)


class Short(io.RawIOBase):
    """Reads and writes at most 1000 bytes at once, as raw files may."""

    def __init__(self) -> None:
        self.inner = io.BytesIO()

    def seekable(self) -> bool:
        return True

    readable = writable = seekable

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.inner.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        return self.inner.truncate(size)

    def read(self, size: int = -1, /) -> bytes:
        return self.inner.read(min(size, 1000))

    def write(self, data: Any, /) -> int:
        return self.inner.write(data[:1000])


def test_objects_may_be_short() -> None:
    image = Short()
    jext.mkfs(image, "4M", "ext3")
    fill(image)
    assert jext.check(image).clean


def test_images_may_be_nested(image: pathlib.Path) -> None:
    with jext.open(image) as outer:
        with outer.open("/inner.img", "w+b") as file:
            jext.mkfs(file, "4M", "ext2")
            fill(file)
        with outer.open("/inner.img", "rb") as reader, jext.open(reader, read_only=True) as inner:
            assert inner.read_bytes("/etc/motd") == b"Dear all,\n"
    clean(image)


class Waiting(io.BytesIO):
    """Lets another thread of Python run within each read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.answered = threading.Event()
        self.waits = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.waits:
            self.asked.set()
            assert self.answered.wait(30), "the thread of the program did not run"
        return super().read(size)


def test_the_gil_is_released_while_a_device_works() -> None:
    image = Waiting()
    jext.mkfs(image, "8M")
    fill(image)
    volume = jext.open(image)
    image.waits = True
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(volume.read_bytes("/etc/motd")))
    reader.start()
    # This thread needs the GIL while the engine waits for the device, and others use the volume.
    assert image.asked.wait(30)
    assert volume.statvfs().f_bsize == volume.block_size
    image.answered.set()
    reader.join(30)
    assert found == [b"Dear all,\n"]
    volume.close()


def test_journals_on_other_devices(tmp_path: pathlib.Path) -> None:
    disk, log = tmp_path / "disk.img", tmp_path / "log.img"
    uuid = jext.mkjournal(log, "8M", label="log")
    with pytest.raises(FileExistsError, match="an ext file system or its journal"):
        jext.mkjournal(log)
    summary = jext.mkfs(disk, "32M", journal=log)
    assert (summary.block_size, summary.journal_blocks, len(uuid)) == (4096, 0, 36)
    with pytest.raises(OSError, match="the journal is on another device"):
        jext.open(disk)
    with jext.open(disk, journal=log) as volume:
        volume.write_bytes("/file", b"x")
        volume.sync()
    with open(log, "r+b") as file, jext.open(disk, journal=file) as volume:
        assert volume.read_bytes("/file") == b"x"
    assert jext.check(disk, journal=log).clean


def test_the_module_needs_no_other(tmp_path: pathlib.Path) -> None:
    line = "import sys, jext, jext.lab; print(sorted(m for m in sys.modules if m.split('.')[0] in "
    line += "('fsspec', 'ray', 'pandas', 'typing_extensions')))"
    said = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "[]"
