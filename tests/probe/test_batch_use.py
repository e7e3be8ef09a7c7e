"""Which batch a step uses, while another thread loads the next ones."""

import sys
import threading

import torch

from workshop.probe.batch_use import BatchUse


def test_a_batch_that_is_joined_with_another_is_of_its_step() -> None:
    """It came in this step, and no other is like it; the one that a loop loads ahead is like the one it uses."""
    use = BatchUse()
    for source, batch in (1, [torch.ones(4, 3)]), (2, [torch.ones(2, 3), torch.zeros(2)]):
        use.load(batch, in_training_thread=True, source=source)
        use.kept.append(batch)
    use.use(use.last[1])
    assert [len(each) for each in use.recorded()[0]] == [1, 2]
    assert not use.varies
    assert [len(use.last_of[source]) for source in (1, 2)] == [1, 2]
    use.next_step()
    assert use.is_plain
    assert use.kept == []
    use.load([torch.ones(4, 3)], in_training_thread=True, source=1)
    current = use.last
    use.load([torch.zeros(4, 3)], in_training_thread=True, source=1)
    use.use(current[0])
    [[(_, value)]], _ = use.recorded()
    assert torch.equal(value, current[0])


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
