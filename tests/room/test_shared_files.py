"""What the class gets: packages by pip, the photos, any file in ranges; and nothing else."""

import hashlib
import http.client
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from room.conftest import OpenOne, RunningRoom

from workshop.pets.download import download
from workshop.room.shared_files import SUMS, SharedFiles, normalised
from workshop.room.store import Store


@pytest.fixture
def share(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    (folder / "wheelhouse").mkdir(parents=True)
    return folder


def a_wheel(folder: Path, project: str = "Tiny_Package", version: str = "1.0") -> Path:
    """Write a package with one module."""
    path = folder / f"{project}-{version}-py3-none-any.whl"
    info = f"{project}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{project.lower()}.py", "answer = 42\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/RECORD", f"{project.lower()}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return path


def shared_by(room: RunningRoom, name: str) -> None:
    """Wait until a file has been found."""
    deadline = time.monotonic() + 20
    while name not in room.ask("GET", f"/files/{SUMS}")[1].decode():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def files_of(folder: Path, tmp_path: Path) -> SharedFiles:
    store = Store(str(tmp_path / "room.sqlite"))
    shared = SharedFiles(folder, lambda call: call(store))
    shared.look()
    return shared


def test_the_index_for_pip_has_the_hash_of_each_file_as_it_was_found(open_room: OpenOne, share: Path) -> None:
    wheel = a_wheel(share / "wheelhouse")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    room = open_room(share)
    shared_by(room, wheel.name)
    assert 'href="tiny-package/"' in room.ask("GET", "/simple/")[1].decode()
    status = wheel.stat()
    wheel.write_bytes(bytes(reversed(wheel.read_bytes())))  # damaged, so that it is not seen to have changed
    os.utime(wheel, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert f"{wheel.name}#sha256={found}" in room.ask("GET", "/simple/tiny-package/")[1].decode()
    assert room.ask("GET", "/simple/nosuch/")[0] == 404


@pytest.mark.slow
def test_pip_installs_from_the_room_alone(open_room: OpenOne, share: Path, tmp_path: Path) -> None:
    wheel = a_wheel(share / "wheelhouse")
    room = open_room(share)
    shared_by(room, wheel.name)
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-compile"]
    command += ["--no-cache-dir", "--target", str(tmp_path / "here"), "--index-url", f"{room.address}/simple/"]
    subprocess.run([*command, "tiny.package"], check=True, capture_output=True)
    assert (tmp_path / "here/tiny_package.py").read_text() == "answer = 42\n"


def test_the_photos_come_from_the_room_and_go_on_where_they_were_cut_off(
    open_room: OpenOne, share: Path, tmp_path: Path, archive_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKSHOP_OFFLINE")
    for name, content in archive_files.items():
        (share / name).write_bytes(content)
    room = open_room(share)
    shared_by(room, "images.tar.gz")
    assert ["Photos", f"workshop data download --from {room.address}/files"] in room.board()["commands"]
    staging = tmp_path / "data/.oxford-iiit-pet.partial"
    staging.mkdir(parents=True)
    (staging / "images.tar.gz").write_bytes(archive_files["images.tar.gz"][:1000])
    known = {name: hashlib.md5(content).hexdigest() for name, content in archive_files.items()}
    download(tmp_path / "data", f"{room.address}/files", known)
    assert len(list((tmp_path / "data/oxford-iiit-pet/images").glob("*.jpg"))) == 4


def test_ranges_and_hashes(open_room: OpenOne, share: Path) -> None:
    content = bytes(range(250)) * 20
    (share / "a file.bin").write_bytes(content)
    room = open_room(share)
    shared_by(room, "a file.bin")
    for asked, status, part in (
        ("bytes=0-9", 206, slice(0, 10)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-7", 206, slice(-7, None)),
        ("bytes=5000-", 416, None),
        ("bytes=9-1", 400, None),
    ):
        got, body = room.ask("GET", "/files/a%20file.bin", Range=asked)
        assert got == status, asked
        assert part is None or body == content[part], asked
    (share / SUMS).write_bytes(room.ask("GET", f"/files/{SUMS}")[1])
    checked = subprocess.run(["sha256sum", "--check", SUMS], cwd=share, capture_output=True, text=True)
    assert checked.stdout == "a file.bin: OK\n"


def test_what_is_not_in_the_folder_is_not_shared(share: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (share / "link").symlink_to(tmp_path / "secret")
    (share / "folder").symlink_to("/etc")
    (share / ".hidden").write_text("x")
    (share / ".git").mkdir()
    (share / ".git/config").write_text("x")
    (share / "good").write_text("good")
    os.mkfifo(share / "fifo")
    assert files_of(share, tmp_path).sums().split() == [hashlib.sha256(b"good").hexdigest(), "good"]


def test_what_comes_changes_and_goes_is_found(share: Path, tmp_path: Path) -> None:
    path = share / "a"
    path.write_text("1")
    shared = files_of(share, tmp_path)
    path.write_text("22")
    shared.look()
    assert shared.sums().startswith(hashlib.sha256(b"22").hexdigest())
    path.unlink()
    shared.look()
    assert shared.sums() == ""


def test_a_name_that_is_no_utf_8_keeps_nothing_else_from_being_shared(share: Path, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(share) + b"/a-\xff")).write_text("1")
    (share / "b").write_text("2")
    assert files_of(share, tmp_path).sums().split()[1:] == ["b"]


def test_a_hash_is_computed_once(share: Path, tmp_path: Path) -> None:
    (share / "a").write_text("1")
    store = Store(str(tmp_path / "room.sqlite"))
    SharedFiles(share, lambda call: call(store)).look()
    asked: list[Any] = []
    again = SharedFiles(share, lambda call: asked.append(call(store)) or asked[-1])
    again.look()
    assert asked == [hashlib.sha256(b"1").hexdigest()]


@pytest.mark.parametrize(
    ("name", "project"),
    [
        ("torch-2.5.1+cpu-cp311-cp311-linux_x86_64.whl", "torch"),
        ("typing_extensions-4.12.2-py3-none-any.whl", "typing-extensions"),
        ("zope.interface-6.0.tar.gz", "zope-interface"),
        ("my-project-1.0.tar.gz", "my-project"),
        ("images.tar.gz", ""),
        ("workshop.tar.gz", ""),
        ("readme-1.txt", ""),
    ],
)
def test_the_project_of_a_package(share: Path, tmp_path: Path, name: str, project: str) -> None:
    (share / name).write_text("x")
    assert files_of(share, tmp_path).projects() == [project] * bool(project)
    assert normalised("A.b_-c") == "a-b-c"


def test_downloads_are_whole_and_the_board_answers_meanwhile(open_room: OpenOne, share: Path) -> None:
    content = os.urandom(1 << 20) * 8  # more than sockets hold
    (share / "big.bin").write_bytes(content)
    room = open_room(share)
    shared_by(room, "big.bin")
    downloads = [http.client.HTTPConnection(room.address.removeprefix("http://"), timeout=20) for _ in range(6)]
    for each in downloads:
        each.request("GET", "/files/big.bin")
    answers = [each.getresponse() for each in downloads]
    assert room.ask("GET", "/api/board")[0] == 200
    assert all(each.read() == content for each in answers)
    for each in downloads:
        each.close()
