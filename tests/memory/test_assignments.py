"""The line that fills a holder is found in the source."""

from pathlib import Path

import pytest

from workshop.memory.assignments import Assignment, assignment_of, called_at, given_at, is_limited, made_at, returned_at

SOURCE = """
class Tracker:
    def __init__(self):
        self.history = []

    def note(self, out):
        self.history.append(out)


def train(model):
    total = 0
    losses = []
    tracker = Tracker()
    for x in range(3):
        loss = model(x)
        total += loss
        losses.append(loss)
        best = best + loss
        table["x"] = loss
        errors.append(BadBatch())
        model.act.register_forward_hook(print)
        heapq.heappush(worst, (loss, x))
"""


@pytest.mark.parametrize(
    ("holder", "line", "function"),
    [
        ("total", "total += loss", "train"),
        ("losses[...]", "losses.append(loss)", "train"),
        ("tracker.history[...]", "self.history.append(out)", "note"),
        ("best", "best = best + loss", "train"),
        ("table['x']", 'table["x"] = loss', "train"),
        ("loss", "loss = model(x)", "train"),
        ("tracker.history[...].__closure__[...]", "self.history.append(out)", "note"),
        ("model.act._forward_hooks[...]", "model.act.register_forward_hook(print)", "train"),
        ("worst[...][...]", "heapq.heappush(worst, (loss, x))", "train"),
        ("errors[...].__traceback__.loss", "errors.append(BadBatch())", "train"),
    ],
)
def test_the_line(tmp_path: Path, holder: str, line: str, function: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(SOURCE)
    found = assignment_of(holder, str(path), "train")
    assert found is not None
    assert (SOURCE.splitlines()[found.number - 1].strip(), found.function) == (line, function)


def test_there_is_none_where_the_source_has_none(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("x = 1\n")
    assert assignment_of("losses[...]", str(path), "train") is None
    assert assignment_of("losses[...]", str(tmp_path / "none.py"), "train") is None


LIMITS = """
class Pool:
    def offer(self, item):
        if len(self.items) < self.size:
            self.items.append(item)
        else:
            heapq.heapreplace(self.heap, item)
        self.seen.append(item)
        if len(self.seen) > 64:
            print(self.seen[-64:])
        while len(self.recent) > 8:
            del self.recent[0]


def train():
    if step > 3 and len(window) >= 10:
        window.pop(0)
    if len(losses) == 100:
        losses = []
    if ready:
        window.append(1)
        kept.append(1)
"""


@pytest.mark.parametrize(
    ("holder", "limited"),
    [
        ("pool.items[...]", True),
        ("pool.items[...][...]", True),
        ("pool.recent[...]", True),
        ("window[...]", True),
        ("losses[...]", True),
        ("pool.seen[...]", False),
        ("pool.heap[...]", False),
        ("kept[...]", False),
        ("", False),
    ],
)
def test_a_container_whose_length_is_limited(tmp_path: Path, holder: str, limited: bool) -> None:
    path = tmp_path / "script.py"
    path.write_text(LIMITS)
    assert is_limited(holder, str(path)) is limited
    assert not is_limited(holder, str(tmp_path / "none.py"))


def test_none_fills_nothing(tmp_path: Path) -> None:
    script = tmp_path / "reads.py"
    script.write_text(
        "class Tiles:\n    def __init__(self):\n        self.all = None\n    def read(self):\n        self.all = 1\n"
    )
    assert assignment_of("self.all", str(script), "__init__") == (5, "read")


def test_what_is_cleared_is_limited(tmp_path: Path) -> None:
    script = tmp_path / "clears.py"
    script.write_text("class Monitor:\n    def stats(self):\n        self.outputs.clear()\n        other.clear()\n")
    assert is_limited("monitor.outputs['relu'][...]", str(script))
    assert not is_limited("monitor.inputs[...]", str(script))


def test_the_line_that_makes_what_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "keeps.py"
    script.write_text("""
def review(images, kept, heap):
    entry = (1, images[0])
    if len(heap) < 9:
        heapq.heappush(heap, entry)
    kept.append(images[1])
    entry = None
""")
    frame = ("review", str(script), 1)
    assert made_at("heap[...]", frame) == ("review", str(script), 3)
    assert made_at("kept[...]", frame) == ("review", str(script), 6)
    assert made_at("nobody", frame) == frame


def test_the_only_call_of_a_function(tmp_path: Path) -> None:
    script = tmp_path / "calls.py"
    script.write_text("def window(x): ...\n\ndef train(data):\n    yield from window(3)\n    data.window(4)\n")
    assert called_at(("window", str(script), 1)) == ("train", str(script), 4)
    assert called_at(("train", str(script), 3)) is None
    script.with_name("two.py").write_text("window(1)\nwindow(2)\n")
    assert called_at(("window", str(script.with_name("two.py")), 1)) is None


ITEMS = """
class Poses(Dataset):
    @property
    def size(self):
        return 3

    def __getitem__(self, index):
        def load(index):
            return None, None, None

        if index < 0:
            return None
        image = read(index)
        heat = np.exp(-image)
        heat = torch.from_numpy(heat)
        return image, heat, {"weight": np.ones(3), "image": image}

    def __iter__(self):
        while True:
            yield make(self)
"""


@pytest.mark.parametrize(
    ("way", "line"),
    [
        (("1",), "heat = torch.from_numpy(heat)"),
        (("2", "weight"), 'return image, heat, {"weight": np.ones(3), "image": image}'),
        (("2", "image"), "image = read(index)"),
    ],
)
def test_the_line_that_makes_a_part_of_an_item(way: tuple[str, ...], line: str, tmp_path: Path) -> None:
    script = tmp_path / "poses.py"
    script.write_text(ITEMS)
    *_, number = returned_at(way, ("__getitem__", str(script), 7))
    assert ITEMS.splitlines()[number - 1].strip() == line
    assert returned_at((), ("__iter__", str(script), 13))[2] == 20
    assert returned_at((), ("forward", str(script), 2)) == ("forward", str(script), 2), "there is none"


METERS = """
class Meter:
    def update(self, value):
        self.value = 0.9 * self.value + value

class Trainer:
    def step(self):
        self.loss.update(loss.item())
        self.entropy.update(entropy)
        self.history.note(entropy)
"""


def test_of_a_method_that_several_objects_share_the_call_is_named(tmp_path: Path) -> None:
    script = tmp_path / "meters.py"
    script.write_text(METERS)
    filled = assignment_of("trainer.entropy.value", str(script), "step")
    assert filled == (4, "update")
    assert given_at("trainer.entropy.value", str(script), filled) == (9, "step")
    assert given_at("trainer.history.notes", str(script), Assignment(4, "note")) == (4, "note"), "no other uses it"
    assert given_at("total", str(script), filled) == filled
