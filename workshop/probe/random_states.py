"""The random generators of torch, Python and NumPy: their states, what tells these apart, and how all begin anew."""

import pickle
import random
import sys
import zlib
from collections.abc import Mapping
from typing import Any

import torch


def random_states() -> dict[str, Any]:
    """Return the states of the random generators of torch, Python and NumPy, as plain values and tensors."""
    version, words, rest = random.getstate()
    found: dict[str, Any] = {"cpu": torch.get_rng_state(), "python": (version, torch.tensor(words), rest)}
    if torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    if numpy := sys.modules.get("numpy"):
        name, keys, *place = numpy.random.get_state()
        found["numpy"] = (name, torch.tensor(keys.astype("int64")), *place)
    return found


def set_random_states(states: Mapping[str, Any]) -> None:
    """Set the random generators as `random_states` found them."""
    torch.set_rng_state(states["cpu"].cpu())
    version, words, rest = states["python"]
    random.setstate((version, tuple(words.tolist()), rest))
    if "cuda" in states and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(states["cuda"].cpu())
    if "numpy" in states and (numpy := sys.modules.get("numpy")):
        name, keys, *place = states["numpy"]
        numpy.random.set_state((name, keys.cpu().numpy().astype("uint32"), *place))


def names_of_states() -> dict[str, int]:
    """Return, by generator, a number that stands for its state: the same in each process."""
    found = {"torch": zlib.crc32(torch.get_rng_state().numpy()), "Python": hash(random.getstate()[1])}
    if torch.cuda.is_initialized():
        found["CUDA"] = zlib.crc32(torch.cuda.get_rng_state().numpy())
    if numpy := sys.modules.get("numpy"):
        found["NumPy"] = zlib.crc32(pickle.dumps(numpy.random.get_state(legacy=False)))  # of any bit generator
    return found


def seed_generators(seed: int) -> None:
    """Let the generators of torch, Python and NumPy begin anew."""
    torch.default_generator.manual_seed(seed % 2**63)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)
