"""The executor for Ray. This is the only module that imports it."""

import logging
import socket

import ray

from . import worker

# A local Ray needs little: records are small, and nobody looks at a dashboard.
OBJECT_STORE_BYTES = 100 * 1024 * 1024
# Limit for a first connection; Ray itself tries for minutes.
CONNECT_SECONDS = 10


class RayExecutor:
    """Runs batches as Ray tasks of one processor each."""

    def __init__(self, address, workers=None):
        """Connects to a cluster, or starts a local one for the address "local"."""
        # Workers get the function by value.
        ray.cloudpickle.register_pickle_by_value(worker)
        if address == "local":
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        else:
            _check(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        # Lost batches are repeated by the driver, which counts and reports them.
        self._run = ray.remote(num_cpus=1, max_retries=0)(worker.run_batch)

    def workers(self):
        """Returns the number of processors of the cluster."""
        return int(ray.cluster_resources().get("CPU", 0))

    def submit(self, task):
        """Submits a batch."""
        return self._run.remote(task)

    def wait(self, handles, seconds):
        """Waits for results, and returns those that are there."""
        ready, _ = ray.wait(handles, num_returns=1, timeout=seconds)
        more, _ = ray.wait(handles, num_returns=len(handles), timeout=0)
        return [(handle, self._result(handle)) for handle in dict.fromkeys(ready + more)]

    def _result(self, handle):
        try:
            return ray.get(handle)
        except ray.exceptions.RayTaskError as error:
            last = str(error).strip().splitlines()[-1]
            return {"kind": "error", "message": f"the worker function failed: {last}"}
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()
            return {"kind": "lost", "message": first[0] if first else type(error).__name__}

    def close(self):
        """Disconnects; a local cluster ends."""
        ray.shutdown()


def _check(address):
    """Raises `OSError` if HOST:PORT or ray://HOST:PORT does not answer."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
