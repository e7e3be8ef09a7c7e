"""One of several ranks is made slow."""

from collections import OrderedDict
from pathlib import Path

import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from workshop.bad_node import chosen_rank, slow_one_rank


def test_one_of_several_ranks_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rank, size in ((0, 2), (1, 2), (0, 1)):
        hooks: OrderedDict[int, object] = OrderedDict()
        monkeypatch.setitem(register_optimizer_step_pre_hook.__globals__, "_global_optimizer_pre_hooks", hooks)
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))
        slow_one_rank(0.1)
        assert len(hooks) == (size == 2 and rank == chosen_rank(2))


def test_every_rank_may_be_on_the_bad_node(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(40)]
    for folder in folders:
        folder.mkdir()
    assert {chosen_rank(2, folder) for folder in folders} == {0, 1}
