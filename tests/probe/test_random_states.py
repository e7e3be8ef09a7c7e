"""What stands for the states of random generators."""

import json
import random
import subprocess
import sys

import numpy as np
import torch

from workshop.probe.random_states import names_of_states, random_states, seed_generators, set_random_states

IN_ANOTHER = """
import json, numpy
from workshop.probe.random_states import names_of_states, seed_generators
seed_generators(5)
print(json.dumps(names_of_states()))
"""


def test_a_state_has_the_same_name_in_another_process() -> None:
    """A worker that is spawned has other addresses, by which Python tells some objects apart."""
    before = random_states()
    seed_generators(5)
    names = names_of_states()
    set_random_states(before)
    other = subprocess.run([sys.executable, "-c", IN_ANOTHER], capture_output=True, text=True, check=True)
    assert json.loads(other.stdout) == names


def test_numpy_may_draw_with_another_bit_generator() -> None:
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        one = names_of_states()["NumPy"]
        np.random.rand()
        assert names_of_states()["NumPy"] != one
    finally:
        np.random.set_bit_generator(before)


def test_each_generator_has_a_state_of_its_own_that_moves_as_it_draws() -> None:
    for name, draw in {"torch": torch.rand, "Python": lambda _: random.random(), "NumPy": np.random.rand}.items():
        before = names_of_states()
        draw(1)
        assert {name for name, _ in before.items() - names_of_states().items()} == {name}
