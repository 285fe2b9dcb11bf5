"""Names, links, attributes, and the errors of calls by path."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import time

import pytest

import jext


def test_directories_are_made_listed_and_removed(volume: jext.Volume) -> None:
    volume.makedirs("/a/b/c")
    volume.makedirs("a/b/c", exist_ok=True)
    volume.makedirs("/", exist_ok=True)
    for path in ("/a/b/c", "a/b/", "/"):
        with pytest.raises(FileExistsError):
            volume.makedirs(path)
    volume.mkdir("/a/d", 0o700)
    volume.write_bytes("/a/file", b"x")
    volume.symlink("b", "/a/link")
    assert sorted(volume.listdir("/a")) == ["b", "d", "file", "link"]
    assert sorted(volume.listdir(b"/a")) == [b"b", b"d", b"file", b"link"]
    assert sorted(volume.listdir()) == ["a", "lost+found"]
    assert volume.stat("/a/d").st_mode == stat.S_IFDIR | 0o700
    assert volume.stat("/a").st_mode == stat.S_IFDIR | 0o755
    found = {entry.name: entry for entry in volume.scandir("/a")}
    assert found["b"].is_dir() and not found["b"].is_file() and not found["b"].is_symlink()
    assert found["file"].is_file() and found["file"].stat().st_size == 1
    assert found["link"].is_symlink() and found["link"].is_dir()
    assert not found["link"].is_dir(follow_symlinks=False)
    assert found["file"].inode() == volume.stat("/a/file").st_ino
    assert os.fspath(found["file"]) == found["file"].path == "/a/file"
    assert [entry.path for entry in volume.scandir(b"a/b")] == [b"a/b/c"]
    walked = [(top, sorted(inner), sorted(others)) for top, inner, others in volume.walk("/a")]
    assert sorted(walked) == [
        ("/a", ["b", "d"], ["file", "link"]),
        ("/a/b", ["c"], []),
        ("/a/b/c", [], []),
        ("/a/d", [], []),
    ]
    assert walked.index(("/a/b", ["c"], [])) + 1 == walked.index(("/a/b/c", [], []))
    with pytest.raises(OSError) as raised:
        volume.rmdir("/a")
    assert raised.value.errno == errno.ENOTEMPTY
    with pytest.raises(NotADirectoryError):
        volume.rmtree("/a/link")
    volume.rmtree("/a")
    assert volume.listdir("/") == ["lost+found"]


def test_names_are_bytes(volume: jext.Volume) -> None:
    odd = b"caf\xe9 \xff"
    volume.write_bytes(b"/" + odd, b"x")
    text = odd.decode("utf-8", "surrogateescape")
    assert text in volume.listdir("/")
    assert odd in volume.listdir(b"/")
    assert volume.read_bytes("/" + text) == b"x"
    assert volume.read_bytes(pathlib.PurePosixPath("/") / text) == b"x"
    volume.symlink(text, "/link")
    assert volume.readlink("/link") == text
    assert volume.readlink(b"/link") == odd
    assert volume.read_bytes("/link") == b"x"
    volume.write_bytes("/größer", b"y")
    assert volume.read_bytes("/größer".encode()) == b"y"
    with pytest.raises(ValueError, match="embedded null byte"):
        volume.stat("/a\0b")
    for wrong in (3, None, ["/a"]):
        with pytest.raises(TypeError):
            volume.stat(wrong)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        volume.stat("")


def test_errors_name_their_paths(volume: jext.Volume) -> None:
    volume.write_bytes("/file", b"")
    with pytest.raises(FileNotFoundError) as missing:
        volume.stat("/missing")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, "/missing")
    assert str(missing.value).endswith("no such file or directory: '/missing'")
    with pytest.raises(FileNotFoundError) as missing:
        volume.remove(pathlib.PurePosixPath("/missing"))
    assert missing.value.filename == "/missing"
    with pytest.raises(FileNotFoundError) as missing:
        volume.rename(b"/missing", b"/other")
    assert (missing.value.filename, missing.value.filename2) == (b"/missing", b"/other")
    with pytest.raises(FileExistsError) as present:
        volume.link("/file", "/lost+found")
    assert (present.value.filename, present.value.filename2) == ("/file", "/lost+found")
    with pytest.raises(NotADirectoryError):
        volume.stat("/file/below")
    with pytest.raises(IsADirectoryError):
        volume.remove("/lost+found")
    with pytest.raises(IsADirectoryError):
        volume.link("/lost+found", "/hard")
    with pytest.raises(OSError) as raised:
        volume.mkdir("/" + "x" * 256)
    assert raised.value.errno == errno.ENAMETOOLONG
    volume.symlink("loop", "/loop")
    with pytest.raises(OSError) as raised:
        volume.stat("/loop")
    assert raised.value.errno == errno.ELOOP
    with pytest.raises(OSError) as raised:
        volume.readlink("/file")
    assert raised.value.errno == errno.EINVAL
    assert not volume.exists("/file/below")
    assert volume.exists("/loop", follow_symlinks=False)


def test_renames_and_links(volume: jext.Volume) -> None:
    volume.write_bytes("/a", b"a")
    volume.write_bytes("/b", b"b")
    volume.replace("/a", "/b")
    assert volume.read_bytes("/b") == b"a"
    volume.link("/b", "/c")
    assert volume.stat("/c").st_nlink == 2
    assert volume.stat("/c").st_ino == volume.stat("/b").st_ino
    volume.mkdir("/d")
    volume.rename("/c", "/d/c")
    with pytest.raises(IsADirectoryError):
        volume.rename("/b", "/d")
    with pytest.raises(OSError):
        volume.rename("/d", "/d/below")
    volume.symlink("/b", "/d/link")
    volume.link("/d/link", "/second")
    assert volume.is_symlink("/second")
    assert volume.lstat("/second").st_mode == stat.S_IFLNK | 0o777
    volume.unlink("/d/link")


def test_attributes(volume: jext.Volume, image: pathlib.Path) -> None:
    before = time.time()
    volume.write_bytes("/file", b"x" * 5000)
    found = volume.stat("/file")
    assert (found.st_size, found.st_nlink, found.st_uid, found.st_gid) == (5000, 1, 0, 0)
    assert found.st_mode == stat.S_IFREG | 0o644
    assert found.st_blksize == volume.block_size
    assert found.st_birthtime is not None and abs(found.st_birthtime - before) < 60
    assert abs(found.st_mtime_ns / 1e9 - found.st_mtime) < 1e-6
    volume.chmod("/file", 0o4711)
    volume.chown("/file", 1000, 100)
    volume.chown("/file", -1, 2000)
    volume.utime("/file", ns=(1_234_567_890, -5_000_000_001))
    volume.truncate("/file", 3)
    volume.utime("/file", ns=(1_234_567_890, -5_000_000_001))
    found = volume.stat("/file")
    assert (found.st_mode & 0o7777, found.st_uid, found.st_gid) == (0o4711, 1000, 2000)
    assert (found.st_atime_ns, found.st_mtime_ns, found.st_size) == (
        1_234_567_890,
        -5_000_000_001,
        3,
    )
    volume.utime("/file", (1.5, 2.25))
    assert volume.stat("/file").st_mtime_ns == 2_250_000_000
    volume.utime("/file")
    assert abs(volume.stat("/file").st_mtime - time.time()) < 60
    with pytest.raises(ValueError):
        volume.utime("/file", (1, 1), ns=(1, 1))
    with pytest.raises(IsADirectoryError):
        volume.truncate("/lost+found", 0)
    with pytest.raises(OSError):
        volume.truncate("/file", -1)
    volume.symlink("file", "/link")
    volume.utime("/link", ns=(0, 0), follow_symlinks=False)
    assert volume.lstat("/link").st_mtime_ns == 0
    assert volume.stat("/link").st_mtime_ns != 0


def test_extended_attributes(volume: jext.Volume) -> None:
    volume.write_bytes("/file", b"")
    volume.setxattr("/file", "user.colour", b"red\0")
    volume.setxattr("/file", b"user.empty", b"")
    assert volume.getxattr("/file", "user.colour") == b"red\0"
    assert sorted(volume.listxattr("/file")) == ["user.colour", "user.empty"]
    with pytest.raises(FileExistsError):
        volume.setxattr("/file", "user.colour", b"blue", os.XATTR_CREATE)
    with pytest.raises(OSError) as raised:
        volume.setxattr("/file", "user.new", b"", os.XATTR_REPLACE)
    assert raised.value.errno == errno.ENODATA
    volume.removexattr("/file", "user.empty")
    with pytest.raises(OSError) as raised:
        volume.getxattr("/file", "user.empty")
    assert raised.value.errno == errno.ENODATA
    with pytest.raises(ValueError):
        volume.setxattr("/file", "user.colour", b"", 7)


def test_owners_of_new_files(image: pathlib.Path) -> None:
    with jext.open(image, uid=1000, gid=100, umask=0o077) as volume:
        volume.write_bytes("/file", b"")
        volume.mkdir("/directory")
        volume.symlink("file", "/link")
        for name in ("file", "directory", "link"):
            found = volume.lstat(name)
            assert (found.st_uid, found.st_gid) == (1000, 100)
        assert volume.stat("/file").st_mode & 0o777 == 0o600
        assert volume.stat("/directory").st_mode & 0o777 == 0o700


def test_space_and_superblock(volume: jext.Volume, image: pathlib.Path) -> None:
    before = volume.statvfs()
    volume.write_bytes("/file", bytes(1 << 20))
    volume.sync()
    after = volume.statvfs()
    assert before.f_bfree - after.f_bfree >= (1 << 20) // after.f_frsize
    assert before.f_ffree - after.f_ffree == 1
    assert (after.f_flag, after.f_namemax) == (0, 255)
    assert "extent" in volume.features and len(volume.uuid) == 36
    assert (volume.label, volume.read_only, volume.has_errors) == ("", False, False)
    volume.remove("/file")
    volume.sync()
    assert volume.trim() > 0
