"""A process's family, some of which may end at any moment."""

import psutil


def children(pid=None):
    """The processes below ``pid`` (this process by default)."""
    return psutil.Process(pid).children(recursive=True)


def asked(processes, question):
    """[(process, ``question(process)``)] of the processes that have not ended meanwhile: Ray ends idle ones when it likes."""
    answers = []
    for process in processes:
        try:
            answers.append((process, question(process)))
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return answers
