"""A connection to the room: so many from one address, and each has to ask for something soon."""

import asyncio
from collections import Counter
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_FROM_ADDRESS = 500
"""The most connections of one address at once; a class behind one address has a few for each participant."""

ASK_WITHIN_S = 10.0
"""The time in which the first request has to come; uvicorn itself waits for it without end."""


class BoundedConnection(H11Protocol):
    """Hangs up on an address that has too many connections, and on whoever asks for nothing."""

    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a connection, and close it unless a request comes in time."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._open[self._address] += 1
        if self._open[self._address] > MAX_FROM_ADDRESS:
            transport.abort()
        self._asking = self.loop.call_later(ASK_WITHIN_S, self._require_request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        super().connection_lost(exc)
        self._asking.cancel()
        self._open[self._address] -= 1

    def _require_request(self) -> None:
        if self.cycle is None:
            self.transport.abort()
