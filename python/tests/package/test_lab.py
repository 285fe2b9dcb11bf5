"""Plans of the laboratory."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time

import pytest

import jext.lab

TINY = pathlib.Path(__file__).parents[1] / "tiny.toml"


def test_a_plan_gives_rows(tmp_path: pathlib.Path) -> None:
    rows = jext.lab.run(TINY, repetitions=3)
    assert len(rows) == 6
    row = rows[0]
    assert (row["plan"], row["repetition"], row["is_warmup"]) == ("tiny", 0, False)
    assert {row["fs.data"] for row in rows} == {"ordered", "journal"}
    assert all(isinstance(row["elapsed"], float) and row["elapsed"] > 0 for row in rows)
    assert len({row["trial"] for row in rows}) == 6
    # The same, from text, with records that are kept and not repeated.
    for _ in range(2):
        again = jext.lab.run(
            TINY.read_text(encoding="utf-8"), repetitions=3, results=tmp_path, jobs=1
        )
        assert again == rows
    assert len(list(tmp_path.glob("tiny/*.jsonl"))) == 1
    half = jext.lab.run(TINY, repetitions=3, shard="1/2")
    rest = jext.lab.run(TINY, repetitions=3, shard="2/2")
    assert sorted(map(str, half + rest)) == sorted(map(str, rows))


def test_wrong_plans_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="jext.lab.plans"):
        jext.lab.run("nothing")
    with pytest.raises(ValueError, match="jext lab run"):
        jext.lab.run("mount")
    with pytest.raises(ValueError, match="plan:1: "):
        jext.lab.run("[plan]\nnam = 1\n")
    with pytest.raises(ValueError, match="shard"):
        jext.lab.run(TINY, shard="3/2")
    with pytest.raises(ValueError, match="repetitions=0"):
        jext.lab.run(TINY, repetitions=0)
    with pytest.raises(FileNotFoundError):
        jext.lab.run(tmp_path / "missing.toml")
    plans = {plan.name: plan for plan in jext.lab.plans()}
    assert plans["external-journal"].is_simulated and not plans["mount"].is_simulated
    assert plans["external-journal"].question


def test_failed_trials_are_an_error_that_keeps_the_others(tmp_path: pathlib.Path) -> None:
    text = TINY.read_text(encoding="utf-8")
    text = text.replace("postmark.number = 20\n", "")
    text = text.replace('fs.data = ["ordered", "journal"]', "postmark.number = [20, 9000]")
    text = text.replace('fs.data = "ordered"', "postmark.number = 20")
    with pytest.raises(jext.lab.TrialError, match="trial failed: ") as raised:
        jext.lab.run(text, repetitions=2)
    assert (len(raised.value.rows), len(raised.value.failures)) == (2, 2)


def test_a_run_is_interrupted_and_resumed(tmp_path: pathlib.Path) -> None:
    def interrupt() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        jext.lab.run("external-journal", results=tmp_path, repetitions=100)
    thread.join()
    assert time.monotonic() - start < 30
    rows = jext.lab.run(TINY, repetitions=1)
    assert len(rows) == 2
