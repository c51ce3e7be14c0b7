"""Processes that a test looks at while they come and go."""

import psutil


def is_running(process: psutil.Process | int) -> bool:
    """Whether it has not ended, also if it ends at this moment; a number is its id."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return bool(found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
