"""Open files, compared with the builtin `open` on a file of the host."""

from __future__ import annotations

import builtins
import io
import pathlib
from typing import IO, Any

import pytest

import jext

MODES = [kind + plus + letter for kind in "rwxa" for plus in ("", "+") for letter in ("", "b", "t")]
WRONG = ["", "q", "rw", "b", "rbt", "r++", "rr", "wa"]


def outcome(work: Any) -> Any:
    """Returns the result of a call, or the type and the number of its error."""
    try:
        return work()
    except (OSError, ValueError) as error:
        kind = io.UnsupportedOperation if isinstance(error, io.UnsupportedOperation) else type(error)
        return kind, getattr(error, "errno", None)


class Pair:
    """A file of the host and one of a volume, which must behave the same."""

    def __init__(self, host: pathlib.Path, volume: jext.Volume) -> None:
        self.host = host / "file"
        self.volume = volume

    def open(self, *arguments: Any, **named: Any) -> list[Any]:
        return [
            outcome(lambda: builtins.open(self.host, *arguments, **named)),
            outcome(lambda: self.volume.open("/file", *arguments, **named)),
        ]

    def fill(self, data: bytes) -> None:
        self.host.write_bytes(data)
        self.volume.write_bytes("/file", data)

    def same(self, *arguments: Any, script: Any = None, **named: Any) -> Any:
        """Opens both, runs a script on both, and compares what it returns and leaves."""
        found = []
        for opened in self.open(*arguments, **named):
            if isinstance(opened, tuple):
                found.append(opened)
                continue
            with opened:
                found.append((outcome(lambda: script(opened)), opened.mode))
            assert opened.closed
            found[-1] += (outcome(opened.read), outcome(opened.tell))
        assert found[0] == found[1], arguments
        assert self.host.exists() == self.volume.exists("/file")
        if self.host.exists():
            assert self.host.read_bytes() == self.volume.read_bytes("/file"), arguments
        return found[0]


@pytest.fixture
def pair(tmp_path: pathlib.Path, volume: jext.Volume) -> Pair:
    return Pair(tmp_path, volume)


def script(file: IO[Any]) -> list[Any]:
    """Does a little of everything."""
    text = "b" not in file.mode
    data: Any = "eins\nzwei\n" if text else b"eins\nzwei\n"
    steps: list[Any] = [
        lambda: file.readable(),
        lambda: file.writable(),
        lambda: file.seekable(),
        lambda: file.tell(),
        lambda: file.write(data),
        lambda: file.tell(),
        lambda: file.seek(0),
        lambda: file.read(3),
        lambda: file.readline(),
        lambda: list(file),
        lambda: file.seek(0, 2),
        lambda: file.write(data),
        lambda: file.flush(),
        lambda: file.seek(4),
        lambda: file.truncate(),
        lambda: file.truncate(20),
        lambda: file.read(),
        lambda: file.isatty(),
    ]
    return [outcome(step) for step in steps]


@pytest.mark.parametrize("mode", MODES + WRONG)
def test_modes_are_those_of_the_builtin_open(pair: Pair, mode: str) -> None:
    pair.same(mode, script=script)
    pair.fill(b"first line\nsecond\n" * 3)
    pair.same(mode, script=script)


@pytest.mark.parametrize("buffering", [0, 1, 2, 7, 100_000])
@pytest.mark.parametrize("mode", ["rb", "r+b", "wb", "ab", "w+b"])
def test_buffers_change_nothing(pair: Pair, mode: str, buffering: int) -> None:
    data = bytes(range(256)) * 1000
    pair.fill(data)

    def work(file: Any) -> list[Any]:
        steps = [
            lambda: file.write(data[:100]),
            lambda: file.seek(1000),
            lambda: file.read(10),
            lambda: file.write(b"x"),
            lambda: file.readinto(bytearray(5000)),
            lambda: file.seek(-3, 2),
            lambda: file.read(),
            lambda: file.seek(-1),
        ]
        return [outcome(step) for step in steps]

    if buffering == 1:
        with pytest.warns(RuntimeWarning):
            builtins.open(pair.host, mode, 1).close()
        return
    pair.fill(data)
    pair.same(mode, buffering, script=work)


def test_text_has_encodings_and_newlines(pair: Pair) -> None:
    pair.fill("größer\r\nnäher\rübrig\n".encode())
    for newline in (None, "", "\n", "\r\n", "\r"):
        pair.same("r", encoding="utf-8", newline=newline, script=lambda file: list(file))
        pair.same("a", encoding="utf-8", newline=newline, script=lambda file: file.write("a\nb"))
    pair.same("r", encoding="ascii", errors="replace", script=lambda file: file.read())
    pair.same("r", encoding="ascii", script=lambda file: file.read())
    pair.same("w", 1, encoding="utf-16", script=lambda file: (file.write("a\nb"), file.line_buffering))
    for wrong in ({"newline": "x"}, {"buffering": 0}):
        host, own = pair.open("r", **wrong)
        assert host == own and host[0] is ValueError, wrong
    for name in ("encoding", "errors", "newline"):
        with pytest.raises(ValueError, match=f"binary mode doesn't take an {name} argument"):
            pair.volume.open("/file", "rb", **{name: "\n"})  # type: ignore[call-overload]


def test_raw_files_are_unbuffered(volume: jext.Volume) -> None:
    with volume.open("/file", "w+b", 0) as file:
        assert isinstance(file, io.RawIOBase)
        assert file.write(b"0123456789") == 10
        assert volume.stat("/file").st_size == 10
        assert file.seek(2) == 2
        target = bytearray(4)
        assert file.readinto(memoryview(target)) == 4
        assert target == b"2345"
        assert file.read(100) == b"6789"
        assert file.read(100) == b""
        assert file.truncate(3) == 3
        assert file.tell() == 10
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
        file.seek(1 << 20)
        file.write(b"end")
        file.sync(data_only=True)
        file.sync()
        assert file.stat().st_size == (1 << 20) + 3
        assert volume.read_bytes("/file")[3:-3] == bytes((1 << 20) - 3)
        assert repr(file) == "<jext.RawFile name='/file' mode='rb+'>"


def test_large_files_come_back(volume: jext.Volume) -> None:
    data = bytes(range(251)) * 20_000
    assert volume.write_bytes("/large", data) == len(data)
    assert volume.read_bytes("/large") == data
    with volume.open("/large", "rb") as file:
        assert file.read(1 << 30) == data
        file.seek(0)
        target = bytearray(len(data) + 10)
        assert file.readinto(target) == len(data)
    assert volume.write_bytes("/large", memoryview(data)[:10]) == 10
    assert volume.write_bytes("/large", bytearray()) == 0
    assert volume.write_text("/large", "größer") == 6
    assert volume.read_text("/large") == "größer"


def test_appends_go_to_the_end(volume: jext.Volume) -> None:
    with volume.open("/log", "ab", 0) as first, volume.open("/log", "ab", 0) as second:
        for number in range(10):
            first.write(b"a%d" % number)
            second.write(b"b%d" % number)
            assert second.tell() == 4 * (number + 1)
    assert volume.read_bytes("/log") == b"".join(b"a%db%d" % (n, n) for n in range(10))


def test_only_regular_files_are_opened(volume: jext.Volume) -> None:
    volume.mkdir("/directory")
    volume.symlink("nowhere", "/dangling")
    for mode in ("r", "w", "a", "r+"):
        with pytest.raises(IsADirectoryError):
            volume.open("/directory", mode)
    with pytest.raises(FileNotFoundError):
        volume.open("/dangling")
    with pytest.raises(FileExistsError):
        volume.open("/dangling", "x")
    with pytest.raises(NotADirectoryError):
        volume.write_bytes("/file", b"")
        volume.open("/file/below")
    with pytest.raises(IsADirectoryError):
        volume.open("/new/", "w")
    with volume.open("/private", "w", permissions=0o600):
        pass
    assert volume.stat("/private").st_mode & 0o777 == 0o600


def test_a_full_volume_is_no_space(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "small.img"
    jext.mkfs(path, "2M", type="ext2")
    with jext.open(path) as volume:
        with pytest.raises(OSError) as raised:
            volume.write_bytes("/large", bytes(4 << 20))
        assert raised.value.errno == 28
        volume.remove("/large")
        volume.write_bytes("/small", b"x")
    assert jext.check(path).clean
