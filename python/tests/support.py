"""Executors without Ray, and the binary that is tested."""

import concurrent.futures
import os
import pathlib

from jext_ray import worker
from jext_ray.jext import Jext

FOLDER = pathlib.Path(__file__).parent
TINY = str(FOLDER / "tiny.toml")


def jext():
    """Returns the binary in the variable JEXT."""
    return Jext(os.environ["JEXT"])


class Quiet:
    """Takes progress, and keeps the notes."""

    def __init__(self):
        self.notes = []
        self.shown = []

    def show(self, outcome, trials, _workers, _running):
        self.shown.append((outcome.recorded + outcome.run, trials))

    def note(self, text):
        self.notes.append(text)

    def end(self):
        pass


class Threads:
    """Runs batches on threads of this process; `change` may replace tasks and results."""

    def __init__(self, count=2, change=None):
        self.count = count
        self.change = change or (lambda number, task, work: work(task))
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        self.submitted = []

    def workers(self):
        return self.count

    def submit(self, task):
        number = len(self.submitted)
        self.submitted.append(task["shard"])
        return self.pool.submit(self.change, number, task, worker.run_batch)

    def wait(self, handles, seconds):
        first = concurrent.futures.FIRST_COMPLETED
        done, _ = concurrent.futures.wait(handles, seconds, return_when=first)
        return [(handle, handle.result()) for handle in done]

    def close(self):
        self.pool.shutdown(cancel_futures=True)
