"""The line that fills a holder is found in the source."""

from pathlib import Path

import pytest

from workshop.memory.assignments import assignment_of, called_at, filled_at, given_at, is_limited, made_at, returned_at


def frames_of(tmp_path: Path, script: str, data: str = "", *classes: str) -> list[tuple[str, str, int]]:
    """The function of a variable in a script, then classes in another file."""
    for name, source in (("train.py", script), ("data.py", data)):
        (tmp_path / name).write_text(source)
    return [("main", str(tmp_path / "train.py"), 0), *((each, str(tmp_path / "data.py"), 0) for each in classes)]


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
    [(_, path, _)] = frames_of(tmp_path, SOURCE)
    found = assignment_of(holder, [("train", path, 0), ("Tracker", path, 0)])
    assert found is not None
    assert (SOURCE.splitlines()[found[2] - 1].strip(), found[0]) == (line, function)


def test_there_is_none_where_the_source_has_none(tmp_path: Path) -> None:
    assert assignment_of("losses[...]", frames_of(tmp_path, "x = 1\n")) is None
    assert assignment_of("losses[...]", [("train", str(tmp_path / "none.py"), 0)]) is None


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

    def stats(self):
        self.outputs.clear()
        other.clear()


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
        ("pool.outputs['relu'][...]", True),
        ("pool.inputs[...]", False),
        ("pool.seen[...]", False),
        ("pool.heap[...]", False),
        ("kept[...]", False),
        ("", False),
    ],
)
def test_a_container_whose_length_is_limited(tmp_path: Path, holder: str, limited: bool) -> None:
    assert is_limited(holder, frames_of(tmp_path, LIMITS)) is limited
    assert not is_limited(holder, [("train", str(tmp_path / "none.py"), 0)])


def test_none_fills_nothing(tmp_path: Path) -> None:
    source = (
        "class Tiles:\n    def __init__(self):\n        self.all = None\n    def read(self):\n        self.all = 1\n"
    )
    [(_, path, _)] = frames_of(tmp_path, source)
    assert assignment_of("self.all", [("__init__", path, 0)]) == ("read", path, 5)


def test_the_line_that_makes_what_is_kept(tmp_path: Path) -> None:
    source = """
def review(images, kept, heap):
    entry = (1, images[0])
    if len(heap) < 9:
        heapq.heappush(heap, entry)
    kept.append(images[1])
    entry = None
"""
    [(_, script, _)] = frames_of(tmp_path, source)
    frame = ("review", script, 1)
    assert made_at("heap[...]", [frame], frame) == ("review", script, 3)
    assert made_at("kept[...]", [frame], frame) == ("review", script, 6)
    assert made_at("nobody", [frame], frame) == frame


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
    [(_, script, _)] = frames_of(tmp_path, ITEMS)
    *_, number = returned_at(way, ("__getitem__", script, 7))
    assert ITEMS.splitlines()[number - 1].strip() == line
    assert returned_at((), ("__iter__", script, 13))[2] == 20
    assert returned_at((), ("forward", script, 2)) == ("forward", script, 2), "there is none"


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
    [(_, script, _)] = frames_of(tmp_path, METERS)
    filled = assignment_of("trainer.entropy.value", [("step", script, 0), ("Meter", script, 0)])
    assert filled == ("update", script, 4)
    assert given_at("trainer.entropy.value", filled) == ("step", script, 9)
    note = ("note", script, 4)
    assert given_at("trainer.history.notes", note) == note, "no other uses it"
    assert given_at("total", filled) == filled


TEXTS = """
class Texts(Dataset):
    def __init__(self):
        self.rows = {}

    def __getitem__(self, index):
        self.rows[index] = read(index)

class Other:
    def __init__(self):
        self.rows = []
        self.rows.append(1)
"""


def test_the_line_may_be_in_the_file_of_a_class(tmp_path: Path) -> None:
    frames = frames_of(tmp_path, "def main():\n    train_set = Texts()\n    optimizer.step()\n", TEXTS, "Texts")
    assert assignment_of("train_set.rows[...]", frames) == ("__getitem__", str(tmp_path / "data.py"), 7)
    assert filled_at("train_set.rows[...]", frames[:1]) == ("main", str(tmp_path / "train.py"), 0), "no line is known"


@pytest.mark.parametrize(
    "main",
    [
        "rows = []\n    fill(rows)",
        "rows = []\n    rows.append(1)\n    if debug:\n        rows.append(2)",
        "rows = deque(maxlen=9)\n    other.rows.append(1)",
    ],
    ids=["elsewhere", "several lines", "another one"],
)
def test_no_line_is_better_than_a_wrong_one(tmp_path: Path, main: str) -> None:
    others = "def count():\n    rows = []\n    rows.append(1)\n"
    frames = frames_of(tmp_path, f"{others}def main():\n    {main}\n", "")
    assert assignment_of("rows[...]", frames) is None


@pytest.mark.parametrize(
    ("holder", "main", "line"),
    [
        ("rows[...]", "rows = []\n    add = rows\n    add.append(1)", 4),
        ("rows['a'][...]", "rows['b'].append(1)\n    rows['a'].append(1)", 3),
        ("state", "state, out = net(x, state)", 2),
        ("rows[...]", "rows = [1 for x in y]", 2),
        ("rows[...]", "if full:\n        heapq.heapreplace(rows, 1)\n    else:\n        heapq.heappush(rows, 1)", 3),
        ("queue[...]", "queue.put(1)", 2),
    ],
)
def test_the_only_line_that_can_be_meant(tmp_path: Path, holder: str, main: str, line: int) -> None:
    frames = frames_of(tmp_path, f"def main():\n    {main}\n", "")
    assert assignment_of(holder, frames) == ("main", str(tmp_path / "train.py"), line)


def test_what_grows_is_not_filled_where_it_was_made(tmp_path: Path) -> None:
    frames = frames_of(tmp_path, "def main():\n    rows = read()\n", "")
    assert assignment_of("rows[...]", frames, grows=True) is None
    assert assignment_of("rows[...]", frames) == ("main", str(tmp_path / "train.py"), 2)
