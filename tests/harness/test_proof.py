"""Cheats are refused and named; honest ways to be faster are not. Each is a script that really runs."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from workshop.experiment import ExperimentConfig
from workshop.harness.child import Child
from workshop.harness.ledger import Ledger
from workshop.harness.proof import Evidence, differences
from workshop.pets.layout import stand_in_folder

TESTS = Path(__file__).parents[1]
SOLUTIONS = TESTS.parent / "solutions"
HONEST = sorted((TESTS / "honest").glob("*.py"))
QUICK = set(
    """
    part3 collate_by_hand backward_left_out last_batch_dropped optimizer_pretends sleep_removed smaller_model
    targets_exchanged transform_dropped
    """.split()
)
"""The others are kin to one of these, and run with the long tests."""

NAMED = {
    "augmentation_frozen": "the augmentation is frozen",
    "backward_left_out": "backward runs",
    "batch_size_changed": "batches have 8 items, the original's 4",
    "batches_reused": "an epoch trains on",
    "crop_on_top": "serves for several epochs: what was augmented is kept",
    "epochs_from_memory": "the augmentation is frozen",
    "every_second_batch_skipped": "batches are skipped",
    "every_third_batch_skipped": "an epoch trains on",
    "gradients_pile_up": "something else than the gradient of its batch",
    "images_shrunk": "the model's input is 3 x 32 x 32, the original's 3 x 64 x 64",
    "images_shrunk_and_enlarged": "Resize makes a picture 16 x 16 pixels",
    "last_batch_dropped": "an epoch trains on 8 of 11 items: the last batch is dropped",
    "layers_frozen": "something else than the gradient of its batch",
    "lower_precision": "lower precision",
    "not_normalised": "is the normalisation missing?",
    "not_shuffled": "the items come in the same order every epoch",
    "optimizer_another": "the optimizer is SGD, the original's AdamW",
    "optimizer_every_other_batch": "the optimizer steps",
    "optimizer_pretends": "steps of the optimizer moved nothing",
    "perf_counter_patched": "the script replaces time.perf_counter",
    "sleep_at_start": "did not wait for the slow storage",
    "sleep_elsewhere": "did not wait for the slow storage",
    "sleep_only_at_first": "did not wait for the slow storage",
    "sleep_patched": "the script replaces time.sleep",
    "sleep_removed": "33 of 33 reads of a photo did not wait for the slow storage",
    "smaller_model": "the model is another one: 4,924,773 parameters, the original has 11,195,493",
    "targets_exchanged": "with the target of another one",
    "transform_dropped": "AutoAugment was at work on 0 of",
    "transform_shared": "share one draw of a random transform",
    "transform_weakened": "RandomResizedCrop has scale=(0.99, 1.0), in the original (0.08, 1.0)",
}


ITEMS, BATCH, WASTED_S = 11, 4, 0.02
STEPS = 3

Start = Callable[..., Child]


@pytest.fixture(scope="module")
def start(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Make a child that trains ResNet-18 on 11 items in batches of 4, and end it with the tests."""
    folder = tmp_path_factory.mktemp("children")
    with ExitStack() as stack:

        def make(script: Path, *, seed: int = 0, steps: int | None = STEPS, **options: object) -> Child:
            child = stack.enter_context(Child([], stand_in_folder(data).images, steps, **options))  # type: ignore[arg-type]
            config = folder / f"{child.folder.name}.py"
            settings = {"batch_size": BATCH, "max_items": ITEMS, "wasted_time": WASTED_S, "image_size": 64}
            source = ExperimentConfig(
                **settings, seed=seed, max_epochs=1000, dataset="stand-in", cache_dir=child.folder / "cache"
            )
            config.write_text(source.to_source())
            child.command = [str(script), str(config), "--data", str(data), "--experiments", str(child.folder / "runs")]
            return child

        yield make


@pytest.fixture(scope="module")
def original(start: Start, project: Path) -> Child:
    """The untouched script, after three epochs."""
    child = start(project / "solutions" / "part1.py")
    for _ in range(3):
        child.epoch()
    return child


@pytest.fixture
def complaints(start: Start, original: Child) -> Iterator[Callable[..., list[str]]]:
    """Let a script train three epochs, and say what it does otherwise than the untouched one."""
    with ExitStack() as stack:

        def judge(script: Path) -> list[str]:
            child = stack.enter_context(start(script))
            epochs = [child.epoch(step) for step in (None, random.randrange(STEPS), None)]
            recomputed = [original.recompute(epoch.sample) for epoch in epochs if epoch.sample]
            evidence = Evidence(WASTED_S, epochs[-1].replaced_clocks, recomputed)
            return differences(Ledger.of(original.folder), Ledger.of(child.folder), evidence)

        yield judge


def test_every_cheat_has_a_name() -> None:
    assert {path.stem for path in (TESTS / "cheats" / "part3").glob("*.py")} - {"variation"} == NAMED.keys()


@pytest.mark.parametrize(
    "cheat", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMED]
)
def test_a_cheat_is_refused_and_named(cheat: str, complaints: Callable[[Path], list[str]]) -> None:
    found = complaints(TESTS / "cheats" / "part3" / f"{cheat}.py")
    assert NAMED[cheat] in " ".join(found)
    assert len(found) <= 2, "one cheat is one complaint, or two"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem)
        for path in [SOLUTIONS / "part1.py", *sorted(SOLUTIONS.glob("part[356].py")), *HONEST]
    ],
)
def test_honest_work_passes(
    script: Path, complaints: Callable[[Path], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # what is compiled, is compiled anew
    assert complaints(script) == []
