"""Each cause is found in a record that shows it, and not in one that does not."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_memory import MIB, STACK, TRAINER, look, made_memory, report, row, segment

from workshop.memory.host_watch import HostLook
from workshop.memory.memory_causes import (
    held_tensors,
    in_workers,
    memory_causes,
    memory_findings,
    number_types,
    python_containers,
)
from workshop.memory.memory_findings import MemoryFinding
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.memory.memory_notes import (
    AttributeObjects,
    HeldObject,
    HeldObjects,
    LowerPeak,
    MemorySegment,
    MemoryTrial,
    OldGraph,
    TouchedAttribute,
    WorkerContainers,
)
from workshop.probe.observations import LoaderIterated


def found(*looks: HostLook, **fields: Any) -> list[MemoryFinding]:
    """What is found in a record with such fields, which has all that its words name."""
    findings = memory_findings(made_memory(*looks, **fields))
    assert all(each.words and each.basis for each in findings)
    return findings


def lower(cause: str, mib: int, stack: int = 0) -> tuple[LowerPeak, ...]:
    """By how much the peak of a segment would be lower."""
    return (LowerPeak(cause, "cpu", mib * MIB, stack),)


def test_the_documents_have_every_cause() -> None:
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
    section = text.split("### The causes of memory")[1].split("###")[0]
    named = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)
    assert sorted(named) == sorted({each.name for each in memory_causes()})


# Tensors


def test_what_is_kept_until_the_epoch_is_over() -> None:
    steps = []
    for number, kept in enumerate([0, 1, 2, 3, 4, 0, 1, 2, 3, 4]):
        size = kept * MIB
        older = row("others", kept, older=(size, size, kept)) if kept else None
        older = older and replace(older, holder="pairs[...]", holder_stack=STACK, holder_steps=kept)
        steps.append(segment(3 * number, *filter(None, [older]), recorded_steps=number + 1, epoch=number // 5))
    [finding] = found(segments=steps)
    assert (finding.cause, finding.holder, finding.gain_bytes) == ("epoch-kept", "pairs[...]", 4 * MIB)


def test_gradients_of_the_step_before() -> None:
    step = segment(9, row("gradients", 20), freed=lower("gradients-kept", 20, -1))
    [finding] = found(segments=[segment(2, peak=90), step])
    assert (finding.cause, finding.gain_bytes, finding.line) == ("gradients-kept", 20 * MIB, 12)
    assert finding.share == 0.2
    validation = segment(9, name="validation", peak=95)
    [finding] = found(segments=[step, validation])
    assert finding.gain_bytes == 5 * MIB, "then the peak is in the validation"


def test_what_is_kept_into_the_next_step_is_seen_in_the_second_of_two() -> None:
    """Other steps have a higher peak, and the step before them was not recorded."""
    freed = lower("kept-into-next-step", 30)
    [finding] = found(segments=[segment(2), segment(3, freed=freed), segment(9, peak=150), segment(20, freed=freed)])
    assert (finding.cause, finding.gain_bytes, finding.line) == ("kept-into-next-step", 30 * MIB, 12)
    assert found(segments=[segment(2), segment(9, peak=150)]) == []


def test_tensors_of_double_precision() -> None:
    parameters, batch = row("parameters", 10), row("batches", 40, "float64")
    [finding] = found(segments=[segment(5, parameters, batch)])
    assert (finding.kind, finding.gain_bytes) == (number_types.WIDE_TENSORS, 20 * MIB)
    [finding] = found(segments=[segment(5, replace(parameters, dtype="float64"), batch)])
    assert (finding.kind, finding.gain_bytes) == (number_types.WIDE_MODEL, 25 * MIB)
    assert found(segments=[segment(5, parameters, row("batches", 40))]) == []


def trial(**fields: Any) -> MemoryTrial:
    as_tried = {"as_it_is_bytes": 80 * MIB, "changed_bytes": 30 * MIB, "as_it_is_s": 1.0, "changed_s": 1.3}
    return MemoryTrial(0.0, 7, 1, **as_tried | {"device": "cpu"} | fields)


def test_checkpointing_that_was_tried() -> None:
    [finding] = found(segments=[segment(5)], checkpoints=trial(about="Net"))
    assert (finding.cause, finding.gain_bytes, finding.share) == ("checkpointing", 50 * MIB, 0.5)
    assert finding.words.startswith("Tried on a copy of Net: with torch.utils.checkpoint around each of its blocks, ")
    assert "A forward and backward pass then took 1.30 times as long." in finding.words
    for useless in (None, trial(changed_bytes=90 * MIB), trial(device="cuda:0")):
        assert found(segments=[segment(5)], checkpoints=useless) == []


# Containers


def container(length: int, step: int, kind: str = "list", **about: Any) -> HeldObjects:
    """A look at a container of so many entries."""
    held = HeldObject("log.entries", STACK, kind, length, length * MIB // 100, **about)
    return HeldObjects(0.0, TRAINER, 1, step, (held,))


def growing_with(*held: HeldObjects, mib_a_s: int = 10, **fields: Any) -> list[MemoryFinding]:
    """What is found if the process grows by so much a second, in steps of 0.1 s."""
    looks = [look(float(each), p7=300 + mib_a_s * each) for each in range(20)]
    reports = tuple(report(float(each)) for each in range(20))
    return found(*looks, reports=reports, held=list(held), **fields)


def test_a_container_that_grows_with_the_process() -> None:
    [finding] = growing_with(container(1000, 10), container(9000, 90))
    assert (finding.cause, finding.holder, finding.gain_bytes) == ("objects-kept", "log.entries", 90 * MIB)
    assert finding.bytes_a_step == pytest.approx(MIB)
    assert finding.words.startswith("log.entries, a list, grows by 100.0 entries a step, and has 9000. Keep only what")
    assert finding.basis.endswith("; the process was seen to grow")
    for kind, told in (("Queue", python_containers.QUEUE_GROWS), ("deque", python_containers.DEQUE_GROWS)):
        [finding] = growing_with(container(1000, 10, kind), container(9000, 90, kind))
        assert finding.kind is told


def test_a_cache_without_a_limit_that_never_has_the_answer() -> None:
    """The process need not be seen to grow: allocators have reserves."""

    def asked(answered: int = 0) -> list[HeldObjects]:
        return [container(100 * at, at, "lru_cache", asked=100 * at, answered=answered * at) for at in (10, 90)]

    second = {"mib_a_s": 0, "segments": [segment(90, epoch=2)]}
    [finding] = growing_with(*asked(), **second)
    assert (finding.kind, finding.line) == (python_containers.CACHE_GROWS, STACK[0][2])
    assert (finding.figures["asked"], finding.figures["answered"]) == (9000, 0)
    assert growing_with(*asked(answered=50), **second) == []
    assert growing_with(*asked(), mib_a_s=0) == [], "in the first epoch, nothing is asked for again"


def test_containers_that_explain_no_growth() -> None:
    assert growing_with(container(1000, 10), container(9000, 90), mib_a_s=0) == [], "the process does not grow"
    assert growing_with(container(9000, 10), container(9000, 90)) == [], "it was as long before"
    assert growing_with(container(9000, 90)) == [], "it was seen once"
    assert growing_with(container(10, 10), container(90, 90)) == [], "it is too small"


def test_a_large_container_of_objects_that_stays() -> None:
    def words(length: int = 9000, objects: int = 500_000) -> list[HeldObjects]:
        about = {"objects": objects, "spare_bytes": 60 * MIB}
        return [container(length, 10, **about), container(9000, 90, **about)]

    [finding] = found(look(1.0, p7=500), held=words())
    assert (finding.cause, finding.holder, finding.gain_bytes) == ("python-objects", "log.entries", 60 * MIB)
    assert found(look(1.0, p7=5000), held=words()) == [], "it is little of all"
    assert found(look(1.0, p7=500), held=words(objects=5)) == []
    assert found(look(1.0, p7=500), held=words(length=80)) == [], "it grows"
    with_workers = {8: [noted_in(8, 1.0)]}
    assert found(look(1.0, p7=500, p8=5), held=words(), workers=with_workers) == []


def test_a_container_that_is_made_anew_is_none_that_grows() -> None:
    same: dict[str, Any] = {"identity": 5, "first_entries": tuple(range(100, 108))}
    [finding] = growing_with(container(1000, 10, **same), container(9000, 90, **same))
    assert finding.cause == "objects-kept"
    assert growing_with(container(1000, 10, **same), container(9000, 90, **same | {"identity": 6})) == []
    at_its_place = same | {"first_entries": (1, 2, 3)}
    assert growing_with(container(1000, 10, **same), container(9000, 90, **at_its_place)) == []


def test_what_tensors_are_kept_by_is_found_as_such() -> None:
    graph = OldGraph(0.0, TRAINER, 1, "log.entries[...]", STACK, 500, 90, holder_steps=4)
    findings = growing_with(container(1000, 10), container(9000, 90), graphs=[graph])
    assert [each.cause for each in findings] == ["graph-kept"]


# Arrays


def array(dtype: str = "float64", holder: str = "past", **about: Any) -> HeldObject:
    return HeldObject(holder, STACK, "ndarray", 1000, 64 * MIB, dtype=dtype, shape=(1000, 96), **about)


def of_arrays(*last: HeldObject, batches: str = "float32", together: int = 300) -> list[MemoryFinding]:
    """What is found if these were there in the last of two looks, and another one in the first."""
    of_step = segment(5, row("batches", 1, batches))
    looks = [((array(narrower="uint8", holder="gone"),), 10), (last, 90)]
    held = [HeldObjects(0.0, TRAINER, 1, step, each) for each, step in looks]
    return found(look(1.0, p7=together), segments=[of_step], held=held)


def test_arrays_whose_values_need_fewer_bytes_are_one_finding() -> None:
    [finding] = of_arrays(array(narrower="float32"), array(narrower="float32", holder="future"))
    assert (finding.kind, finding.holder, finding.gain_bytes) == (
        number_types.EXACT_IN_FLOAT32,
        "past",
        (32 + 32) * MIB,
    )
    assert finding.words.startswith("past (1000 x 96) is float64, and the values looked at are exact in float32, too.")
    assert finding.words.endswith(" The same goes for future.")
    assert of_arrays(array(rounds_well=True), together=3000) == [], "it may be something else"
    [finding] = of_arrays(array(rounds_well=True))
    assert finding.gain_bytes == 32 * MIB
    assert of_arrays(array()) == [], "as times in seconds since 1970, float32 would change the values"
    assert of_arrays(array("float32")) == []


def test_floats_that_have_few_different_values_or_are_wider_than_the_model() -> None:
    few = [array("float32", narrower="uint8"), array(narrower="uint8", holder="future")]
    [finding] = of_arrays(*few)
    assert (finding.cause, finding.holder, finding.gain_bytes) == ("few-values", "past", (48 + 56) * MIB)
    assert of_arrays(*few, together=3000) == [], "they may be something else"
    [finding] = of_arrays(array(of_dataset=True, rounds_well=True), together=900)
    assert (finding.kind, finding.gain_bytes) == (number_types.WIDER_THAN_MODEL, 32 * MIB)
    assert of_arrays(array(of_dataset=True, rounds_well=True), batches="float64") == []


def test_windows_that_repeat_each_other() -> None:
    [finding] = of_arrays(array("float32", window=96, shift=24))
    assert (finding.cause, finding.gain_bytes) == ("windows-copied", 48 * MIB)
    assert (finding.figures["shape"], finding.figures["shift"]) == ("1000 x 96", 24)


# Graphs


def graphs(*looks: tuple[int, int], holder: str = "total") -> list[OldGraph]:
    """The largest graph when so many steps were over, with so many old operations."""
    return [OldGraph(0.0, TRAINER, 1, holder, STACK, operations, steps, holder_steps=4) for steps, operations in looks]


def test_a_graph_that_grows_and_one_that_stays() -> None:
    [finding] = growing_with(graphs=graphs((20, 120), (60, 361)))
    assert (finding.kind, finding.holder) == (held_tensors.LET_GO, "total"), "what it holds besides is a number"
    assert finding.words.startswith("total keeps the graphs of steps that are over. 361 operations of 60 earlier steps")
    assert growing_with(graphs=graphs((20, 361), (60, 361))) == [], "as that of the last validation"
    [finding] = growing_with(graphs=graphs((60, 361)))
    assert finding.cause == "graph-kept", "it was looked at once"


def test_a_graph_of_gradients_that_nobody_but_the_parameters_holds() -> None:
    step = segment(9, freed=lower("graph-of-gradients", 2))
    [finding] = growing_with(graphs=graphs((20, 120), (60, 361), holder=""), segments=[step])
    assert (finding.kind, finding.line) == (held_tensors.CYCLES, 12)
    [finding] = growing_with(graphs=graphs((20, 120), (60, 361)), segments=[step])
    assert (finding.cause, finding.holder) == ("graph-kept", "total"), "a variable holds it"


# Validations


def test_a_graph_of_a_validation_is_named_at_its_holder() -> None:
    validation = segment(9, name="validation", peak=90, freed=lower("validation-graph", 60))
    steps = [segment(2, peak=20), validation]
    [finding] = found(segments=steps)
    assert (finding.cause, finding.holder, finding.line) == ("validation-graph", "", 12)
    stack = (("evaluate", "train.py", 40),)
    graph = OldGraph(0.0, TRAINER, 1, "total", stack, 30, 5, holder_steps=3, validation=True)
    [finding] = found(segments=steps, validation_graphs=[graph])
    assert (finding.holder, finding.line, finding.function) == ("total", 12, "main"), "no line is seen to fill it"
    assert finding.words.endswith(" total keeps the graphs of all its batches until it is over.")


def test_a_graph_that_outlives_its_validation_is_in_the_steps_after_it_too() -> None:
    kept = lower("validation-graph", 210)
    validations = [segment(each, name="validation", peak=230, freed=kept) for each in (9, 18, 27)]
    after = segment(10, peak=125, freed=lower("validation-graph", 110))
    steps = [segment(2, peak=20), after, segment(40, peak=125)]
    [finding] = found(segments=[*steps, *validations])
    assert finding.gain_bytes == 210 * MIB, "of later steps it is not known what a validation has left"
    [finding] = found(segments=[*steps, *validations[:2]])
    assert finding.gain_bytes == 105 * MIB, "there was no later validation"


def test_a_graph_that_no_backward_pass_goes_through() -> None:
    def kept(more: Sequence[MemorySegment] = (), **about: Any) -> list[MemoryFinding]:
        teacher = replace(row("others", 60), first_step=90, holder="t_logits", holder_stack=STACK, by_graph=True)
        last = segment(90, replace(teacher, **about), peak=100, is_last=True)
        return [each for each in found(segments=[segment(2, peak=20), *more, last]) if each.cause == "unused-graph"]

    [finding] = kept()
    assert (finding.holder, finding.gain_bytes, finding.line) == ("t_logits", 60 * MIB, 12)
    assert kept(kind="activations") == [], "a backward pass has come to it"
    assert kept(first_step=89) == []
    gone_through = replace(row("activations", 60), stack=0)
    assert kept(more=[segment(80, gone_through)]) == [], "a later step's pass does, as a generator's"
    assert kept(by_graph=False) == []


def test_outputs_of_all_batches_of_a_validation() -> None:
    def collected(mib: int, holder: str = "outputs[...]", steps: int = 3) -> list[MemoryFinding]:
        stack = (("evaluate", "train.py", 40),)
        rows = replace(row("others", mib), first_step=9, holder=holder, holder_stack=stack, holder_steps=steps)
        return found(segments=[segment(2, peak=30), segment(9, rows, name="validation", peak=100)])

    [finding] = collected(60)
    assert (finding.cause, finding.line, finding.gain_bytes) == ("validation-outputs", 12, 60 * MIB)
    [finding] = collected(80)
    assert finding.gain_bytes == 70 * MIB, "then the peak is that of training"
    assert collected(10) == [], "scores of each sample may be needed"
    assert collected(60, "", steps=0) == [], "nobody was seen to hold them"
    assert collected(60, "logits", steps=1) == [], "a variable that each batch assigns anew"


def test_what_one_line_keeps_is_one_finding(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def main():\n    a = first()\n    b = second()\n    seen[name].append(out)\n")
    stacks = [(("main", str(script), line),) for line in (2, 3)]
    steps = []
    for number in range(10):
        older = {"older": (number << 20, number << 20, number)}
        older["holder_steps"] = 3
        held = [
            replace(row("others", number, holder=f"seen['{name}'][...]", holder_stack=stack, **older), stack=place)
            for place, (name, stack) in enumerate(zip("ab", stacks, strict=True))
        ]
        steps.append(segment(3 * number, *held, peak=90 + number, recorded_steps=number + 1))
    [finding] = found(segments=steps, stacks=stacks)
    assert (finding.cause, finding.line, finding.bytes_a_step) == ("outputs-kept", 4, 2 * MIB)
    assert finding.others == ("seen['b'][...]",)


# Workers

NO_FRAME = (("", "", 0),)


def noted_in(worker: int, t: float, length: int = 0, unshared: float = 0.0, loader: int = 4) -> WorkerContainers:
    cache = HeldObject("dataset.cache", NO_FRAME, "dict", length, length * MIB)
    return WorkerContainers(t, worker, 1, TRAINER, (cache,), loader, (("dataset.names", unshared),))


def objects(loader: int = 4, line: int = 12, mib: int = 30, start_method: str = "fork") -> AttributeObjects:
    stack = (("main", "train.py", line),)
    about = ("dataset.names", "list of str", 500_000, mib * MIB, stack, loader, 2, start_method, mib * MIB)
    return AttributeObjects(0.0, TRAINER, 1, *about)


def touched(loader: int = 4, mib: int = 30) -> TouchedAttribute:
    return TouchedAttribute(0.0, TRAINER, 1, "dataset.names", loader, (mib + 2) * MIB, 2 * MIB)


def shared(unshared: float, noted: list[AttributeObjects], tried: list[TouchedAttribute]) -> list[MemoryFinding]:
    """What is found if workers have made so much of each attribute their own."""
    workers = {8 + each: [noted_in(8 + each, 1.0, 0, unshared, loader)] for each, loader in enumerate((4, 5))}
    both = look(1.0, p7=300, p8=50, p9=50)
    return found(both, objects=noted, touched=tried, workers=workers)


def test_objects_that_forked_workers_use() -> None:
    [finding] = shared(0.4, [objects()], [touched()])
    assert (finding.cause, finding.gain_bytes, finding.measured) == ("shared-objects", 60 * MIB, True)
    assert "copies its page: so far 40% of it." in finding.words
    assert shared(0.01, [objects()], [touched()]) == [], "workers do not use them"
    assert shared(0.4, [objects()], []) == [], "nothing was tried"
    [finding] = shared(0.4, [replace(objects(), content_bytes=10 * MIB)], [touched()])
    assert finding.gain_bytes == (60 + 20) * MIB, "they take less as an array in the training, too"
    assert finding.basis.endswith("comes to own 30 MiB, times 2 workers, and 20 MiB less in the training's own process")


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_workers_that_are_not_forked_get_a_copy_each(start_method: str) -> None:
    [finding] = shared(0.0, [objects(start_method=start_method)], [])
    assert (finding.kind, finding.gain_bytes, finding.measured) == (in_workers.OF_OTHERS, 60 * MIB, False)
    [finding] = shared(0.0, [replace(objects(start_method=start_method), objects=1, container="ndarray")], [])
    assert finding.words.startswith("dataset.names, a ndarray of the DataLoader that line 12 makes, has 30 MiB.")


def test_training_and_validation_have_datasets_of_one_class() -> None:
    noted = [objects(4, line=12), objects(5, line=13, mib=10)]
    findings = shared(0.5, noted, [touched(4), touched(5, mib=10)])
    assert [each.gain_bytes for each in findings] == [60 * MIB, 20 * MIB]
    assert ["line 12 makes" in each.figures["made"] for each in findings] == [True, False]


def test_a_dataset_that_is_made_anew_in_each_epoch_is_one_finding() -> None:
    """Only the one that was there in the end was tried; workers of an earlier one were seen."""
    noted = [objects(loader) for loader in (4, 5, 6)]
    assert [each.gain_bytes for each in shared(0.5, noted, [touched(6)])] == [60 * MIB]


def test_a_cache_in_each_worker() -> None:
    workers = {each: [noted_in(each, 1.0, 0), noted_in(each, 9.0, 40)] for each in (8, 9)}
    looks = (look(1.0, p7=300, p8=10, p9=10), look(9.0, p7=300, p8=60, p9=60))
    [finding] = found(*looks, reports=(report(5.0), report(8.0)), workers=workers)
    assert (finding.cause, finding.holder, finding.gain_bytes) == ("cache-per-worker", "dataset.cache", 80 * MIB)
    assert finding.bytes_a_step == 4 * MIB
    assert finding.words.startswith("dataset.cache grows in 2 workers, each by itself: 80 entries so far.")
    still = {each: [noted_in(each, 1.0, 40), noted_in(each, 9.0, 40)] for each in (8, 9)}
    assert found(*looks, workers=still) == []


def in_worker(worker: int, last: HeldObject) -> list[WorkerContainers]:
    """What a worker notes at its beginning, and in the end."""
    return [WorkerContainers(t, worker, 1, TRAINER, held) for t, held in ((1.0, ()), (9.0, (last,)))]


def grown_in_workers(held: HeldObject, together: int = 300, epoch: int = 2) -> list[MemoryFinding]:
    looks = (look(1.0, p7=together, p8=10, p9=10), look(9.0, p7=together, p8=60, p9=60))
    workers = {each: in_worker(each, held) for each in (8, 9)}
    return found(*looks, reports=(report(5.0), report(8.0)), segments=[segment(9, epoch=epoch)], workers=workers)


@pytest.mark.parametrize(("answered", "epoch", "is_useless"), [(3, 2, True), (3, 1, False), (900, 2, False)])
def test_the_cache_of_a_function_in_each_worker(answered: int, epoch: int, is_useless: bool) -> None:
    stack = (("read", "data.py", 23),)
    held = HeldObject("read", stack, "lru_cache", 40, 40 * MIB, asked=1000, answered=answered)
    [finding] = grown_in_workers(held, epoch=epoch)
    assert (finding.cause, finding.file, finding.line) == ("cache-per-worker", "data.py", 23)
    assert (finding.kind is in_workers.USELESS_CACHE) == is_useless


def test_an_array_that_each_worker_reads() -> None:
    [finding] = grown_in_workers(HeldObject("dataset.tiles", NO_FRAME, "ndarray", 40, 40 * MIB))
    told = (in_workers.ARRAY_PER_WORKER, 80 * MIB, 0)
    assert (finding.kind, finding.gain_bytes, finding.bytes_a_step) == told


def test_arrays_that_the_generator_of_each_worker_reads() -> None:
    def noted(first: int, last: int) -> dict[int, list[WorkerContainers]]:
        held = HeldObject("days[...]", (("__iter__", "data.py", 0),), "ndarray", 4000, 40 * MIB)
        days = HeldObject("days", (("__iter__", "data.py", 30),), "list", 40, 40 * MIB)
        both = ((1.0, replace(held, identity=first)), (9.0, replace(held, identity=last)))
        begin = [WorkerContainers(0.5, each, 1, TRAINER, (days,)) for each in (8, 9)]
        return {
            each.pid: [each, *(WorkerContainers(t, each.pid, 1, TRAINER, (of, days)) for t, of in both)]
            for each in begin
        }

    looks = (look(1.0, p7=300, p8=10, p9=10), look(9.0, p7=300, p8=60, p9=60))
    [finding] = found(*looks, reports=(report(5.0), report(8.0)), workers=noted(77, 77))
    told = (in_workers.ARRAY_IN_GENERATORS, "__iter__", 40 * MIB)
    assert (finding.kind, finding.function, finding.gain_bytes) == told
    assert found(*looks, workers=noted(77, 78)) == [], "it may be of a single item"


def test_items_that_wait_in_each_worker_to_be_shuffled() -> None:
    held = HeldObject("window", (("shuffled", "data.py", 7),), "list", 40, 40 * MIB)
    [finding] = grown_in_workers(held)
    assert (finding.cause, finding.gain_bytes, finding.bytes_a_step) == ("buffer-per-worker", 80 * MIB, 0)
    assert finding.words.startswith("window in shuffled() holds items that are ready in 2 workers, 80 of them together")
    assert grown_in_workers(held, 3000) == [], "some items have to wait"


def test_what_the_source_keeps_short(tmp_path: Path) -> None:
    """A cache that is short is well; items that wait take what they take, up to any length."""
    script = tmp_path / "data.py"
    script.write_text("def shuffled(items):\n    if len(window) == 40:\n        yield window.pop()\n")
    window = HeldObject("window", (("shuffled", str(script), 1),), "list", 40, 40 * MIB)
    assert [each.cause for each in grown_in_workers(window)] == ["buffer-per-worker"]
    assert grown_in_workers(replace(window, stack=(("<module>", str(script), 0),))) == []


def test_workers_of_other_epochs_do_not_count() -> None:
    """Two at a time, in twenty epochs of ten steps."""
    workers, looks = {}, []
    for epoch in range(20):
        pids = (100 + 2 * epoch, 101 + 2 * epoch)
        for pid in pids:
            workers[pid] = [noted_in(pid, epoch, 0), noted_in(pid, epoch + 0.9, 20)]
        looks += [look(epoch + at, **{f"p{pid}": int(10 + 20 * at) for pid in pids}) for at in (0.0, 0.9)]
    [finding] = found(*looks, reports=tuple(report(epoch + 0.5) for epoch in range(20)), workers=workers)
    assert finding.figures["workers"] == 2
    assert (finding.gain_bytes, finding.bytes_a_step) == (36 * MIB, pytest.approx(3.6 * MIB))


def test_batches_that_are_loaded_too_far_ahead() -> None:
    settings = LoaderSettings(2, prefetch_factor=8)
    iterated = LoaderIterated(0.0, TRAINER, 1, 4, settings, True, ("", ""))
    fields: dict[str, Any] = {
        "segments": [segment(5, batch_bytes=5 * MIB)],
        "workers": {8: [noted_in(8, 1.0)]},
        "made": {4: (("main", str(Path(__file__)), 1),)},
    }
    [finding] = found(look(1.0, p7=300, p8=50), iterated=[iterated], **fields)
    assert (finding.cause, finding.gain_bytes) == ("prefetched-too-far", 60 * MIB)
    usual = replace(iterated, settings=LoaderSettings(2))
    assert found(look(1.0, p7=300, p8=50), iterated=[usual], **fields) == []
