"""Which batch a step uses, while another thread loads the next ones."""

import sys
import threading

import torch

from workshop.probe.batch_use import BatchUse


def test_a_thread_loads_ahead() -> None:
    use = BatchUse()
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            use.load([torch.zeros(1)], in_training_thread=False)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(300):
            use.use(torch.ones(1))
            assert not use.is_loaded(torch.ones(1))
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
