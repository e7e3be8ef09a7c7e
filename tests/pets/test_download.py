"""Downloads over a real connection, from a server that misbehaves."""

import errno
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_server import Server, require_whole
from conftest import Run
from torchvision.datasets import OxfordIIITPet

from workshop.errors import DownloadError
from workshop.pets import download as download_module
from workshop.pets.download import ARCHIVES, download, why_unreachable
from workshop.pets.layout import SOURCE, PetFolder, photos_folder

Fetch = Callable[[], None]


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """The file in which the images arrive."""
    return tmp_path / ".oxford-iiit-pet.partial" / "images.tar.gz"


@pytest.fixture
def fetch(server: Server, tmp_path: Path) -> Fetch:
    """Download what the server had before the test, and see that the set is whole."""
    archives = server.archives()

    def download_whole() -> None:
        download(tmp_path, server.address, archives)
        require_whole(tmp_path)

    return download_whole


def test_the_archives_are_those_that_torchvision_knows() -> None:
    assert {(f"{SOURCE}/{name}", md5) for name, md5 in ARCHIVES.items()} == set(OxfordIIITPet._RESOURCES)


def test_a_download_that_is_cut_again_and_again_goes_on_where_it_was(server: Server, fetch: Fetch) -> None:
    server.cut_after = 100_000
    fetch()
    starts = [start for name, start in server.requests if name == "images.tar.gz"]
    assert starts == list(range(0, len(server.files["images.tar.gz"]), 100_000))
    assert len(starts) > 2


def test_a_server_that_cannot_resume_takes_nothing_away(server: Server, fetch: Fetch, partial: Path) -> None:
    """It sends all from the beginning each time, and may be cut earlier than the last time."""
    server.ranges = False
    for cut_after in (100_000, 30_000):
        server.cut_after = cut_after
        with pytest.raises(DownloadError, match=r"; 0\.1 MB have arrived and are kept"):
            fetch()
        assert partial.read_bytes() == server.files["images.tar.gz"][:100_000]
    server.cut_after = None
    fetch()


def test_a_dead_connection_is_an_error_that_keeps_what_arrived(server: Server, fetch: Fetch, tmp_path: Path) -> None:
    server.cut_after, server.answers_to_give = 50_000, 2  # the annotations, and once a part of the images
    with pytest.raises(DownloadError, match=r"images.tar.gz cannot be fetched .*; 0\.\d MB have arrived and are kept"):
        fetch()
    assert not photos_folder(tmp_path).exists()
    assert server.dropped == 3

    server.cut_after, server.answers_to_give = None, None
    server.requests.clear()
    fetch()
    assert ("images.tar.gz", 50_000) in server.requests


def test_a_silent_server_is_given_up(server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "_SILENCE_S", 0.2)
    server.delay_s = 1.0
    with pytest.raises(DownloadError, match="timed out"):
        fetch()


def test_a_damaged_archive_is_deleted_and_nothing_is_left_in_place(
    server: Server, fetch: Fetch, tmp_path: Path
) -> None:
    server.files["images.tar.gz"] = server.files["images.tar.gz"][:-1] + b"?"
    with pytest.raises(DownloadError, match=r"images.tar.gz is not the archive it should be, or was damaged"):
        fetch()
    assert not photos_folder(tmp_path).exists()
    assert not list(tmp_path.glob("**/images.tar.gz"))


def test_a_login_page_does_not_replace_what_has_arrived(server: Server, fetch: Fetch, partial: Path) -> None:
    partial.parent.mkdir()
    partial.write_bytes(server.files["images.tar.gz"][:60_000])
    server.login_page = True
    with pytest.raises(DownloadError, match="a web page came instead"):
        fetch()
    assert partial.stat().st_size == 60_000
    server.login_page = False
    fetch()


@pytest.mark.parametrize("address", ["http://[bad", "://x", "file:///etc", "http://127.0.0.1/ä"])
def test_an_address_that_is_none_is_refused_at_once(address: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="is no address to fetch from"):
        download(tmp_path, address, server.archives())


def test_a_network_that_goes_away_is_tried_again(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """No route to the host, in the middle of an answer, cannot be had on the loopback interface: it is raised here."""
    read, failures = http.client.HTTPResponse.read, iter([True, False, True])

    def unreliable_read(self: http.client.HTTPResponse, *arguments: int) -> bytes:
        if next(failures, False):
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        return read(self, *arguments)

    monkeypatch.setattr(http.client.HTTPResponse, "read", unreliable_read)
    fetch()


def test_what_has_arrived_whole_is_not_asked_for_again(
    server: Server, fetch: Fetch, partial: Path, tmp_path: Path
) -> None:
    """Nor is what a run has left that was killed while it unpacked."""
    half = PetFolder(server.save(partial.parent), "")
    half.images.mkdir(parents=True)
    half.annotations.mkdir()
    (half.images / "left_over_1.jpg").write_bytes(b"half a pict")
    half.list_file("trainval").write_text("left_over_1 1 1")
    fetch()
    assert not (photos_folder(tmp_path).images / "left_over_1.jpg").exists()
    assert server.requests == []


def test_a_missing_archive_is_named(server: Server, fetch: Fetch, tmp_path: Path) -> None:
    del server.files["annotations.tar.gz"]
    with pytest.raises(DownloadError, match=r"annotations.tar.gz answers 404"):
        fetch()
    with pytest.raises(DownloadError, match=r"there is no .*nowhere/annotations.tar.gz; name a folder that holds it"):
        download(tmp_path, str(tmp_path / "nowhere"))


def test_too_little_room_is_said_before_anything_is_fetched(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "SPACE_BYTES", 10**18)
    with pytest.raises(DownloadError, match=r"needs .* GB, and .* GB free"):
        fetch()
    assert server.requests == []


def test_a_killed_download_goes_on(server: Server, fetch: Fetch, partial: Path, tmp_path: Path) -> None:
    server.delay_s = 0.02
    arguments = f"Path(), {server.address!r}, {server.archives()!r}"
    code = f"from pathlib import Path; from workshop.pets.download import download; download({arguments})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL) as fetching:
        while not (partial.exists() and partial.stat().st_size > 20_000):
            assert fetching.poll() is None
            time.sleep(0.01)
        fetching.kill()
    assert not photos_folder(tmp_path).exists()

    server.delay_s = 0.0
    server.requests.clear()
    fetch()
    assert server.requests[-1][1] >= 20_000


def test_a_second_download_into_the_same_folder_is_refused(server: Server, fetch: Fetch, tmp_path: Path) -> None:
    server.delay_s = 0.05
    first = threading.Thread(target=fetch)
    first.start()
    while not server.requests:
        time.sleep(0.01)
    with pytest.raises(DownloadError, match="another process is downloading"):
        fetch()
    server.delay_s = 0.0
    first.join()
    require_whole(tmp_path)


def test_a_folder_will_do_also_where_the_network_is_forbidden(
    server: Server, workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKSHOP_OFFLINE", "1")
    stick = server.save(tmp_path / "a stick")
    download(tmp_path / "whole", str(stick), server.archives())
    require_whole(tmp_path / "whole")
    with pytest.raises(DownloadError, match="forbidden by WORKSHOP_OFFLINE"):
        download(tmp_path / "elsewhere", server.address, server.archives())
    assert server.requests == []

    fetched = workshop("data", "download", "--from", "a stick")  # the command wants the real archives
    assert fetched.returncode == 2
    assert "annotations.tar.gz is damaged, its MD5 checksum is not 95a8c9" in fetched.stderr
    assert (stick / "annotations.tar.gz").exists()
    assert "Traceback" not in fetched.stderr
    assert not (tmp_path / "datasets" / "oxford-iiit-pet").exists()


def test_why_a_source_is_out_of_reach(server: Server) -> None:
    assert why_unreachable(server.address, 5.0) is None
    server.login_page = True
    assert "a web page came instead" in str(why_unreachable(server.address, 5.0))
    server.login_page, server.answers_to_give = False, 0
    assert "closed connection" in str(why_unreachable(server.address, 5.0))
    assert why_unreachable("http://127.0.0.1:9", 5.0) == "Connection refused"
    server.answers_to_give, server.silent_s = None, 2.0
    assert why_unreachable(server.address, 0.2) == "no answer within 0.2 s"
