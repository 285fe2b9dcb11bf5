"""The function that runs on workers: one batch of shards, from a plan to its records.

Workers get it by value, so that jext-ray need not be installed there. It therefore uses nothing but
the standard library and this file.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

# Exit status of `jext lab run` if trials failed; the others have records.
_SOME_FAILED = 1


def run_batch(task):
    """Runs the shards of a batch, and returns a dict.

    `task` has `jext` (path, or a name in PATH), `plan` (name of a built-in plan, or of a file),
    `plan_text` (the file's text, or None), `shard` ("3-7/100"), `plan_hash` and `build`. The result
    has `kind`:

    - "records": `records` (the record file's bytes), `failures` (a line for each failed trial) and
      `seconds`.
    - "error": `message`, which names the host. Another attempt would fail in the same way.
    """
    host = socket.gethostname()
    jext = shutil.which(task["jext"])
    if jext is None:
        hint = "install it there, or name it with --jext"
        return _error(f"no program {task['jext']} on {host}: {hint}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jext-ray-") as folder:
        folder = pathlib.Path(folder)
        plan = task["plan"]
        if task["plan_text"] is not None:
            (folder / plan).write_text(task["plan_text"], encoding="utf-8")
            plan = os.path.join(".", plan)
        line = [jext, "lab", "run", plan, "--shard", task["shard"], "--jobs", "1"]
        ended = subprocess.run(
            [*line, "--results", "results"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        errors = ended.stderr.decode(errors="replace").splitlines()
        failures = [text for text in errors if "trial failed: " in text]
        if ended.returncode != 0 and (ended.returncode != _SOME_FAILED or not failures):
            last = errors[-1] if errors else f"exit status {ended.returncode}"
            return _error(f"{host}: {last.removeprefix('jext: ')}")
        files = sorted((folder / "results").glob("*/*.jsonl"))
        records = b"".join(path.read_bytes() for path in files)
    wrong = _mismatch(records, task)
    if wrong is not None:
        return _error(f"{jext} on {host} {wrong}")
    seconds = time.monotonic() - started
    return {"kind": "records", "records": records, "failures": failures, "seconds": seconds}


def build_of(program):
    """Returns the identity of a build, as `jext lab trials` does for simulated trials."""
    return program.get("source") or program["fingerprint"]


def _error(message):
    return {"kind": "error", "message": message}


def _mismatch(records, task):
    """Returns the difference between the records' plan or build and the driver's, or None."""
    for line in records.splitlines():
        fields = json.loads(line)
        if "plan_hash" not in fields:
            continue
        build = build_of(fields["program"])
        if build != task["build"]:
            other = f"but the driver's jext is build {task['build']}"
            return f"is build {build}, {other}: install the same on all machines"
        if fields["plan_hash"] != task["plan_hash"]:
            other = f"but the driver's is {task['plan_hash']}"
            return f"runs another plan {task['plan']} ({fields['plan_hash']}), {other}"
    return None
