"""What the class gets: packages by pip, the photos, any file in ranges; and nothing else."""

import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from classroom.conftest import OpenRoom, RunningRoom

from workshop.classroom.shared_files import SUMS, SharedFiles, normalised
from workshop.classroom.store import Store
from workshop.pets.download import download


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


def test_pip_installs_from_the_room_alone(open_room: OpenRoom, share: Path, tmp_path: Path) -> None:
    wheel = a_wheel(share / "wheelhouse")
    room = open_room(share)
    shared_by(room, wheel.name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "install",
        "--no-cache-dir",
        "--target",
        str(tmp_path / "here"),
    ]
    subprocess.run(
        [*command, "--index-url", f"{room.address}/simple/", "tiny.package"], check=True, capture_output=True
    )
    assert (tmp_path / "here/tiny_package.py").read_text() == "answer = 42\n"


def test_pip_refuses_what_was_damaged_on_the_way(open_room: OpenRoom, share: Path, tmp_path: Path) -> None:
    """The hash on the page is that of the file as it was found."""
    wheel = a_wheel(share)
    room = open_room(share)
    shared_by(room, wheel.name)
    status = wheel.stat()
    content = bytearray(wheel.read_bytes())
    content[40] ^= 1
    wheel.write_bytes(content)
    os.utime(wheel, ns=(status.st_atime_ns, status.st_mtime_ns))
    command = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "download",
        "--no-cache-dir",
        "--dest",
        str(tmp_path / "here"),
    ]
    done = subprocess.run(
        [*command, "--index-url", f"{room.address}/simple/", "tiny-package"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_photos_come_from_the_room_and_go_on_where_they_were_cut_off(
    open_room: OpenRoom, share: Path, tmp_path: Path, archive_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-9", 206, slice(0, 10)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-7", 206, slice(-7, None)),
        ("bytes=5000-", 416, None),
        ("bytes=9-1", 400, None),
    ],
)
def test_ranges(open_room: OpenRoom, share: Path, asked: str, status: int, part: slice | None) -> None:
    content = bytes(range(250)) * 20
    (share / "a file.bin").write_bytes(content)
    room = open_room(share)
    shared_by(room, "a file.bin")
    got, body = room.ask("GET", "/files/a%20file.bin", Range=asked)
    assert got == status
    assert part is None or body == content[part]


def test_hashes_are_as_sha256sum_reads_them(open_room: OpenRoom, share: Path) -> None:
    (share / "a.bin").write_bytes(b"content")
    room = open_room(share)
    shared_by(room, "a.bin")
    (share / SUMS).write_bytes(room.ask("GET", f"/files/{SUMS}")[1])
    checked = subprocess.run(["sha256sum", "--check", SUMS], cwd=share, capture_output=True, text=True)
    assert checked.stdout == "a.bin: OK\n"


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


def test_thirty_downloads_are_whole_and_the_board_answers_meanwhile(open_room: OpenRoom, share: Path) -> None:
    content = os.urandom(1 << 20) * 20
    (share / "big.bin").write_bytes(content)
    room = open_room(share)
    shared_by(room, "big.bin")
    right = []

    def fetch() -> None:
        right.append(room.ask("GET", "/files/big.bin")[1] == content)

    threads = [threading.Thread(target=fetch) for _ in range(30)]
    for thread in threads:
        thread.start()
    boards = 0
    while any(thread.is_alive() for thread in threads):
        assert room.ask("GET", "/api/board")[0] == 200
        boards += 1
    assert right == [True] * 30
    assert boards > 1
