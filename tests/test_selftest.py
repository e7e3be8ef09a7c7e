"""The workshop proves itself: every part can be failed and passed, and every cheat is refused, by its name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from workshop.parts import all_parts

CHEATS = Path(__file__).parent / "cheats"

REFUSED_AS = {
    # Those of part 3 are in harness/test_proof.py.
    "part9": {
        "conjugates": "are not drawn",
        "determinant_left_out": "a determinant is off 1 by 2",
        "gram_schmidt_once": "links are not unitary",
        "half_precision": "links are not unitary",
        "identity": "are not drawn",
        "links_reused": "are not drawn",
        "links_reused_in_turn": "of the links of 2 steps are not drawn|fields had come before",
        "one_field_for_all": "are not drawn",
        "phases_left_out": r"E \|tr U\|\^2 is 1\.6",
    },
    "part10": {
        "batches_not_shared": "batches have 32 items, the original's 16",
        "every_rank_sees_all": "an epoch trains on 74 items, the original on 37",
        "gradients_not_averaged": "the ranks have different parameters",
        "item_dealt_twice": "an epoch trains on 38 items, the original on 37",
        "order_kept": "the items come in the same order every epoch",
        "rank_stops_early": "the ranks do not step together: in an epoch, rank 0 takes 3, rank 1 takes 2 steps",
    },
}


@pytest.mark.parametrize("part", REFUSED_AS)
def test_every_cheat_has_a_name(part: str) -> None:
    assert {path.stem for path in (CHEATS / part).glob("*.py")} - {"variation"} == REFUSED_AS[part].keys()


@pytest.mark.slow
@pytest.mark.timeout(4000)
def test_the_workshop_proves_itself(data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workshop", "selftest", "--data", data], capture_output=True, text=True, timeout=3900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried = dict(re.findall(r"^ok    ([^:]*): (.*)$", done.stdout, re.M))
    for part in all_parts():
        outcomes = ["its solution"] if part.changes else ["the right answer"]
        for name in [*outcomes, *(["a wrong answer"] if part.question else [])]:
            assert f"{part.name}, {name}" in tried
    for part_name, cheats in REFUSED_AS.items():
        for cheat, reason in cheats.items():
            found = tried[f"{part_name}, cheat {cheat}"]
            assert found.startswith("not the same work ("), found
            assert re.search(reason if part_name == "part9" else re.escape(reason), found), found
