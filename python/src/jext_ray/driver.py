"""The run of a plan: sends batches to workers, adds their records to the file, repeats lost ones."""

import sys
import time

from .batches import Batches
from .jext import JextError

# Number of times that a batch may be lost with its worker, before the run ends.
LOSSES_MAX = 3
# Seconds to wait for a result before the number of workers is asked for again.
WAIT_SECONDS = 1.0
# Batches that wait at each worker beside the one that runs, so that none is idle.
WAITING = 1


class Outcome:
    """The counts of a run."""

    def __init__(self, recorded):
        self.recorded = recorded
        self.run = 0
        self.batches = 0
        self.lost = 0
        self.failures = []
        self.seconds = []


def run(plan, records, executor, progress):
    """Runs the open trials of a plan and returns an `Outcome`.

    An executor has `workers()`, the number of batches that run at once; `submit(task)`, which
    returns a handle; and `wait(handles, seconds)`, which returns pairs of a handle and a result: the
    dict of `worker.run_batch`, or one of kind "lost" with a message if the worker is gone. Raises
    `JextError` if the run cannot go on; what has been finished is in the file.
    """
    trials = plan.trials
    outcome = Outcome(sum(trial in records.done for trial in trials))
    batches = Batches(trials, records.done, plan.shards)
    running = {}
    workers = executor.workers()
    progress.show(outcome, len(trials), workers, len(running))
    while True:
        while len(running) < max(workers, 1) * (1 + WAITING):
            batch = batches.next(workers)
            if batch is None:
                break
            running[executor.submit(plan.task(batch.shard))] = batch
        if not running:
            return outcome
        error = None
        for handle, result in executor.wait(list(running), WAIT_SECONDS):
            try:
                _take(running.pop(handle), result, batches, records, outcome, progress)
            except JextError as found:
                # The other results of this round are kept first.
                error = error or found
        if error is not None:
            raise error
        workers = executor.workers()
        progress.show(outcome, len(trials), workers, len(running))


def _take(batch, result, batches, records, outcome, progress):
    """Takes the result of a batch."""
    if result["kind"] == "lost":
        outcome.lost += 1
        if batch.losses >= LOSSES_MAX:
            times = f"{batch.losses + 1} times"
            raise JextError(f"shard {batch.shard} lost its worker {times}: {result['message']}")
        progress.note(f"shard {batch.shard} lost its worker and runs again: {result['message']}")
        batches.lost(batch)
        return
    if result["kind"] == "error":
        raise JextError(result["message"])
    before = len(records.done)
    trials = records.add(result["records"])
    outcome.batches += 1
    outcome.run += len(records.done) - before
    outcome.seconds.append(result["seconds"])
    outcome.failures.extend(result["failures"])
    # Without the time that starting the program takes, which would make batches too short.
    batches.measured(len(trials), sum(trials.values()))
    for failure in result["failures"]:
        progress.note(failure.removeprefix("jext: "))
    missing = sum(trial not in records.done for trial in batch.trials)
    if missing > len(result["failures"]):
        raise JextError(f"shard {batch.shard}: {missing} of {len(batch.trials)} records are missing")


class Progress:
    """A line on standard error: rewritten on a terminal, a new one now and then elsewhere."""

    LINE_SECONDS = 10.0

    def __init__(self, out=sys.stderr):
        self.out = out
        self.is_terminal = out.isatty()
        self.started = time.monotonic()
        self.shown = None

    def show(self, outcome, trials, workers, running):
        """Shows the state of the run."""
        now = time.monotonic()
        is_last = running == 0 and outcome.batches > 0
        is_due = self.shown is None or now - self.shown >= self.LINE_SECONDS
        if not (self.is_terminal or is_due or is_last):
            return
        self.shown = now
        done = outcome.recorded + outcome.run
        lost = f", {outcome.lost} lost" if outcome.lost else ""
        text = (
            f"{done}/{trials} trials, {outcome.batches} batches{lost}, {workers} workers, "
            f"{now - self.started:.0f} s"
        )
        if self.is_terminal:
            self.out.write(f"\r{text}\x1b[K")
        else:
            self.out.write(f"{text}\n")
        self.out.flush()

    def note(self, text):
        """Prints a line of its own."""
        start = "\r\x1b[K" if self.is_terminal else ""
        self.out.write(f"{start}jext-ray: {text}\n")
        self.out.flush()

    def end(self):
        """Ends the line."""
        if self.is_terminal:
            self.out.write("\n")
