"""Which DataLoader is tuned, and which line makes it."""

from typing import Any

from workshop.diagnosis.samples import Observations
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.observations import LoaderIterated
from workshop.profiles.stacks import Frame
from workshop.tuning.loader_origin import origin_of, waited_for

SCRIPT = Frame("main", "/me/train.py", 12)
TRAINER = Frame("get_train_dataloader", "/env/lib/python3.11/site-packages/transformers/trainer.py", 900)
SHARD = Frame("__init__", "/env/lib/python3.11/site-packages/accelerate/data_loader.py", 500)
PREPARE = Frame("prepare", "/env/lib/python3.11/site-packages/accelerate/accelerator.py", 70)


def iterated(loader: int, t: float = 0.0, **fields: Any) -> LoaderIterated:
    usual: dict[str, Any] = {"settings": LoaderSettings(), "training": True, "collate": ("", "")}
    return LoaderIterated(t, 1, 1, loader=loader, **{**usual, **fields})


def test_the_one_that_is_waited_for_most_comes_first() -> None:
    other = Frame("main", "/me/train.py", 13)
    found = Observations(
        iterated=[iterated(0), iterated(1), iterated(2), iterated(3, training=False)],
        made={0: (SCRIPT,), 1: (other,), 2: (other,), 3: (SCRIPT,)},
    )
    order = [each.loader for each in waited_for(found, {0: 1.0, 1: 0.6, 2: 0.6, 3: 9.0})]
    assert order == [2, 0], "line 13 has made two, and validation does not count"


def test_the_script_makes_it() -> None:
    found = Observations(iterated=[iterated(0, batches=7)], made={0: (SCRIPT,)})
    origin = origin_of(found, found.iterated[0])
    assert (origin.path, origin.line, origin.library) == ("/me/train.py", 12, "")
    assert origin.where == "line 12 of train.py"
    assert not found.changes(origin.seen)
    assert not found.is_remade(origin.seen)


def test_a_library_makes_it_and_its_argument_is_named() -> None:
    found = Observations(iterated=[iterated(0)], made={0: (SCRIPT, TRAINER)})
    origin = origin_of(found, found.iterated[0])
    assert origin.library == "transformers"
    assert (origin.where, origin.prefix) == ("TrainingArguments", "dataloader_")


def test_a_library_makes_another_of_what_it_is_given() -> None:
    found = Observations(iterated=[iterated(1)], made={0: (SCRIPT,), 1: (SCRIPT, PREPARE)}, datasets={0: 5, 1: 5, 2: 6})
    assert origin_of(found, found.iterated[0]).line == 12


def test_a_class_of_a_library_that_the_script_makes() -> None:
    found = Observations(iterated=[iterated(0)], made={0: (SCRIPT, SHARD)})
    assert origin_of(found, found.iterated[0]).line == 12


def test_what_lightning_puts_around_the_constructor() -> None:
    wrapper = Frame("wrapper", "/env/lib/python3.11/site-packages/lightning/fabric/utilities/data.py", 324)
    found = Observations(iterated=[iterated(0)], made={0: (SCRIPT, wrapper)})
    assert origin_of(found, found.iterated[0]).line == 12


def test_a_dataset_that_changes_and_a_loader_that_is_made_anew() -> None:
    found = Observations(
        iterated=[iterated(0, dataset_state="a"), iterated(1, dataset_state="b")], made={0: (SCRIPT,), 1: (SCRIPT,)}
    )
    assert found.changes(found.iterated[0])
    assert found.is_remade(found.iterated[0])
