"""`workshop torchrun`: torchrun, with an end that a person can read, and nothing left running.

torchrun itself ends the other ranks when one fails, prints a traceback of its own and a page about it, and leaves their
DataLoader workers behind, which find out some seconds later.
"""

import logging
import signal

import psutil

from workshop.harness.child import adopt_orphans


def run(arguments: list[str]) -> tuple[int, str]:
    """Run a script on several ranks.

    Args:
        arguments: torchrun's.

    Returns:
        The exit code, as a shell has it, and why it is not 0.

    Raises:
        KeyboardInterrupt: Ctrl-C, or a signal, has ended it.
    """
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.disable(logging.ERROR)  # of this process, not of the ranks: what it would say is said below
    adopt_orphans(True)
    options = torchrun.parse_args(arguments)
    try:
        torchrun.run(options)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        others = "" if options.nproc_per_node == "1" else "; the other ranks have been ended"
        if failure.exitcode < 0:
            name = signal.Signals(-failure.exitcode).name
            return 128 - failure.exitcode, f"rank {rank} was killed by {name}{others}"
        return failure.exitcode, f"rank {rank} ended with exit code {failure.exitcode}{others}"
    except SignalException as error:
        raise KeyboardInterrupt from error
    finally:
        _kill_orphans()
    return 0, ""


def _kill_orphans() -> None:
    left = psutil.Process().children(recursive=True)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=2)
