"""What is told of a reason: the workshop's own words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workshop.room.told_reason import MASK, MAX_LENGTH, own_words, told


@pytest.mark.parametrize(
    ("reason", "is_told"),
    [
        (
            "72% of the pictures look exactly as in an earlier epoch: the augmentation is frozen; keep what is random",
            "… of the pictures look exactly as in an earlier epoch: the augmentation is frozen; keep what is random",
        ),
        ("MyCrop was applied to 3 of 40 pictures, in the original to all", "… was applied to … of … pictures, in the "),
        ("/home/ada/x.py crashed: line 3: KeyError: 'password'", "… crashed: line …"),
    ],
)
def test_own_words_stay(reason: str, is_told: str) -> None:
    assert told(reason).startswith(is_told)


@given(st.lists(st.text(min_size=1, max_size=30), max_size=30))
def test_no_other_word_is_told(words: list[str]) -> None:
    told_words = re.split(r"[ ,:;.]+", told(" ".join(words)))
    assert all(word.lower() in own_words() for word in told_words if word.strip(MASK))
    assert len(told(" ".join(words))) <= MAX_LENGTH
