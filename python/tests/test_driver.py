"""The driver with the real binary and without Ray."""

import argparse
import contextlib
import copy
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from jext_ray import cli, driver
from jext_ray.jext import Jext, JextError, Plan
from jext_ray.records import RecordFile, trials_in
from support import TINY, Quiet, Threads, jext

TRIALS = 30


class DriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tiny = Plan(jext(), TINY, 3)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "records.jsonl"
        self.plan = copy.copy(self.tiny)
        self.progress = Quiet()

    def run_plan(self, change=None, plan=None):
        """Runs the plan on two threads."""
        executor = Threads(2, change)
        with RecordFile(self.out, plan or self.plan) as records, contextlib.closing(executor):
            outcome = driver.run(plan or self.plan, records, executor, self.progress)
            records.settle()
        return outcome, executor.submitted

    def canonical(self, path):
        return self.plan.jext.call(["lab", "canonical", str(path)])

    def single(self):
        """Returns the canonical records of a single process."""
        results = self.folder / "single"
        self.plan.jext.call(["lab", "run", TINY, "--results", str(results)])
        return self.canonical(next(results.glob("*/*.jsonl")))

    def test_records_are_those_of_one_process_though_workers_are_lost(self):
        def change(number, task, work):
            if number in (0, 2):
                return {"kind": "lost", "message": "the node is gone"}
            return work(task)

        outcome, submitted = self.run_plan(change)
        self.assertEqual((outcome.run, outcome.lost), (TRIALS, 2))
        self.assertEqual(len(submitted), outcome.batches + 2)
        self.assertEqual(len(self.progress.notes), 2)
        self.assertIn("lost its worker and runs again: the node is gone", self.progress.notes[0])
        shown = [done for done, _ in self.progress.shown]
        self.assertEqual((shown[0], shown[-1]), (0, TRIALS))
        self.assertGreater(len(set(shown)), 2, "partial results are shown")
        canonical = self.canonical(self.out)
        self.assertEqual(len(canonical.splitlines()), TRIALS)
        self.assertEqual(canonical, self.single())
        again, submitted = self.run_plan()
        self.assertEqual((again.run, again.recorded, submitted), (0, TRIALS, []))

    def test_a_batch_that_is_lost_again_and_again_ends_the_run_and_nothing_else_is_lost(self):
        def change(number, task, work):
            if "1/" in task["shard"][:2]:
                return {"kind": "lost", "message": "gone"}
            return work(task)

        with self.assertRaisesRegex(JextError, "shard 1/3 lost its worker 4 times: gone"):
            self.run_plan(change)
        kept = len(trials_in(self.out.read_bytes()))
        self.assertGreater(kept, 0)
        outcome, _ = self.run_plan()
        self.assertEqual((outcome.recorded, outcome.run), (kept, TRIALS - kept))

    def test_an_incomplete_line_is_removed_and_its_trial_repeated(self):
        self.run_plan()
        text = self.out.read_bytes()
        self.out.write_bytes(text[:-10])
        outcome, _ = self.run_plan()
        self.assertEqual((outcome.recorded, outcome.run), (TRIALS - 1, 1))

    def test_workers_must_have_the_binary_the_build_and_the_plan(self):
        def of(**fields):
            return lambda number, task, work: work({**task, **fields})

        for fields, said in (
            ({"jext": "/nowhere/jext"}, "no program /nowhere/jext on .*: install it there"),
            ({"build": "0123"}, "is build [0-9a-f]{16}, but the driver's jext is build 0123"),
            ({"plan_hash": "0123"}, "runs another plan tiny.toml .*, but the driver's is 0123"),
            ({"plan_text": "[plan]\nnam = 1\n"}, "tiny.toml:1: "),
            ({"plan_text": None, "plan": "nothing"}, "no plan of that name"),
        ):
            with self.assertRaisesRegex(JextError, said):
                self.run_plan(of(**fields))
        self.assertEqual(self.out.read_bytes(), b"")

    def test_a_failed_trial_is_reported_and_the_others_are_kept(self):
        text = pathlib.Path(TINY).read_text(encoding="utf-8")
        # 9,000 files do not fit into one of the two volumes.
        text = text.replace("postmark.number = 20\n", "")
        text = text.replace('fs.data = ["ordered", "journal"]', "postmark.number = [20, 9000]")
        text = text.replace('fs.data = "ordered"', "postmark.number = 20")
        path = self.folder / "full.toml"
        path.write_text(text.replace("repetitions = 15", "repetitions = 2"), encoding="utf-8")
        outcome, _ = self.run_plan(plan=Plan(jext(), str(path)))
        self.assertEqual((outcome.run, len(outcome.failures)), (2, 2))
        self.assertIn("trial failed: ", outcome.failures[0])

    def test_wrong_arguments_are_named(self):
        with self.assertRaisesRegex(JextError, "no program ./nothing on this machine"):
            Jext("./nothing")
        with self.assertRaisesRegex(JextError, "none.toml: No such file"):
            Plan(jext(), "none.toml")
        with self.assertRaisesRegex(JextError, "no plan of that name is built in"):
            Plan(jext(), "nothing")
        with self.assertRaisesRegex(JextError, "mount has trials in real time"):
            Plan(jext(), "mount")
        self.run_plan()
        with self.assertRaisesRegex(JextError, "records of plan tiny .*: choose another --out"):
            RecordFile(self.out, Plan(jext(), "external-journal"))
        with RecordFile(self.out, self.plan):
            with self.assertRaisesRegex(JextError, "another jext-ray is writing it"):
                RecordFile(self.out, self.plan)
        self.plan.build = "0123"
        with self.assertRaisesRegex(JextError, "but .* is build 0123: choose another --out"):
            RecordFile(self.out, self.plan)

    def test_the_command_prints_one_line_and_its_status(self):
        line = ["run", TINY, "--jext", os.environ["JEXT"], "--shards", "2"]
        options = cli.parser().parse_args([*line, "--out", str(self.out)])
        for said in (f"{TRIALS} trials run in ", f"0 trials run, {TRIALS} recorded before"):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                status = cli.run(options, lambda _: Threads(2))
            self.assertEqual(status, 0)
            self.assertTrue(out.getvalue().startswith(said), out.getvalue())

    def test_a_driver_that_dies_loses_nothing_that_was_finished(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            out = self.folder / f"killed by {number}"
            line = [sys.executable, str(pathlib.Path(__file__).with_name("slow.py")), str(out)]
            with subprocess.Popen(line, stderr=subprocess.PIPE) as child:
                while not out.exists() or out.read_bytes().count(b"\n") < 4:
                    time.sleep(0.01)
                child.send_signal(number)
                errors = child.communicate()[1].decode()
            if number == signal.SIGTERM:
                self.assertEqual(child.returncode, cli.INTERRUPTED, errors)
                self.assertRegex(errors, "stopped with [0-9]+ trials to go")
            self.out = out
            outcome, _ = self.run_plan()
            self.assertGreater(outcome.recorded, 0)
            self.assertLess(outcome.recorded, TRIALS)
            self.assertEqual(outcome.recorded + outcome.run, TRIALS)
            self.assertEqual(len(self.canonical(out).splitlines()), TRIALS)


if __name__ == "__main__":
    unittest.main()
