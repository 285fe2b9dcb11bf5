"""The file of records: the only state of a run, so that it survives the driver.

Records are appended batch by batch and synced. A driver that dies within an append leaves an
incomplete last line, which the next one removes.
"""

import fcntl
import json
import os
import pathlib

from .jext import JextError
from .worker import build_of


def trials_in(text, contexts=None):
    """Returns the ids of the trials in lines of records, each with its duration in seconds.

    `contexts` maps names of contexts to ids of combinations, and gets those in these lines.
    """
    contexts = {} if contexts is None else contexts
    trials = {}
    for line in text.splitlines():
        fields = json.loads(line)
        if "combination" in fields:
            contexts[fields["context"]] = fields["combination"]
        else:
            kind = "warmup" if fields["is_warmup"] else "repetition"
            combination = contexts[fields["context"]]
            trials[f"{combination} {kind}={fields['repetition']}"] = fields["real_seconds"]
    return trials


class RecordFile:
    """A file of records of one plan and one build, locked while it is open."""

    def __init__(self, path, plan):
        """Opens a file for the records of a plan, and creates it if it is not there."""
        self.path = pathlib.Path(path)
        self.plan = plan
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self._lock = open(f"{self.path}.lock", "wb")
        except OSError as error:
            raise JextError(f"{self.path}: {error.strerror}") from error
        try:
            self._lock_and_read()
        except BaseException:
            self._lock.close()
            raise

    def _lock_and_read(self):
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JextError(f"{self.path}: another jext-ray is writing it") from error
        try:
            self.settle()
        except JextError as error:
            raise JextError(f"{error} of jext lab merge, or another --out") from error
        self.done = set(self._read())

    def settle(self):
        """Merges the file with itself: each trial once, in order, without an incomplete line."""
        if self.path.stat().st_size > 0:
            self.plan.jext.call(["lab", "merge", str(self.path), "--output", str(self.path)])

    def add(self, text):
        """Appends the records of a batch, durably, and returns its trials with their seconds."""
        with open(self.path, "ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        trials = trials_in(text)
        self.done.update(trials)
        return trials

    def _read(self):
        """Checks that the records are of this plan and build, and returns their trials."""
        text = self.path.read_bytes()
        for line in text.splitlines():
            fields = json.loads(line)
            if "plan_hash" not in fields:
                continue
            if fields["plan_hash"] != self.plan.hash:
                found = f"plan {fields['plan']} ({fields['plan_hash']})"
                wanted = f"not of {self.plan.plan} ({self.plan.hash})"
                raise JextError(f"{self.path}: records of {found}, {wanted}: choose another --out")
            build = build_of(fields["program"])
            if build != self.plan.build:
                wanted = f"but {self.plan.jext.path} is build {self.plan.build}"
                raise JextError(
                    f"{self.path}: records of build {build}, {wanted}: choose another --out"
                )
        return trials_in(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Unlocks the file."""
        self._lock.close()
