"""The room itself: who may do what, and what is kept; it knows nothing of HTTP."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from workshop.room.posts import JoinAnswer, JoinPost, Post, clean_name
from workshop.room.standings import Standings
from workshop.room.store import GroupCommit, Kept, Participant, Presence, ReceivedReport, Store

MAX_PARTICIPANTS = 1000
"""Participants, at most, at once; who has left or was removed does not count."""

Value = TypeVar("Value")


class RefusedError(Exception):
    """The room refuses something.

    Args:
        status: the status of the answer, 400 to 499.
        says: why, in a sentence.
        kept: whether it is because the same is there already.
    """

    def __init__(self, status: HTTPStatus, says: str, kept: bool = False) -> None:
        super().__init__(says)
        self.status, self.kept = status, kept


class RateLimit:
    """How often somebody may ask for something: a bucket of permits for each key, which fills again with time.

    Args:
        burst: how many permits a full bucket has.
        per_s: how many come back in a second.
    """

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, key: str) -> bool:
        """Take a permit, and return whether there was one."""
        left = self._left(key)
        self._buckets[key] = (left - 1 if left >= 1 else left, time.monotonic())
        if len(self._buckets) > 10_000:  # forget those that have their whole burst again
            self._buckets = {each: kept for each, kept in self._buckets.items() if self._left(each) < self._burst}
        return left >= 1

    def is_spent(self, key: str) -> bool:
        """Return whether there is no permit, and take none."""
        return self._left(key) < 1

    def _left(self, key: str) -> float:
        now = time.monotonic()
        left, then = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + (now - then) * self._per_s)


class OpenRoom:
    """A class, its results, and its rules; all that changes it is on disk before it is answered.

    Args:
        store: where everything is kept.
        parts: the names of the parts, in order, with their titles.
        address: the address that participants type.
    """

    def __init__(self, store: Store, parts: dict[str, str], address: str) -> None:
        self.address = address
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._reports: GroupCommit[ReceivedReport, Kept] = GroupCommit(store.keep, self._thread)
        self._settings = store.settings()
        self._standings = Standings(parts)
        self._tokens: dict[str, str] = {}
        self._joining = asyncio.Lock()
        self._joins = RateLimit(burst=250, per_s=0.2)
        """Of those who join, by address, which a whole class may share."""
        self._by_token = RateLimit(burst=60, per_s=2.0)
        self._failures = RateLimit(burst=60, per_s=1.0)
        """Of those who know neither code nor token, by address: a whole class may share one."""
        self._board: dict[str, bytes] = {}
        for participant in store.participants():
            self._admit(participant)
        for received in store.reports():
            self._standings.add(received)

    @property
    def code(self) -> str:
        """What participants type to join."""
        return self._settings["code"]

    @property
    def key(self) -> str:
        """What the instructor shows to use the controls."""
        return self._settings["key"]

    @property
    def instructor_link(self) -> str:
        """The address of the instructor's page, with the key in a part that no browser sends."""
        return f"{self.address}/instructor#{self.key}"

    @property
    def kept_in(self) -> str:
        """The database, without a password."""
        return self._store.name

    def close(self) -> None:
        """Write what is on its way, and end."""
        self._thread.shutdown()

    def with_store(self, call: Callable[[Store], Value]) -> Value:
        """Call the store from another thread, and wait for it."""
        return self._thread.submit(call, self._store).result()

    async def in_store(self, call: Callable[[Store], Value]) -> Value:
        """Call the store where it may be called."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, self._store)

    def require_patience(self, address: str) -> None:
        """Raise a RefusedError if too much from an address has been refused lately."""
        if self._failures.is_spent(address):
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many refused requests; wait a minute")

    def note_failure(self, address: str) -> None:
        """Note that something from an address has been refused."""
        self._failures.allows(address)

    async def join(self, post: JoinPost, address: str) -> JoinAnswer:
        """Let somebody in who knows the code.

        Raises:
            RefusedError: a wrong code, a name that is taken or cannot be shown, nobody may join any more, or too many
                have joined from this address.
        """
        code = post.code.strip().upper().replace("-", "")
        if not hmac.compare_digest(code.encode(), self.code.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, "this is not the code of this room: it is on the board")
        try:
            name = clean_name(post.name)
        except ValueError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from None
        async with self._joining:
            if not self._settings["joining"] or self._standings.count_here() >= MAX_PARTICIPANTS:
                raise RefusedError(HTTPStatus.FORBIDDEN, "nobody may join this room any more: ask the instructor")
            self._require_free(name)
            if not self._joins.allows(address):
                raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many join from this address; wait a minute")
            token = secrets.token_urlsafe(32)
            participant = Participant(secrets.token_hex(16), name, _hash(token), time.time())
            await self.in_store(lambda store: store.join(participant))
            self._admit(participant)
        return JoinAnswer(participant.id, token, name)

    def knows(self, secret: str) -> bool:
        """Return whether a secret is a participant's token, or the instructor's key."""
        return _hash(secret) in self._tokens or hmac.compare_digest(secret.encode(), self.key.encode())

    def who(self, token: str) -> str:
        """Return the participant that a token belongs to.

        Raises:
            RefusedError: it is nobody's, or that of somebody who was removed; or they ask too often.
        """
        participant = self._tokens.get(_hash(token))
        if participant is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the room does not know you: workshop leave, and join again")
        if self._standings.people[participant].state is Presence.REMOVED:
            raise RefusedError(HTTPStatus.FORBIDDEN, "the instructor has removed you from the room")
        if not self._by_token.allows(participant):
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many at once; wait a minute")
        return participant

    async def keep(self, participant: str, post: Post) -> None:
        """Keep a report.

        Raises:
            RefusedError: it is of no part, contradicts itself, or its id is known.
        """
        report = post.report
        if report.part not in self._standings.parts:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"there is no {report.part}")
        if problem := report.problem():
            raise RefusedError(HTTPStatus.BAD_REQUEST, problem)
        now = time.time()
        a_week_s = 7 * 86_400.0  # what is older counts as that old: nobody's clock moves the board by years
        happened_at = now - min(max(post.now - report.at, 0.0), a_week_s)
        received = ReceivedReport(participant, now, happened_at, report)
        kept = await self._reports.keep(received)
        if kept is Kept.AGAIN:
            raise RefusedError(HTTPStatus.CONFLICT, "this has arrived before", kept=True)
        if kept is Kept.OTHER:
            raise RefusedError(HTTPStatus.CONFLICT, "something else has arrived under this id, and stays")
        self._standings.add(received)

    async def leave(self, participant: str) -> None:
        """Note that somebody has left; their results stay."""
        await self._set_presence(participant, Presence.LEFT)

    def require_key(self, key: str) -> None:
        """Raise a RefusedError unless the instructor's key is shown."""
        if not hmac.compare_digest(key.encode(), self.key.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, "this needs the instructor's key, which workshop room has printed")

    async def control(self, name: str, value: Any) -> None:
        """Use one of the instructor's controls: `hide_names`, `joining`, `remove` or `readmit`.

        Raises:
            RefusedError: there is no such control, or no such participant; or another has taken the name of the one
                who is readmitted.
        """
        if name in ("hide_names", "joining") and isinstance(value, bool):
            await self.in_store(lambda store: store.set(name, "1" if value else ""))
            self._settings[name] = "1" if value else ""
            self._standings.version += 1
        elif name == "remove" and value in self._standings.people:
            await self._set_presence(value, Presence.REMOVED)
        elif name == "readmit" and value in self._standings.people:
            await self._readmit(value)
        else:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "there is no such control")

    def board_version(self) -> str:
        """Return what changes when the board does, at the latest after ten seconds: people get stuck by waiting."""
        return f"{self._standings.version}-{int(time.time() // 10)}"

    def board(self, commands: Sequence[tuple[str, str]]) -> bytes:
        """Return the board as JSON; `commands` get the class what is shared, each with what it is."""
        version = f"{self.board_version()}{commands}"
        if version not in self._board:
            now, hide_names = time.time(), bool(self._settings["hide_names"])
            room = {"address": self.address, "code": self.code, "joining": bool(self._settings["joining"])}
            about = {"now": now, "commands": commands, "hide_names": hide_names} | room
            found = about | self._standings.board(now, hide_names)
            self._board = {version: msgspec.json.encode(found)}
        return self._board[version]

    async def results(self) -> list[dict[str, Any]]:
        """Return a row for each report, for the instructor."""
        people = self._standings.people
        received = await self.in_store(lambda store: store.reports())
        return [
            {"name": people[item.participant].name, "participant": item.participant}
            | {"received_at": item.received_at, "happened_at": item.happened_at}
            | {name: getattr(item.report, name) for name in item.report.__struct_fields__ if name != "at"}
            for item in received
        ]

    def people(self) -> list[dict[str, Any]]:
        """Return who has joined, by their real names, for the instructor."""
        return [
            {"id": person.id, "name": person.name, "state": person.state.value, "machine": person.machine}
            for person in self._standings.people.values()
        ]

    async def _readmit(self, participant: str) -> None:
        async with self._joining:
            person = self._standings.people[participant]
            if person.state is not Presence.HERE:
                self._require_free(person.name)
                await self._set_presence(participant, Presence.HERE)

    def _require_free(self, name: str) -> None:
        """Raise a RefusedError if somebody who takes part is called so."""
        if self._standings.is_taken(name):
            raise RefusedError(HTTPStatus.CONFLICT, f"there is a {name} in the room already: take another name")

    async def _set_presence(self, participant: str, state: Presence) -> None:
        await self.in_store(lambda store: store.set_presence(participant, state))
        self._standings.set_presence(participant, state)

    def _admit(self, participant: Participant) -> None:
        self._tokens[participant.token_hash] = participant.id
        self._standings.join(participant)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
