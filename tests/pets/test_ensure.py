"""Which pictures a run gets, and what becomes of it where they cannot be had."""

import shutil
from pathlib import Path

import pytest
from archive_server import Server, require_whole

from workshop.errors import DataError, DownloadError
from workshop.pets import ensure
from workshop.pets.download import download
from workshop.pets.layout import photos_folder, stand_in_folder


def test_the_photos_are_downloaded_if_they_can_be_had(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensure, "download", lambda data, source: download(data, source, server.archives()))
    assert ensure.ensure_pets(tmp_path, "auto", server.address) == tmp_path
    require_whole(tmp_path)
    asked = len(server.requests)
    assert ensure.ensure_pets(tmp_path, "auto", server.address) == tmp_path
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    "trouble",
    [{"login_page": True}, {"answers_to_give": 0}, {}],
    ids=["login page", "dropped", "damaged"],
)
def test_else_the_stand_in_with_one_line(
    trouble: dict[str, int],
    server: Server,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "stand-in").symlink_to(data / "stand-in")
    monkeypatch.setenv("WORKSHOP_OFFLINE", "0")
    vars(server).update(trouble)
    assert ensure.ensure_pets(tmp_path, "auto", server.address) == tmp_path / "stand-in"
    line, command = capsys.readouterr().err.replace("\r", "\n").splitlines()[-2:]
    assert line.startswith("Using generated pictures instead of photos (")
    assert (line[-17:], command) == (". For the photos:", f"    workshop data download --data {tmp_path}")
    assert not photos_folder(tmp_path).exists()
    with pytest.raises(DownloadError):
        ensure.ensure_pets(tmp_path, "oxford-pets", server.address)


def test_offline_it_is_the_stand_in_without_a_word(
    server: Server, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stand-in").symlink_to(data / "stand-in")
    monkeypatch.setenv("WORKSHOP_OFFLINE", "1")
    assert ensure.ensure_pets(tmp_path, "auto", server.address) == tmp_path / "stand-in"
    assert (capsys.readouterr().err, server.requests) == ("", [])
    with pytest.raises(DownloadError):
        ensure.ensure_pets(tmp_path, "oxford-pets", server.address)


def test_an_incomplete_set_is_an_error_and_not_a_reason_for_the_stand_in(data: Path, tmp_path: Path) -> None:
    shutil.copytree(stand_in_folder(data).annotations, photos_folder(tmp_path).annotations)
    for dataset in ("auto", "oxford-pets"):
        with pytest.raises(DataError, match="740 missing"):
            ensure.ensure_pets(tmp_path, dataset)
    photos_folder(tmp_path).images.write_text("a file in place of a folder")
    with pytest.raises(DataError, match="740 missing"):
        ensure.ensure_pets(tmp_path, "auto")


def test_a_folder_that_may_not_be_written_may_hold_the_stand_in(
    server: Server, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stand-in").symlink_to(data / "stand-in")
    (tmp_path / ".oxford-iiit-pet.partial").write_text("a file where the download needs a folder")
    assert ensure.ensure_pets(tmp_path, "auto", server.address) == tmp_path / "stand-in"
    assert ".oxford-iiit-pet.partial: File exists" in capsys.readouterr().err


def test_a_set_in_the_place_of_the_data_folder_is_not_drawn_into(data: Path) -> None:
    for dataset in ("auto", "oxford-pets", "stand-in"):
        with pytest.raises(DataError, match="is a set of pictures itself; name the folder that holds it: "):
            ensure.ensure_pets(stand_in_folder(data).base, dataset)
