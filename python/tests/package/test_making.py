"""`mkfs` and `build`, judged by e2fsck."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile

import pytest

import jext
from conftest import clean


def test_options_are_those_of_mke2fs(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "disk.img"
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    summary = jext.mkfs(
        path,
        64 << 20,
        label="post",
        uuid=uuid,
        block_size=4096,
        inode_size=512,
        inodes=1024,
        reserved_percent=0,
        features=["^resize_inode", "quota"],
        journal_mib=4,
        root_owner=(1000, 100),
        created=1_000_000_000,
    )
    assert (summary.uuid, summary.block_size, summary.inode_size) == (uuid, 4096, 512)
    assert (summary.inodes, summary.reserved_blocks, summary.journal_blocks) == (1024, 0, 1024)
    assert "quota" in summary.features and "resize_inode" not in summary.features
    with jext.open(path) as volume:
        assert (volume.label, volume.uuid) == ("post", uuid)
        root = volume.stat("/")
        assert (root.st_uid, root.st_gid, root.st_mtime) == (1000, 100, 1_000_000_000)
    clean(path)
    small = jext.mkfs(tmp_path / "small.img", "8MiB", "ext2", features="^dir_index,large_file")
    assert "has_journal" not in small.features and "dir_index" not in small.features
    target = jext.mkfs(tmp_path / "target.img", "16M", target="grub-2.06", usage="small")
    assert "64bit" in target.features and target.block_size == 1024


def test_wrong_options_are_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "disk.img"
    for text, options in (
        ("type='ext5'|type=\"ext5\"", {"type": "ext5"}),
        ("size=\"64X\"", {"size": "64X"}),
        ("uuid=\"1\": expected a UUID", {"uuid": "1"}),
        ("usage=\"desktop\"", {"usage": "desktop"}),
        ("target=\"atari\": expected ", {"target": "atari"}),
        ("target=\"grub-2.06\": it chooses features of ext4", {"target": "grub-2.06", "type": "ext3"}),
        ("features=\"wings\"", {"features": "wings"}),
    ):
        with pytest.raises(ValueError, match=text):
            jext.mkfs(path, **{"size": "64M", **options})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        jext.mkfs(path, "64M", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        jext.mkfs(path, "64M", inodes="many")  # type: ignore[arg-type]
    with pytest.raises(OSError, match="block"):
        jext.mkfs(path, "64M", block_size=3000)
    with pytest.raises(FileNotFoundError):
        jext.mkfs(tmp_path / "missing.img")
    with pytest.raises(ValueError):
        jext.mkfs(io.BytesIO())


def test_used_images_are_not_replaced(tmp_path: pathlib.Path, image: pathlib.Path) -> None:
    with pytest.raises(FileExistsError, match="holds an ext file system") as raised:
        jext.mkfs(image)
    assert raised.value.filename == str(image)
    assert jext.mkfs(image, force=True, label="new").blocks == 32 << 10
    other = tmp_path / "other.img"
    other.write_bytes(b"\0" * 70_000 + b"data" + b"\0" * (8 << 20))
    with pytest.raises(FileExistsError, match="holds data"):
        jext.mkfs(other)
    with pytest.raises(OSError):
        jext.mkfs(other, "64M", force=True)
    empty = tmp_path / "empty.img"
    empty.touch()
    jext.mkfs(empty, "4M")
    assert empty.stat().st_size == 4 << 20
    clean(image)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A tree with all that an image keeps."""
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/motd").write_bytes(b"Dear all,\n")
    (tree / "etc/motd").chmod(0o640)
    os.utime(tree / "etc/motd", ns=(0, 1_234_567_890_123_456_789))
    (tree / "large").write_bytes(os.urandom(300_000))
    os.link(tree / "large", tree / "hard")
    os.symlink("etc/motd", tree / "link")
    os.setxattr(tree / "large", "user.colour", b"red")
    return tree


def test_trees_become_images(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    path = tmp_path / "disk.img"
    summary = jext.build(path, tree, label="built")
    assert (summary.files, summary.data_bytes) == (5, 300_010)
    clean(path)
    with jext.open(path, read_only=True) as volume:
        assert volume.label == "built"
        assert volume.read_bytes("/large") == (tree / "large").read_bytes()
        assert volume.stat("/hard").st_nlink == 2
        assert volume.readlink("/link") == "etc/motd"
        assert volume.getxattr("/large", "user.colour") == b"red"
        found = volume.stat("/link")
        assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o640, 1_234_567_890_123_456_789)
    with pytest.raises(FileExistsError):
        jext.build(path, tree)
    jext.build(path, tree, force=True, type="ext2", size="8M", block_size=1024)
    assert path.stat().st_size == 8 << 20
    clean(path)
    assert path.stat().st_mode & 0o777 == 0o666 & ~(os.umask(os.umask(0o022)))


def test_images_have_the_size_that_is_asked_for(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    path = tmp_path / "disk.img"

    def free_and_all() -> tuple[int, int]:
        clean(path)
        with jext.open(path, read_only=True) as volume:
            return volume.statvfs().f_bavail, path.stat().st_size // volume.statvfs().f_bsize

    jext.build(path, tree)
    default = path.stat().st_size
    summary = jext.build(path, tree, fit=True, force=True)
    assert path.stat().st_size < default
    assert (free_and_all()[0] <= 1, summary.reserved_blocks) == (True, 0)
    fitted = path.read_bytes()
    for free in (0, "0", "0%"):
        jext.build(path, tree, free=free, force=True, reserved_percent=0, uuid=summary.uuid)
        assert path.stat().st_size == len(fitted)
    jext.build(path, tree, free="20%", force=True)
    free_blocks, blocks = free_and_all()
    assert 0 <= free_blocks - blocks / 5 < 3
    jext.build(path, tree, free=4 << 20, force=True)
    assert 0 <= free_and_all()[0] - 1024 < 3
    with pytest.raises(ValueError, match='free="100%": expected a part of the image'):
        jext.build(path, tree, free="100%", force=True)
    with pytest.raises(OSError, match="95% free and 5% reserved blocks leave nothing"):
        jext.build(path, tree, free="95%", force=True)
    with pytest.raises(ValueError, match="slack and fit exclude each other"):
        jext.build(path, tree, slack=10, fit=True, force=True)
    with pytest.raises(ValueError, match="size and free exclude each other"):
        jext.build(path, tree, size="8M", free=0, force=True)
    assert 0 <= free_and_all()[0] - 1024 < 3
    assert sorted(os.listdir(tmp_path)) == ["disk.img", "tree"]


def verified(image: pathlib.Path, hashes: pathlib.Path, verity: jext.Verity | None) -> bool:
    assert verity is not None
    offset = str(verity.hash_offset)
    command = ["veritysetup", "verify", str(image), str(hashes), verity.root_hash]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    ended = subprocess.run(
        [*command, "--hash-offset", offset], env={**os.environ, "PATH": path}, check=False
    )
    return ended.returncode == 0


def test_hash_trees_vouch_for_images(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    path, hashes = tmp_path / "disk.img", tmp_path / "hashes"
    assert jext.build(path, tree).verity is None
    inner = jext.build(path, tree, verity=True, fit=True, force=True)
    assert verified(path, path, inner.verity)
    summary = jext.build(path, tree, verity=hashes, force=True)
    assert verified(path, hashes, summary.verity)
    clean(path)
    before = path.read_bytes(), hashes.read_bytes()
    with pytest.raises(FileExistsError) as raised:
        jext.build(tmp_path / "other.img", tree, verity=hashes)
    assert raised.value.filename == str(hashes)
    with pytest.raises(OSError):
        jext.build(path, tree, verity=hashes, force=True, size="100K")
    with pytest.raises(IsADirectoryError):
        jext.build(path, tree, verity=tree, force=True)
    with pytest.raises(ValueError, match="is the image itself"):
        jext.build(path, tree, verity=path, force=True)
    with pytest.raises(FileNotFoundError):
        jext.build(path, tree, verity=tmp_path / "missing" / "hashes", force=True)
    assert (path.read_bytes(), hashes.read_bytes()) == before
    assert sorted(os.listdir(tmp_path)) == ["disk.img", "hashes", "tree"]


def test_images_are_partitions(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    path = tmp_path / "disk.img"
    summary = jext.build(path, tree, partition="gpt", verity=True, fit=True)
    assert summary.partition is not None
    offset, size = summary.partition.offset, summary.partition.size
    with jext.open(path, read_only=True, offset=offset) as volume:
        assert volume.read_bytes("/large") == (tree / "large").read_bytes()
    part = tmp_path / "part.img"
    part.write_bytes(path.read_bytes()[offset : offset + size])
    assert verified(part, part, summary.verity)
    with pytest.raises(ValueError, match="partition='mbr': expected 'gpt'"):
        jext.build(path, tree, partition="mbr", force=True)  # type: ignore[arg-type]


def test_later_sources_replace_files(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    archive = tmp_path / "more.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in (("etc/motd", b"new"), ("etc/hosts", b"127.0.0.1\n"), ("link", b"file")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    third = tmp_path / "third"
    (third / "etc").mkdir(parents=True)
    (third / "etc/hosts").write_bytes(b"::1\n")
    path = tmp_path / "disk.img"
    jext.build(path, [tree, archive, third])
    clean(path)
    with jext.open(path, read_only=True) as volume:
        assert volume.read_bytes("/etc/motd") == b"new"
        assert volume.read_bytes("/etc/hosts") == b"::1\n"
        assert volume.read_bytes("/link") == b"file" and not volume.is_symlink("/link")
        assert volume.read_bytes("/large") == (tree / "large").read_bytes()


def test_the_same_sources_give_the_same_bytes(
    tmp_path: pathlib.Path, tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.img", tmp_path / "second.img"
    more = tmp_path / "more"
    (more / "etc").mkdir(parents=True)
    (more / "etc/hosts").write_bytes(b"::1\n")
    jext.build(first, [tree, more], created=1_000_000_000)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    jext.build(second, [tree, more])
    assert first.read_bytes() == second.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH=yesterday"):
        jext.build(tmp_path / "third.img", tree)


def test_container_images(tmp_path: pathlib.Path) -> None:
    blobs = tmp_path / "layout/blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": "application/x", "digest": f"sha256:{digest}", "size": len(data)}

    def layer(*files: tuple[str, bytes]) -> dict[str, object]:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            for name, data in files:
                entry = tarfile.TarInfo(name)
                entry.size, entry.uid = len(data), 5
                tar.addfile(entry, io.BytesIO(data))
        return blob(archive.getvalue())

    layers = [layer(("etc/motd", b"old"), ("etc/gone", b"")), layer(("etc/.wh.gone", b""))]
    config = blob(json.dumps({"os": "linux", "architecture": "amd64"}).encode())
    manifest = blob(json.dumps({"config": config, "layers": layers}).encode())
    index = {"schemaVersion": 2, "manifests": [manifest]}
    (tmp_path / "layout/index.json").write_text(json.dumps(index))
    (tmp_path / "layout/oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    path = tmp_path / "disk.img"
    jext.build(path, tmp_path / "layout", platform="linux/amd64", owner_map="u:5:6:1,u:0:0:1")
    clean(path)
    with jext.open(path, read_only=True) as volume:
        assert volume.listdir("/etc") == ["motd"]
        assert volume.stat("/etc/motd").st_uid == 6
    image, layout = tmp_path / "wrong.img", tmp_path / "layout"
    with pytest.raises(OSError):
        jext.build(image, layout, platform="linux/arm64")
    with pytest.raises(OSError):
        jext.build(image, layout, owner_map="u:0:0:1")
    with pytest.raises(OSError):
        jext.build(image, layout, xattrs="")
    (blobs / str(layers[0]["digest"])[7:]).write_bytes(b"damaged")
    with pytest.raises(OSError, match="as its descriptor says"):
        jext.build(tmp_path / "wrong.img", tmp_path / "layout")


def test_only_files_are_replaced(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for out, verity in ((fifo, False), (tmp_path / "disk.img", fifo)):
        with pytest.raises(ValueError, match="no regular file"):
            jext.build(out, tree, verity=verity, force=True)
    assert fifo.is_fifo() and sorted(os.listdir(tmp_path)) == sorted(["fifo", tree.name])
    long = tmp_path / ("n" * 255)
    for _ in range(2):
        jext.build(long, tree, force=True)
    clean(long)


def test_wrong_sources_leave_nothing(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    path = tmp_path / "out" / "disk.img"
    with pytest.raises(FileNotFoundError):
        jext.build(path, tree)
    path.parent.mkdir()
    (tmp_path / "no.tar").write_bytes(b"no archive" * 100)
    for sources, error in (
        (tmp_path / "missing", FileNotFoundError),
        (tmp_path / "no.tar", OSError),
        ([], ValueError),
    ):
        with pytest.raises(error):
            jext.build(path, sources)
    with pytest.raises(OSError):
        jext.build(path, tree, size="100K")
    assert list(path.parent.iterdir()) == []


def test_the_command_sees_the_same(tmp_path: pathlib.Path, tree: pathlib.Path) -> None:
    """An image that Python has made, read by debugfs."""
    path = tmp_path / "disk.img"
    jext.build(path, tree)
    said = subprocess.run(
        ["debugfs", "-R", "cat /etc/motd", str(path)],
        capture_output=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        check=True,
    )
    assert said.stdout == b"Dear all,\n"
