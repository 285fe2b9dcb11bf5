"""The file system of fsspec: its own abstract tests, and chains of URLs."""

from __future__ import annotations

import io
import os
import pathlib
import posixpath
from collections.abc import Iterator
from typing import Any

import fsspec
import fsspec.tests.abstract as abstract
import pytest

import jext
from conftest import clean
from jext.filesystem import ExtFileSystem


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jext.Volume]:
    """The volume of the abstract tests, which is checked after the last of them."""
    path = tmp_path_factory.mktemp("ext") / "disk.img"
    jext.mkfs(path, "16M")
    with jext.open(path) as volume:
        yield volume
    clean(path)


class ExtFixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, shared: jext.Volume) -> Any:
        return fsspec.filesystem("ext4", fo=shared)

    @pytest.fixture
    def fs_path(self) -> str:
        return "/tests"

    @pytest.fixture
    def fs_join(self) -> Any:
        return posixpath.join


class TestCopy(abstract.AbstractCopyTests, ExtFixtures):  # type: ignore[misc]
    pass


class TestGet(abstract.AbstractGetTests, ExtFixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, ExtFixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, ExtFixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, ExtFixtures):  # type: ignore[misc]
    pass


@pytest.fixture
def filled(image: pathlib.Path) -> pathlib.Path:
    with jext.open(image) as volume:
        volume.makedirs("/etc")
        volume.write_bytes("/etc/motd", b"Dear all,\n")
        volume.symlink("etc/motd", "/link")
    return image


@pytest.mark.parametrize("protocol", ["ext4", "ext3", "ext2"])
def test_urls_are_chained(filled: pathlib.Path, protocol: str) -> None:
    with fsspec.open(f"{protocol}://etc/motd::file://{filled}", "rt") as file:
        assert file.read() == "Dear all,\n"
    with fsspec.open(f"{protocol}:///etc/motd::{filled}") as file:
        assert file.read() == b"Dear all,\n"
    clean(filled)


def test_local_images_are_written(filled: pathlib.Path) -> None:
    with fsspec.open(f"ext4://new/file::file://{filled}", "wb") as file:
        file.write(b"new")
    with fsspec.open(f"ext4://new/file::file://{filled}", "ab") as file:
        file.write(b"er")
    clean(filled)
    with jext.open(filled) as volume:
        assert volume.read_bytes("/new/file") == b"newer"
    with pytest.raises(OSError):
        with fsspec.open(f"ext4://x::file://{filled}", "wb", ext4={"read_only": True}):
            pass


def test_images_elsewhere_are_read(filled: pathlib.Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/disk.img", filled.read_bytes())
    with fsspec.open("ext4://etc/motd::memory://disk.img", "rt") as file:
        assert file.read() == "Dear all,\n"
    with pytest.raises(OSError) as raised:
        with fsspec.open("ext4://new::memory://disk.img", "wb"):
            pass
    assert raised.value.errno == 30
    assert memory.cat("/disk.img") == filled.read_bytes()
    fs = fsspec.filesystem("ext4", fo="memory://disk.img", read_only=False)
    fs.pipe("/new", b"new")
    fs.close()
    assert jext.check(io.BytesIO(memory.cat("/disk.img"))).regular_files == 2
    memory.rm("/disk.img")
    fs, path = fsspec.core.url_to_fs(f"ext4://etc::simplecache::file://{filled}")
    assert fs.ls(path, detail=False) == ["/etc/motd"]
    fs.close()


def test_calls_of_a_file_system(filled: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fs = ExtFileSystem(str(filled))
    same = ExtFileSystem(filled)
    assert fs.volume is same.volume
    assert {entry["name"]: entry["type"] for entry in fs.ls("/")} == {
        "/etc": "directory",
        "/link": "file",
        "/lost+found": "directory",
    }
    info = fs.info("link")
    assert (info["size"], info["islink"], info["destination"]) == (10, True, "etc/motd")
    assert fs.find("/etc") == ["/etc/motd"]
    assert fs.glob("/e*/m*") == ["/etc/motd"]
    assert fs.du("/etc") == 10
    assert fs.cat_file("/etc/motd", 5, 8) == b"all"
    fs.mv("/etc/motd", "/moved")
    fs.mv("/moved", "/etc")
    assert fs.cat("/etc/moved") == b"Dear all,\n"
    fs.symlink("/etc/moved", "/second")
    assert fs.islink("/second") and fs.isfile("/second") and not fs.exists("/link")
    assert fs.lexists("/link")
    fs.chmod("/etc/moved", 0o600)
    assert fs.info("/etc/moved")["mode"] & 0o777 == 0o600
    fs.touch("/etc/moved", truncate=False)
    assert fs.size("/etc/moved") == 10 and fs.modified("/etc/moved") >= fs.created("/etc/moved")
    with pytest.raises(ValueError, match="recursive=True"):
        fs.rm("/etc")
    with pytest.raises(FileNotFoundError):
        fs.info("/missing")
    with pytest.raises(FileNotFoundError):
        fs.open("/missing")
    with fs.open("/text", "w") as file:
        file.write("text")
    fs.get("/etc", str(tmp_path / "copy"), recursive=True)
    assert (tmp_path / "copy/moved").read_bytes() == b"Dear all,\n"
    fs.rm("/etc", recursive=True)
    fs.sync()
    with pytest.raises(ValueError, match="name an image"):
        ExtFileSystem()
    del fs, same
    clean(filled)


def test_file_objects_are_images(filled: pathlib.Path) -> None:
    with open(filled, "rb") as file:
        fs = ExtFileSystem(file)
        assert fs.cat("/etc/motd") == b"Dear all,\n"
        assert fs.volume.read_only
        fs.close()
    memory = io.BytesIO(filled.read_bytes())
    fs = ExtFileSystem(memory)
    fs.pipe("/new", b"new")
    fs.close()
    with pytest.raises(ValueError):
        fs.cat("/new")
    assert jext.check(memory).clean
    assert os.path.exists(filled)
