"""Calls of the binary `jext` on the driver's machine."""

import json
import os
import pathlib
import shutil
import subprocess


class JextError(Exception):
    """An error to print in one line."""


class Plan:
    """A plan, as workers get it, and its trials."""

    def __init__(self, jext, name, shards=None):
        """Reads a plan: a built-in one by its name, or a file.

        Without `shards`, there are as many as trials, up to `SHARDS_MAX`.
        """
        self.jext = jext
        self.argument = name
        is_file = "/" in name or "." in name
        try:
            self.text = pathlib.Path(name).read_text(encoding="utf-8") if is_file else None
        except (OSError, UnicodeDecodeError) as error:
            raise JextError(f"{name}: {getattr(error, 'strerror', error)}") from error
        self.name = os.path.basename(name) if is_file else name
        listed = self._list(1 if shards is None else shards)
        if shards is None:
            shards = max(1, min(len(listed["trials"]), SHARDS_MAX))
            listed = self._list(shards)
        if not listed["is_simulated"]:
            why = "has trials in real time, which disturb each other on shared workers"
            raise JextError(f"{name} {why}: run `jext lab run --shard` on machines of their own")
        self.shards = shards
        self.plan = listed["plan"]
        self.hash = listed["plan_hash"]
        self.build = listed["build"]
        self.trials = {trial["id"]: trial["shard"] for trial in listed["trials"]}

    def _list(self, shards):
        line = ["lab", "trials", self.argument, "--shards", str(shards), "--json"]
        return json.loads(self.jext.call(line))

    def task(self, shard):
        """Returns what a worker needs for the shards in "3-7/100"."""
        return {
            "jext": self.jext.path,
            "plan": self.name,
            "plan_text": self.text,
            "shard": shard,
            "plan_hash": self.hash,
            "build": self.build,
        }


# Default limit of the number of shards: a shard of the largest plans has some hundred trials.
SHARDS_MAX = 4096


class Jext:
    """The binary."""

    def __init__(self, path):
        """Finds the binary: a path, which is the same on all machines, or a name in PATH."""
        self.path = os.path.abspath(path) if "/" in path else path
        if shutil.which(self.path) is None:
            raise JextError(f"no program {path} on this machine: name it with --jext")

    def call(self, arguments):
        """Runs a command and returns its output; raises `JextError` with its last line if it fails."""
        ended = subprocess.run(
            [self.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if ended.returncode != 0:
            lines = ended.stderr.decode(errors="replace").splitlines()
            last = lines[-1] if lines else f"exit status {ended.returncode}"
            raise JextError(last.removeprefix("jext: "))
        return ended.stdout
