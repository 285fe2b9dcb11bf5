"""`check`, and damage."""

from __future__ import annotations

import errno
import io
import pathlib

import pytest

import jext


@pytest.fixture
def damaged(image: pathlib.Path) -> bytearray:
    """An image whose file and directory can be damaged."""
    with jext.open(image) as volume:
        for number in range(20):
            volume.write_bytes(f"/file{number}", b"x" * 3000)
    return bytearray(image.read_bytes())


def test_a_report_names_problems(damaged: bytearray) -> None:
    at = damaged.index(b"file7")
    damaged[at : at + 5] = b"fi\0/7"
    report = jext.check(io.BytesIO(damaged))
    assert not report.clean
    assert report.errors and set(report.errors) <= set(report.problems)
    text = "\n".join(map(str, report.problems))
    assert "directory" in text or "entry" in text, text
    problem = report.errors[0]
    assert problem.is_error and str(problem.number) in problem.text and problem.name
    assert any(problem.inode == 2 for problem in report.problems)
    assert report.blocks == 32 << 10 and report.used_inodes > 11


def test_damage_is_an_error_of_its_own(damaged: bytearray) -> None:
    at = damaged.index(b"file7")
    damaged[at : at + 5] = b"fi\0/7"
    with jext.open(io.BytesIO(damaged)) as volume:
        with pytest.raises(jext.DamageError) as raised:
            volume.stat("/file7")
        assert isinstance(raised.value, OSError)
        assert raised.value.errno == errno.EBADMSG
        assert raised.value.filename == "/file7"
        assert "checksum" in str(raised.value)


def test_what_is_no_file_system(tmp_path: pathlib.Path) -> None:
    for data in (bytes(1 << 20), b"x" * (1 << 20)):
        with pytest.raises(jext.DamageError, match="no superblock"):
            jext.check(io.BytesIO(data))
        with pytest.raises(jext.DamageError) as raised:
            jext.open(io.BytesIO(data))
        assert raised.value.errno == errno.EUCLEAN
    with pytest.raises(FileNotFoundError):
        jext.check(tmp_path / "missing")
    log = io.BytesIO()
    jext.mkjournal(log, "8M")
    with pytest.raises(OSError, match="external journal"):
        jext.check(log)


def test_random_damage_never_ends_the_program(damaged: bytearray) -> None:
    import random

    rng = random.Random(7)
    for _ in range(12):
        copy = bytearray(damaged)
        for _ in range(50):
            copy[rng.randrange(1024, 400_000)] = rng.randrange(256)
        try:
            jext.check(io.BytesIO(copy))
            with jext.open(io.BytesIO(copy), read_only=True) as volume:
                for directory, _, others in volume.walk("/"):
                    for name in others:
                        try:
                            volume.read_bytes(f"{directory}/{name}")
                        except OSError:
                            pass
        except OSError:
            pass
