"""Every storage is followed from its line to its end, and the sums are those of the allocator."""

import atexit
import contextlib
import itertools
import linecache
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from workshop.memory.memory_record import read_memory
from workshop.probe.backward_graph import saved_by_graphs
from workshop.probe.event_file import EventFile
from workshop.probe.internals import is_innermost_mode
from workshop.probe.memory.allocator_events import MAX_OPERATORS, AllocatorEvents
from workshop.probe.memory.memory_notes import TensorKind
from workshop.probe.memory.segment_table import SegmentTable
from workshop.probe.memory.storage_lives import StorageLives
from workshop.probe.memory.tensor_holders import tensors_of_python


def follow() -> StorageLives:
    lives = StorageLives(lambda _: None)
    lives.step = 5
    lives.begin()
    return lives


def line_of(lives: StorageLives, tensor: torch.Tensor) -> str:
    life = lives.find(tensor)
    assert life is not None
    stacks = lives.stacks.take_new()
    _, path, line = stacks[life.stack][-1]
    return linecache.getline(path, line).strip()


def test_a_tensor_is_known_by_its_line_and_gone_with_its_last_reference() -> None:
    lives = follow()
    tensor = torch.zeros(1000)
    view = tensor[:10]
    lives.end()
    life = lives.find(view)
    assert life is not None
    assert (life.size, life.step, life.kind) == (4000, 5, TensorKind.OTHERS)
    assert line_of(lives, view) == "tensor = torch.zeros(1000)"
    del tensor
    assert not life.died_ns, "the view is still there"
    del view
    assert life.died_ns
    assert life.key not in lives.alive


def test_a_segment_that_ends_in_inference_mode_harms_nothing_after_it() -> None:
    lives = follow()
    with torch.inference_mode():
        lives.end()
        inside = torch.zeros(10)
    assert torch.zeros(()) == 0, "a mode that is left inside is back, and is none"
    assert lives.find(inside) is None
    lives.begin()
    tensor = torch.zeros(10)
    lives.end()
    assert lives.find(tensor)
    assert is_innermost_mode(None)


def test_what_a_graph_keeps_is_alive_and_known_as_an_activation() -> None:
    weight = torch.ones(100, requires_grad=True)
    lives = follow()
    inner = weight * 2
    loss = inner.square().sum()
    lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs([loss]))
    life = lives.find(inner)
    assert life is not None
    del inner
    lives.end()
    assert (life.kind, life.died_ns) == (TensorKind.ACTIVATIONS, 0)
    del loss
    assert life.died_ns


def test_a_checkpoint_is_not_computed_again_by_looking_at_its_graph() -> None:
    calls = itertools.count()

    def block(x: torch.Tensor) -> torch.Tensor:
        next(calls)
        return x.sin().cos()

    out = torch.utils.checkpoint.checkpoint(block, torch.ones(10, requires_grad=True), use_reentrant=False)
    saved_by_graphs([out.sum()])
    assert next(calls) == 1


def test_the_rows_add_up_to_what_the_allocator_says_with_what_operators_allocate_inside() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randn(16, 3, 32, 32)
    for _ in range(2):
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
    optimizer.zero_grad()
    lives, allocator = StorageLives(lambda _: None), AllocatorEvents(EventFile(tempfile.gettempdir()))
    lives.mark(TensorKind.PARAMETERS, model.parameters())
    allocator.begin()
    lives.begin()
    begun = time.time_ns()
    loss = model(images).square().mean()
    lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs([loss]))
    loss.backward()
    lives.end()
    events = allocator.end()
    assert events
    table = SegmentTable(lives, events, begun, time.time_ns())
    rows, peak = table.rows_at_peak(), table.peaks["cpu"]
    assert sum(each.bytes for each in rows) == peak.bytes
    before = sum(each.numel() * each.element_size() for each in (*model.parameters(), images))
    of_allocator = max(itertools.accumulate(size for _, size in events))
    assert abs(peak.bytes - before - of_allocator) <= 0.02 * of_allocator
    (device,) = table.devices()
    assert device.allocator_bytes
    assert abs(device.followed_bytes - device.allocator_bytes) <= 0.02 * device.allocator_bytes
    kinds = {each.kind for each in rows}
    assert {TensorKind.PARAMETERS, TensorKind.ACTIVATIONS} <= kinds
    activations = sum(each.bytes for each in rows if each.kind == TensorKind.ACTIVATIONS)
    assert activations >= 16 * 16 * 32 * 32 * 4, "what ReLU keeps"
    scratch = sum(each.bytes for each in rows if each.kind == TensorKind.SCRATCH)
    assert scratch < 0.6 * peak.bytes


def test_what_an_earlier_segment_has_allocated_is_freed_once() -> None:
    """The allocator tells that it is freed, as it was asked when it was allocated."""
    lives, allocator = StorageLives(lambda _: None), AllocatorEvents(EventFile(tempfile.gettempdir()))
    lives.step = 5
    lives.begin()
    allocator.begin()
    held = torch.zeros(1_000_000)
    allocator.end()
    lives.end()
    lives.begin()
    allocator.begin()
    begun = time.time_ns()
    first = torch.zeros(500_000)
    del held
    second = torch.zeros(2_000_000)
    lives.end()
    (device,) = SegmentTable(lives, allocator.end(), begun, time.time_ns()).devices()
    both = first.nbytes + second.nbytes
    assert (device.peak_bytes, device.followed_bytes, device.allocator_bytes) == (both, both, both)


def test_what_has_too_many_operators_is_recorded_once_and_not_counted(tmp_path: Path) -> None:
    allocator, lives = AllocatorEvents(EventFile(str(tmp_path))), follow()
    allocator.begin()
    for _ in range(MAX_OPERATORS + 1):
        torch.zeros(1)
    lives.end()
    assert allocator.end(lives.operations) is None
    assert [look.own_bytes for look in read_memory(tmp_path, [os.getpid()]).probe_looks] == [0]
    allocator.begin()
    assert not torch.autograd._profiler_enabled()


def compared_in_segments(work: Callable[[int], object], number: int = 12) -> list[tuple[int, int | None]]:
    """Return what is followed, and what the allocator says, of each third part of some work."""
    lives, allocator, found = StorageLives(lambda _: None), AllocatorEvents(EventFile(tempfile.gettempdir())), []
    for step in range(number):
        is_recorded = step % 3 == 0
        if is_recorded:
            lives.step = step
            lives.begin()
            allocator.begin()
        begun = time.time_ns()
        work(step)
        if is_recorded:
            lives.end()
            table = SegmentTable(lives, allocator.end(), begun, time.time_ns())
            found += [(each.followed_bytes, each.allocator_bytes) for each in table.devices()]
    return found


def test_batches_of_workers_are_freed_once() -> None:
    """Of shared memory, torch tells that it is freed, also if nobody was told that it was allocated."""
    rows = TensorDataset(torch.randn(20 * 256, 64))
    batches = iter(DataLoader(rows, 256, num_workers=2, multiprocessing_context="fork"))
    held: list[torch.Tensor] = []

    def work(_: int) -> None:
        held[:] = next(batches)
        held[0].exp().sum()

    assert all(followed == said for followed, said in compared_in_segments(work))


def test_what_was_freed_while_nobody_asked_is_not_freed_again_as_what_has_its_address_now() -> None:
    held: list[torch.Tensor] = []

    def work(step: int) -> None:
        held[:] = [torch.zeros(1000 + 7 * step) for _ in range(200)]

    found = compared_in_segments(work, 60)
    assert len(found) == 20
    assert all(followed == said for followed, said in found)


def test_what_was_there_before_is_not_allocated_where_it_is_changed_or_viewed() -> None:
    before, resized = torch.zeros(100_000), torch.empty(0)
    lives = follow()
    before.add_(1)
    view = before[:10]
    resized.resize_(50_000)
    lives.end()
    known, new = lives.find(view), lives.find(resized)
    assert known is not None
    assert new is not None
    assert (known.is_ours, known.stack, known.step) == (False, -1, -1)
    assert new.is_ours


def test_a_tensor_of_another_size_is_there_once() -> None:
    lives, allocator = follow(), AllocatorEvents(EventFile(tempfile.gettempdir()))
    tensor = torch.zeros(1_000_000)
    lives.end()
    lives.begin()
    allocator.begin()
    begun = time.time_ns()
    tensor.resize_(2_000_000)
    later = torch.ones(3_000_000)
    lives.end()
    table = SegmentTable(lives, allocator.end(), begun, time.time_ns())
    assert table.peaks["cpu"].bytes == tensor.nbytes + later.nbytes
    assert sum(each.bytes for each in table.rows_at_peak()) == table.peaks["cpu"].bytes


@pytest.mark.parametrize("thread", ["its own", "another", "between segments"])
def test_a_tensor_that_moves_to_shared_memory_is_there_once(thread: str) -> None:
    lives, allocator = follow(), AllocatorEvents(EventFile(tempfile.gettempdir()))
    tensor = torch.zeros(1_000_000)
    life = lives.find(tensor)
    assert life is not None
    lives.end()
    if thread != "between segments":
        lives.begin()
        allocator.begin()
    begun = time.time_ns()

    def share(tensor: torch.Tensor) -> None:
        tensor.share_memory_()
        lives.moved(life, tensor.untyped_storage())

    if thread == "another":  # as the feeder of a queue does
        with ThreadPoolExecutor() as pool:
            pool.submit(share, tensor).result()
    else:
        share(tensor)
    later = torch.ones(500_000)
    lives.end()
    table = SegmentTable(lives, allocator.end(), begun, time.time_ns())
    (moved,) = [each for each in lives.alive.values() if each.size == tensor.nbytes]
    assert (moved.stack, moved.step, moved.died_ns) == (life.stack, 5, 0)
    at_end = sum(size for _, size in table.peaks["cpu"].changes)
    assert at_end == tensor.nbytes + later.nbytes * (thread != "between segments")
    del tensor
    assert moved.died_ns


def test_a_scope_of_an_earlier_profiler_is_not_left_under_a_later_one() -> None:
    """torch would write to memory that is freed."""
    allocator = AllocatorEvents(EventFile(tempfile.gettempdir()))
    put_back = allocator.scopes.watch()
    try:
        allocator.begin()
        for _ in range(100):
            with torch.profiler.record_function("Optimizer.step"):
                assert allocator.end() is not None
                allocator.begin()
        assert allocator.end() is not None
    finally:
        put_back()


def test_a_replay_without_some_tensors_has_a_lower_peak() -> None:
    lives = follow()
    begun = time.time_ns()
    kept = torch.zeros(1000)
    later = torch.zeros(500)
    lives.end()
    table = SegmentTable(lives, None, begun, time.time_ns())
    removed = table.select("cpu", lambda each: each.size == 2000)
    assert table.peaks["cpu"].bytes == 6000
    assert table.saved_without("cpu", removed) == 2000
    assert kept.numel() + later.numel() == 1500


def test_what_is_free_is_asked_of_the_device_that_has_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"mem_get_info": (7000, 9000), "memory_reserved": 500, "memory_allocated": 300}
    for name, answer in asked.items():
        answers = {"cuda:1": answer}
        monkeypatch.setattr(torch.cuda, name, answers.__getitem__)
    lives = follow()
    begun = time.time_ns()
    tensors = [torch.zeros(1000), torch.zeros(1000)]
    lives.end()
    life = lives.find(tensors[0])
    assert life is not None
    life.device = "cuda:1"
    devices = {each.device: each for each in SegmentTable(lives, None, begun, time.time_ns()).devices()}
    assert {device: each.free_bytes for device, each in devices.items()} == {"cuda:1": 7200, "cpu": 0}


def test_the_inventory_finds_tensors_that_were_never_followed() -> None:
    hidden = [torch.zeros(7)]
    assert any(each is hidden[0] for each in tensors_of_python())


def test_nothing_is_noted_after_the_most_operators() -> None:
    lives = follow()
    lives.most_operations = 1
    tensors = [torch.zeros(10), torch.zeros(10)]
    lives.end()
    assert [lives.find(each) is not None for each in tensors] == [True, False]


def test_a_failed_allocation_is_told_with_all_that_is_there() -> None:
    failures = []
    lives = StorageLives(lambda error: failures.append((str(error), len(lives.alive))))
    lives.begin()
    tensor = torch.zeros(10)
    with contextlib.suppress(RuntimeError):
        torch.empty(1 << 60)
    lives.end()
    assert tensor.numel() == 10
    assert [count for _, count in failures] == [1]


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_tensor_is_followed_by_its_values_and_indices() -> None:
    lives = follow()
    sparse = torch.eye(100).to_sparse()
    rows = sparse.to_sparse_csr()
    product = rows @ torch.ones(100, 3)
    lives.end()
    assert lives.fault is None
    assert lives.find(sparse) is None
    values = lives.find(rows.values())
    assert values is not None
    assert values.size == 400
    assert line_of(lives, rows.values()) == "sparse = torch.eye(100).to_sparse()", "both have the same values"
    assert product.shape == (100, 3)


def test_what_backward_computes_is_of_the_line_of_the_forward_pass() -> None:
    weight = torch.ones(100, 100, requires_grad=True)
    lives = follow()
    inner = weight.exp()
    seen = []
    inner.register_hook(lambda gradient: seen.append(lives.find(gradient)))
    outer = inner.sin()
    outer.sum().backward()
    lives.end()
    life = seen[0]
    assert life is not None
    assert life.kind == TensorKind.BACKWARD
    stacks = lives.stacks.take_new()
    texts = [linecache.getline(*stacks[number][-1][1:]).strip() for number in (life.stack, life.called_from)]
    assert texts == ["outer = inner.sin()", "outer.sum().backward()"]
    assert weight.grad is not None
    lives.mark(TensorKind.GRADIENTS, [weight.grad])
    gradient = lives.find(weight.grad)
    assert gradient is not None
    assert (gradient.kind, gradient.stack) == (TensorKind.GRADIENTS, life.called_from)


def test_what_is_forked_meanwhile_records_nothing() -> None:
    """A worker that began in a recorded step would keep every event of its life in memory."""
    allocator = AllocatorEvents(EventFile(tempfile.gettempdir()))
    allocator.begin()
    allocator.give_up()
    child = os.fork()
    if not child:
        os._exit(int(torch.autograd._profiler_enabled()))
    assert os.waitpid(child, 0)[1] == 0
    assert allocator.end() is None


def test_a_process_does_not_end_while_its_allocator_is_recorded() -> None:
    """It may crash then, after all its work is done."""
    child = os.fork()
    if not child:
        atexit._clear()
        AllocatorEvents(EventFile(tempfile.gettempdir())).begin()
        records = torch.autograd._profiler_enabled()
        atexit._run_exitfuncs()
        os._exit(0 if records and not torch.autograd._profiler_enabled() else 1)
    assert os.waitpid(child, 0)[1] == 0
