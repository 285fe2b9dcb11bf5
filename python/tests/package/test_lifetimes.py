"""Threads, processes, signals, and objects that are used after their end."""

from __future__ import annotations

import gc
import io
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import threading
import time
import warnings
from typing import Any

import pytest

import jext
from conftest import clean


def test_threads_share_a_volume(volume: jext.Volume) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            volume.makedirs(f"/{number}/a/b")
            for count in range(30):
                data = bytes([number]) * (1000 * count)
                path = f"/{number}/a/{count}"
                volume.write_bytes(path, data)
                assert volume.read_bytes(path) == data
                volume.rename(path, f"/{number}/a/b/{count}")
                if count % 10 == 0:
                    volume.sync()
                with volume.open("/shared", "ab", 0) as file:
                    file.write(b"%d\n" % number)
            assert len(volume.listdir(f"/{number}/a/b")) == 30
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert errors == []
    lines = volume.read_bytes("/shared").split()
    assert sorted(lines) == sorted(b"%d" % number for number in range(6) for _ in range(30))


def test_closing_waits_for_calls(image: pathlib.Path) -> None:
    volume = jext.open(image)
    results: list[Any] = []

    def work() -> None:
        try:
            for number in range(10_000):
                volume.write_bytes(f"/{number}", b"x" * 100)
        except ValueError as error:
            results.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    volume.close()
    for thread in threads:
        thread.join(60)
    assert set(results) <= {"the volume is closed", "I/O operation on closed file"}
    assert len(results) == 4
    clean(image)


def test_a_file_that_another_thread_closes_is_closed(image: pathlib.Path) -> None:
    with jext.open(image) as volume:
        file = volume.open("/file", "wb", buffering=0)
        # The other thread comes between the check of this one and its call.
        file._file.close()
        with pytest.raises(ValueError, match="closed file"):
            file.write(b"x")
        file.close()
    clean(image)


def test_closed_objects_are_refused(image: pathlib.Path) -> None:
    volume = jext.open(image)
    volume.write_bytes("/file", b"x")
    file = volume.open("/file", "r+b", 0)
    entries = list(volume.scandir("/"))
    volume.close()
    volume.close()
    assert volume.closed and "closed" in repr(volume)
    assert file.closed
    for call in (
        lambda: volume.stat("/file"),
        lambda: volume.open("/file"),
        lambda: volume.listdir(),
        lambda: volume.sync(),
        lambda: volume.read_only,
        lambda: volume.statvfs(),
        lambda: entries[0].stat(),
        lambda: file.read(),
        lambda: file.write(b""),
        lambda: volume.__enter__(),
    ):
        with pytest.raises(ValueError):
            call()
    file.close()
    clean(image)


def test_files_are_flushed_before_the_volume_closes(image: pathlib.Path) -> None:
    with jext.open(image) as volume:
        text = volume.open("/text", "w")
        text.write("buffered")
        binary = volume.open("/binary", "wb")
        binary.write(b"buffered")
    assert text.closed and binary.closed
    with jext.open(image, read_only=True) as volume:
        assert volume.read_bytes("/text") == volume.read_bytes("/binary") == b"buffered"
    clean(image)


def test_forgotten_volumes_are_closed_with_a_warning(image: pathlib.Path) -> None:
    volume: jext.Volume | None = jext.open(image)
    assert volume is not None
    volume.write_bytes("/file", b"x")
    file: io.BufferedReader | None = volume.open("/file", "rb")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        volume = None
        gc.collect()
        assert [str(one.message) for one in caught] == []
        # A file keeps its volume.
        assert file is not None and file.read() == b"x"
        file.close()
        file = None
        gc.collect()
    assert [str(one.message) for one in caught] == [f"unclosed volume {str(image)!r}"]
    clean(image)


def test_a_program_that_ends_loses_nothing(image: pathlib.Path) -> None:
    lines = (
        "import sys, jext\n"
        "volume = jext.open(sys.argv[1])\n"
        "file = volume.open('/file', 'w')\n"
        "file.write('buffered')\n"
    )
    for more in ("", "sys.exit(3)\n", "raise RuntimeError\n"):
        subprocess.run([sys.executable, "-c", lines + more, str(image)], capture_output=True)
        clean(image)
        with jext.open(image) as volume:
            assert volume.read_bytes("/file") == b"buffered", more
            volume.remove("/file")


def test_a_forked_process_is_refused(image: pathlib.Path) -> None:
    volume = jext.open(image)
    volume.write_bytes("/file", b"x")
    file = volume.open("/file", "rb", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            refused = 0
            for call in (lambda: volume.stat("/file"), lambda: volume.sync(), lambda: file.read(1)):
                try:
                    call()
                except RuntimeError as error:
                    refused += "belongs to process" in str(error)
            assert volume.closed
            volume.close()
            del file, volume
            gc.collect()
            status = 0 if refused == 3 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert file.read() == b"x"
    volume.write_bytes("/second", b"y")
    volume.close()
    clean(image)


class Slow(io.BytesIO):
    """Takes its time, and counts."""

    calls = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.calls += 1
        time.sleep(0.02)
        return super().read(size)

    def write(self, data: Any, /) -> int:
        self.calls += 1
        time.sleep(0.02)
        return super().write(data)


def interrupted(work: Any) -> float:
    """Interrupts a call after 0.3 s. Returns the seconds that it went on."""

    def interrupt() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        work()
        raise AssertionError("the call ended before it was interrupted")
    thread.join()
    return time.monotonic() - start - 0.3


def test_long_calls_are_interrupted(tmp_path: pathlib.Path, image: pathlib.Path) -> None:
    memory = Slow(image.read_bytes())
    calls = memory.calls
    assert interrupted(lambda: [jext.check(memory) for _ in range(1000)]) < 5
    assert memory.calls > calls
    assert interrupted(lambda: [jext.mkfs(memory, force=True) for _ in range(1000)]) < 5
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(2000):
        (tree / str(number)).write_bytes(bytes(20_000))

    def build() -> None:
        for number in range(1000):
            jext.build(tmp_path / f"{number}.img", tree)
            (tmp_path / f"{number}.img").unlink()

    assert interrupted(build) < 5
    assert [path.name for path in tmp_path.glob(".*img*")] == [], "nothing is left"

    # What comes before and after the copy of the data: digests, and hashes.
    archive = tmp_path / "large.tar"
    entry = tarfile.TarInfo("large")
    entry.size = 1 << 37
    archive.write_bytes(entry.tobuf(tarfile.GNU_FORMAT))
    os.truncate(archive, 512 + entry.size + 1024)
    out = tmp_path / "out.img"
    assert interrupted(lambda: jext.build(out, archive, created=0)) < 5
    assert interrupted(lambda: jext.build(out, tree, size="256G", verity=True)) < 5
    assert [path.name for path in tmp_path.glob("*out.img*")] == []

    def write() -> None:
        with jext.open(image) as volume:
            while True:
                volume.write_bytes("/large", bytes(8 << 20))

    assert interrupted(write) < 10
    clean(image)
