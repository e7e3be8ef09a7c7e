"""torchrun, with an error message of one line, and nothing left running.

When a rank fails, torchrun itself ends the other ranks, prints a traceback of its own and a page about it, and leaves
their DataLoader workers behind, which find out some seconds later.
"""

import logging
import os
import signal
import uuid

from workshop.errors import WorkshopError, first_line
from workshop.notebooks.cell_script import runnable
from workshop.probe.settings import RUN_VARIABLE
from workshop.runs.machine import threads_each
from workshop.runs.process_tree import end, marked


def run(arguments: list[str]) -> tuple[int, str]:
    """Run torchrun with some arguments; return the exit code, as a shell has it, and why it is not 0.

    Raises:
        KeyboardInterrupt: Ctrl-C, or a signal, has ended it.
        WorkshopError: torchrun cannot start it.
    """
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    logging.disable(logging.ERROR)  # of this process, not of the ranks: what it would say is said below
    # It may be recorded itself, and is found by what is noted there.
    mark = os.environ[RUN_VARIABLE] = f"{os.environ.get(RUN_VARIABLE, '')} torchrun {uuid.uuid4()}"
    options = torchrun.parse_args(runnable(arguments))
    if options.nproc_per_node.isdecimal() and int(options.nproc_per_node) > 1:
        os.environ.setdefault("OMP_NUM_THREADS", threads_each(int(options.nproc_per_node)))
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
    except (ValueError, RuntimeError, RendezvousError) as error:  # such as --nproc_per_node=gpu without a GPU
        raise WorkshopError(f"torchrun: {first_line(error)}") from None
    finally:
        end(lambda: marked(mark))
    return 0, ""
