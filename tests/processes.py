"""The state of processes that tests start."""

import psutil


def is_running(process: psutil.Process | int) -> bool:
    """Whether a process, or the process of this id, runs; it may end at any moment."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return bool(found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
