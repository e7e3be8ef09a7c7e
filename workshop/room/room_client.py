"""Talks to the room over HTTP, directly and without a proxy: the room is in the same network."""

import http.client
import ssl
import time
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from workshop.errors import WorkshopError
from workshop.room.posts import JoinAnswer, JoinPost, Post, Refusal, RoomReport

Answer = TypeVar("Answer")


class UnreachableError(Exception):
    """The room does not answer, or cannot keep anything now: it is to be tried again later."""


@dataclass
class AnsweredNoError(Exception):
    """The room refuses what was sent."""

    status: int
    refusal: Refusal

    def __str__(self) -> str:
        """Return why."""
        return self.refusal.error


class RoomClient:
    """A connection to a room, which is opened when it is needed.

    Args:
        address: the room's address, as `normal_address` returns it.
        certificate: the file with the certificate that TLS is checked by; "" for those that the system trusts.
        silence_s: after so long without an answer, the room counts as unreachable.

    Raises:
        WorkshopError: the certificate cannot be used.
    """

    def __init__(self, address: str, certificate: str = "", silence_s: float = 2.0) -> None:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        self._base = parts.path
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=certificate or None)
            except (OSError, ssl.SSLError) as error:
                raise WorkshopError(f"the certificate {certificate} cannot be used: {error}") from None
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=silence_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=silence_s)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def join(self, code: str, name: str) -> JoinAnswer:
        """Join the room.

        Raises:
            UnreachableError: it does not answer as a room does.
            AnsweredNoError: it does not let this name in.
        """
        return self._post("/api/join", JoinPost(code, name), JoinAnswer)

    def send(self, report: RoomReport, token: str) -> None:
        """Send a report; return when the room has kept it, now or before.

        Raises:
            UnreachableError: as `join`.
            AnsweredNoError: the room does not want it.
        """
        try:
            self._post("/api/reports", Post(time.time(), report), dict[str, str], token)
        except AnsweredNoError as error:
            if not error.refusal.kept:
                raise

    def leave(self, token: str) -> None:
        """Tell the room that the participant leaves; raise as `send` does."""
        self._post("/api/leave", {}, dict[str, str], token)

    def _post(self, path: str, body: object, kind: type[Answer], token: str = "") -> Answer:
        headers = {"Content-Type": "application/json", "User-Agent": "profiling-workshop"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._connection.request("POST", self._base + path, msgspec.json.encode(body), headers)
            response = self._connection.getresponse()
            content = response.read(65_536)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise UnreachableError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
        is_refusal = 400 <= response.status < 500 and response.status not in (408, 429)
        try:
            if is_refusal:
                raise AnsweredNoError(response.status, msgspec.json.decode(content, type=Refusal))
            if response.status in (200, 201):
                return msgspec.json.decode(content, type=kind)
            if response.status >= 400:
                raise UnreachableError(msgspec.json.decode(content, type=Refusal).error)
        except msgspec.DecodeError:
            pass
        raise UnreachableError("something else answers there, perhaps a network's login page")


def normal_address(address: str) -> str:
    """Return a room's address with its scheme, and without a slash at its end.

    Raises:
        WorkshopError: it is none.
    """
    text = address.strip().rstrip("/")
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
        valid = valid and parts.port != 0 and parts.username is None and text.isprintable() and " " not in text
    except ValueError:
        valid = False
    if not valid:
        raise WorkshopError(f"{address} is no address of a room; the board shows it, such as http://192.168.1.5:8000")
    return text
