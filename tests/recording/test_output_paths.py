"""No recording overwrites another."""

from pathlib import Path

import pytest

from workshop.recording.output_paths import output_path


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "profile.raw"),
        ({"SLURM_NODEID": "3", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "4"}, "profile_node3.raw"),
        (
            {"SLURM_NODEID": "1", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"},
            "profile_node1_rank5.raw",
        ),
        ({"RANK": "2", "GROUP_RANK": "0"}, "profile_node0_rank2.raw"),
    ],
)
def test_files_are_named_by_node_and_rank(environment: dict[str, str], name: str, tmp_path: Path) -> None:
    first = output_path(f"{tmp_path}/out/", "profile.raw", environment)
    assert first == tmp_path / "out" / name
    first.touch()
    assert output_path(f"{tmp_path}/out", "profile.raw", environment) == first.with_name(f"{first.stem}-2.raw")
    assert output_path(f"{tmp_path}/mine.txt", "profile.raw", environment).name.startswith("mine")
