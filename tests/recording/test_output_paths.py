"""No recording overwrites another."""

from pathlib import Path

import pytest

from workshop.recording.output_paths import identity, output_path


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"SLURM_NODEID": "3", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "4"}, ["node3"]),
        ({"SLURM_NODEID": "1", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, ["node1", "rank5"]),
        ({"RANK": "2", "GROUP_RANK": "0"}, ["node0", "rank2"]),
    ],
)
def test_files_are_named_by_node_and_rank(environment: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    assert identity(environment) == expected
    first = output_path(f"{tmp_path}/out/", "profile.raw", environment)
    assert first == tmp_path / "out" / ("_".join(["profile", *expected]) + ".raw")
    first.touch()
    assert output_path(f"{tmp_path}/out", "profile.raw", environment) == first.with_name(f"{first.stem}-2.raw")
    assert output_path(f"{tmp_path}/mine.txt", "profile.raw", environment).name.startswith("mine")
