"""A server on the loopback interface that holds the archives of a small set and misbehaves in every way one can."""

import hashlib
import http.server
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from workshop.pets import download as download_module
from workshop.pets.layout import SPLITS, PetFolder, photos_folder, stand_in_folder


@dataclass
class Server:
    """Serves `files`; says in `requests` where each request for them began."""

    files: dict[str, bytes]
    cut_after: int | None = None  # bytes of one answer, after which the connection is dropped
    answers_to_give: int | None = None  # after that many it drops every connection at once
    ranges: bool = True
    login_page: bool = False
    delay_s: float = 0.0  # before each 4 KB
    silent_s: float = 0.0  # before an answer begins
    dropped: int = 0
    requests: list[tuple[str, int]] = field(default_factory=list)
    address: str = ""

    def archives(self) -> dict[str, str]:
        return {name: hashlib.md5(body).hexdigest() for name, body in self.files.items()}

    def save(self, folder: Path) -> Path:
        """Write the files into a new folder."""
        folder.mkdir()
        for name, body in self.files.items():
            (folder / name).write_bytes(body)
        return folder


@pytest.fixture(scope="session")
def archive_files(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small set, packed as the real one is: two pictures of each split."""
    small, whole = PetFolder(tmp_path_factory.mktemp("archives"), ""), stand_in_folder(data)
    small.images.mkdir(parents=True)
    small.annotations.mkdir()
    for split in SPLITS:
        lines = whole.list_file(split).read_text().splitlines()[:2]
        small.list_file(split).write_text("\n".join(lines))
        for image_id in small.image_ids(split):
            shutil.copy(whole.images / f"{image_id}.jpg", small.images)
    for folder in (small.annotations, small.images):
        shutil.make_archive(str(folder), "gztar", small.base, folder.name)
    return {path.name: path.read_bytes() for path in sorted(small.base.glob("*.tar.gz"))}


@pytest.fixture
def server(archive_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("WORKSHOP_OFFLINE")
    monkeypatch.setattr(download_module, "_PAUSE_S", 0.0)
    monkeypatch.setattr(download_module, "_SILENCE_S", 1.0)
    state = Server(dict(archive_files))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            time.sleep(state.silent_s)
            if state.answers_to_give is not None and len(state.requests) >= state.answers_to_give:
                self.close_connection = True
                state.dropped += 1
                return
            body = b"<html>Welcome to the wifi</html>" if state.login_page else state.files.get(name)
            if body is None:
                self.send_error(404)
                return
            range_ = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(range_[1]) if range_ and state.ranges else 0
            state.requests.append((name, start))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Type", "text/html" if state.login_page else "application/gzip")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            sent = body[start:] if state.cut_after is None else body[start : start + state.cut_after]
            for position in range(0, len(sent), 4096):
                time.sleep(state.delay_s)
                try:
                    self.wfile.write(sent[position : position + 4096])
                except OSError:  # the client was killed
                    return

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state.address = f"http://127.0.0.1:{httpd.server_port}"
        threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
        yield state
        httpd.shutdown()


def require_whole(root: Path) -> None:
    photos_folder(root).require_complete()
    from torchvision.datasets import OxfordIIITPet

    pets = OxfordIIITPet(root)
    assert len(pets) == 2
    assert pets[1][0].mode == "RGB"
    assert {path.name for path in root.iterdir()} == {"oxford-iiit-pet", ".oxford-iiit-pet.lock"}
