"""Serves the room until it is ended, at the address that it was told."""

import asyncio
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from workshop.errors import WorkshopError
from workshop.room.open_room import OpenRoom
from workshop.room.posts import REQUEST_WITHIN_S
from workshop.room.shared_files import SharedFiles
from workshop.room.store import Store
from workshop.room.web_app import web_app

MAX_CONNECTIONS = 2000
"""Connections, at most, at once; a class has a few for each participant."""

MAX_FROM_ADDRESS = 500
"""Connections, at most, of one address at once, behind which a whole class may be."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every answer: they confine a page to what the room serves itself."""


@dataclass(frozen=True)
class ServedAt:
    """Where a room is served.

    Args:
        host: the address of this machine that it listens on.
        port: its port; 0 for one that is free.
        certificate: the file with the certificate, for TLS; None for none.
        private_key: the file with its private key, if it is another one.
        address: the address that others type, if it is another one.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None
    address: str = ""


class BoundedConnection(H11Protocol):
    """A connection to the room, which hangs up on an address that has too many, and on whoever asks for nothing."""

    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a connection, and close it unless a request comes in time."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._open[self._address] += 1
        if self._open[self._address] > MAX_FROM_ADDRESS:
            transport.abort()
        self._asking = self.loop.call_later(REQUEST_WITHIN_S, self._require_request)  # uvicorn waits without end

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        super().connection_lost(exc)
        self._asking.cancel()
        self._open[self._address] -= 1

    def _require_request(self) -> None:
        if self.cycle is None:
            self.transport.abort()


def serve(
    database: str,
    share: Path | None,
    at: ServedAt,
    parts: dict[str, str],
    say: Callable[[OpenRoom, str], None],
    server: Callable[[uvicorn.Config], uvicorn.Server] = uvicorn.Server,
) -> None:
    """Serve a room until SIGINT or SIGTERM.

    Args:
        database: the path of an SQLite file, or the URL of a PostgreSQL database.
        share: the folder whose files the class gets; None for none.
        at: where.
        parts: the names of the parts, in order, with their titles.
        say: told of the room, and what it listens on, once it does.
        server: makes the server, which whoever calls this from a thread may end.

    Raises:
        WorkshopError: the database, the address, the certificate or the folder cannot be used.
    """
    if share and not share.is_dir():
        raise WorkshopError(f"there is no folder {share}")
    _refuse_to_share_secrets(share, database, at)
    _raise_limit_of_files()
    listening = _listen(at)
    port = listening.getsockname()[1]
    scheme = "https" if at.certificate else "http"
    address = at.address or f"{scheme}://{_reached_at(at.host)}:{port}"
    store = Store(database)
    room = OpenRoom(store, parts, address.rstrip("/"))
    config = uvicorn.Config(
        web_app(room, SharedFiles(share, room.with_store)),
        http=BoundedConnection,
        log_level="warning",
        access_log=False,
        server_header=False,
        headers=list(HEADERS.items()),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=16_384,
        ssl_certfile=at.certificate,
        ssl_keyfile=at.private_key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise WorkshopError(f"the certificate {at.certificate} cannot be used: {error}") from None
    say(room, f"{at.host}:{port}")
    try:
        server(config).run(sockets=[listening])
    finally:
        room.close()
        store.close()


def _refuse_to_share_secrets(share: Path | None, database: str, at: ServedAt) -> None:
    """Raise an error if the folder that everybody gets has the room's database, or its private key."""
    secrets = [None if "://" in database else Path(database), at.private_key or at.certificate]
    for secret in filter(None, secrets):
        if share and secret.resolve().is_relative_to(share.resolve()):
            raise WorkshopError(f"{secret} lies in {share}, so the whole class could fetch it; keep it elsewhere")


def _listen(at: ServedAt) -> socket.socket:
    try:
        family = socket.getaddrinfo(at.host or None, at.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((at.host, at.port))
        listening.listen(MAX_CONNECTIONS)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkshopError(f"cannot listen on {at.host}:{at.port} ({reason}); choose others: --host, --port") from None
    return listening


def _raise_limit_of_files() -> None:
    """Raise the usual limit of 256 or 1024: a connection is an open file, and so is what it downloads."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * MAX_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _reached_at(host: str) -> str:
    """Return the host at which others reach what listens on this one, as it stands in a URL."""
    if host not in ("0.0.0.0", "::", ""):
        return f"[{host}]" if ":" in host else host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:  # nothing is sent: it only chooses the way out
        try:
            asking.connect(("192.0.2.1", 9))
            return asking.getsockname()[0]
        except OSError:
            return socket.gethostname()
