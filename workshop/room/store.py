"""What the room keeps, in SQLite or PostgreSQL: what has been acknowledged is on disk."""

import asyncio
import enum
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sql
from filelock import FileLock, Timeout

from workshop.errors import WorkshopError
from workshop.room.posts import CODE_LETTERS, RoomReport

Item = TypeVar("Item")
Result = TypeVar("Result")

_metadata = sql.MetaData()
_settings = sql.Table(
    "room_settings",
    _metadata,
    sql.Column("name", sql.String(40), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
_participants = sql.Table(
    "room_participants",
    _metadata,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("name", sql.Text, nullable=False),
    sql.Column("token_hash", sql.String(64), nullable=False, unique=True),
    sql.Column("joined_at", sql.Double, nullable=False),
    sql.Column("state", sql.String(10), nullable=False),
)
_reports = sql.Table(
    "room_reports",
    _metadata,
    sql.Column("participant", sql.ForeignKey("room_participants.id"), primary_key=True),
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("received_at", sql.Double, nullable=False),
    sql.Column("happened_at", sql.Double, nullable=False),
    sql.Column("report", sql.Text, nullable=False),
)
_hashes = sql.Table(
    "room_hashes",
    _metadata,
    sql.Column("path", sql.Text, primary_key=True),
    sql.Column("size", sql.BigInteger, nullable=False),
    sql.Column("changed_ns", sql.BigInteger, nullable=False),
    sql.Column("sha256", sql.String(64), nullable=False),
)


class Presence(enum.Enum):
    """Whether somebody who has joined still takes part."""

    HERE = "here"
    LEFT = "left"
    REMOVED = "removed"


@dataclass(frozen=True)
class Participant:
    """Somebody who has joined."""

    id: str
    name: str
    token_hash: str
    joined_at: float
    state: Presence = Presence.HERE


@dataclass(frozen=True)
class ReceivedReport:
    """A report, whose it is, and when it came and happened by the room's clock, in seconds since 1970."""

    participant: str
    received_at: float
    happened_at: float
    report: RoomReport


class Kept(enum.Enum):
    """What became of a report."""

    NEW = enum.auto()
    AGAIN = enum.auto()
    """The same has been kept before."""
    OTHER = enum.auto()
    """Something else has been kept under its id; that stays."""


class StoreUnavailableError(Exception):
    """The database does not take or give anything now; nothing of the transaction has been kept."""


class Store:
    """A room's database. It is used by one thread at a time.

    Args:
        database: the path of an SQLite file, which is made if need be, or the URL of a PostgreSQL database.

    Raises:
        WorkshopError: the database cannot be used; another room uses the file; the driver is not installed.
    """

    def __init__(self, database: str) -> None:
        try:
            self._engine = sql.create_engine(_url(database), pool_pre_ping=True)
        except ModuleNotFoundError:
            raise WorkshopError(
                "a database of PostgreSQL needs: pip install 'profiling-workshop[postgresql]'"
            ) from None
        self._lock: FileLock | None = None
        if self._engine.dialect.name == "sqlite":
            self._lock = _lock(Path(database))
            sql.event.listen(self._engine, "connect", _make_durable)
        try:
            with self._transaction() as connection:
                _metadata.create_all(connection)
                if connection.execute(sql.select(_settings.c.name)).first() is None:
                    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(6))
                    rows = {"code": code, "key": secrets.token_urlsafe(24), "hide_names": "", "joining": "1"}
                    connection.execute(_settings.insert(), [{"name": n, "value": v} for n, v in rows.items()])
        except StoreUnavailableError as error:
            raise WorkshopError(f"the database {self.name} cannot be used: {error}") from None

    @property
    def name(self) -> str:
        """The file, or the URL without its password."""
        url = self._engine.url
        return str(url.database) if self._lock else url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()
        if self._lock:
            self._lock.release()

    def settings(self) -> dict[str, str]:
        """Return the join code, the instructor's key, and the switches `hide_names` and `joining`, "" for off."""
        with self._transaction() as connection:
            return {row.name: row.value for row in connection.execute(sql.select(_settings))}

    def set(self, name: str, value: str) -> None:
        """Change a setting."""
        with self._transaction() as connection:
            connection.execute(_settings.update().where(_settings.c.name == name).values(value=value))

    def join(self, participant: Participant) -> None:
        """Keep a new participant."""
        with self._transaction() as connection:
            row = {**vars(participant), "state": participant.state.value}
            connection.execute(_participants.insert(), row)

    def set_presence(self, participant: str, state: Presence) -> None:
        """Keep whether a participant takes part."""
        with self._transaction() as connection:
            chosen = _participants.update().where(_participants.c.id == participant)
            connection.execute(chosen.values(state=state.value))

    def participants(self) -> list[Participant]:
        """Return everybody who ever joined, in this order."""
        with self._transaction() as connection:
            rows = connection.execute(sql.select(_participants).order_by(_participants.c.joined_at, _participants.c.id))
            return [Participant(row.id, row.name, row.token_hash, row.joined_at, Presence(row.state)) for row in rows]

    def reports(self) -> list[ReceivedReport]:
        """Return all reports, in the order in which they came."""
        decode = msgspec.json.Decoder(RoomReport).decode
        with self._transaction() as connection:
            rows = connection.execute(sql.select(_reports).order_by(_reports.c.received_at, _reports.c.id))
            return [
                ReceivedReport(row.participant, row.received_at, row.happened_at, decode(row.report)) for row in rows
            ]

    def keep(self, received: Sequence[ReceivedReport]) -> list[Kept]:
        """Keep reports in one transaction, each once, and say for each what became of it."""
        keys = {(item.participant, item.report.id) for item in received}
        with self._transaction() as connection:
            columns = (_reports.c.participant, _reports.c.id)
            chosen = sql.select(*columns, _reports.c.report).where(sql.tuple_(*columns).in_(keys))
            known = {(participant, report_id): text for participant, report_id, text in connection.execute(chosen)}
            new, outcomes = [], []
            for item in received:
                key, text = (item.participant, item.report.id), msgspec.json.encode(item.report).decode()
                if key not in known:
                    known[key] = text
                    when = {"received_at": item.received_at, "happened_at": item.happened_at}
                    new.append({"participant": item.participant, "id": item.report.id, "report": text} | when)
                    outcomes.append(Kept.NEW)
                else:
                    outcomes.append(Kept.AGAIN if known[key] == text else Kept.OTHER)
            if new:
                connection.execute(_reports.insert(), new)
        return outcomes

    def hash_of(self, path: Path, size: int, changed_ns: int) -> str | None:
        """Return the SHA-256 of a file that was kept when it had this size and time; None if there is none."""
        columns = _hashes.c
        same = (columns.path == str(path)) & (columns.size == size) & (columns.changed_ns == changed_ns)
        with self._transaction() as connection:
            return connection.execute(sql.select(columns.sha256).where(same)).scalar()

    def keep_hash(self, path: Path, size: int, changed_ns: int, sha256: str) -> None:
        """Keep the SHA-256 of a file, so that the room need not read it again."""
        with self._transaction() as connection:
            connection.execute(_hashes.delete().where(_hashes.c.path == str(path)))
            row = {"path": str(path), "size": size, "changed_ns": changed_ns, "sha256": sha256}
            connection.execute(_hashes.insert(), row)

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.SQLAlchemyError as error:
            raise StoreUnavailableError(str(getattr(error, "orig", None) or error).strip().split("\n")[0]) from error


class GroupCommit(Generic[Item, Result]):
    """Writes what has come while the last transaction was on its way to the disk in the next one.

    So many requests need few transactions, and each is answered when what it wants kept is on disk.

    Args:
        write: keeps items in one transaction and returns a result for each; if it raises, none is kept.
        executor: where it runs, so that the event loop does not wait for the disk.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Result]], executor: Executor) -> None:
        self._write = write
        self._executor = executor
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def keep(self, item: Item) -> Result:
        """Return the result of an item once its transaction has ended; raise what `write` raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._write_all())
        return await future

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:200], self._waiting[200:]
            try:
                results = await loop.run_in_executor(self._executor, self._write, [item for item, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():  # whoever asked may have gone
                        future.set_result(result)


def _url(database: str) -> sql.URL:
    scheme, found, rest = database.partition("://")
    if not found:
        return sql.URL.create("sqlite", database=database)
    try:
        if scheme in ("postgres", "postgresql"):
            return sql.make_url(f"postgresql+psycopg://{rest}")
    except (sql.exc.ArgumentError, ValueError):
        pass
    raise WorkshopError(f"{database} is no database: name a file, or postgresql://USER@HOST/NAME")


def _lock(path: Path) -> FileLock:
    """Make the file, which only its owner may read, and lock it for this room."""
    if not path.absolute().parent.is_dir():
        raise WorkshopError(f"there is no folder {path.parent} for {path.name}")
    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0)
    try:
        lock.acquire()
        path.touch(mode=0o600)
    except Timeout:
        raise WorkshopError(f"another room uses {path}; end it, or name another file with --database") from None
    return lock


def _make_durable(connection: Any, _record: object) -> None:
    """Have a transaction on disk when it ends, and readers not wait for it."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
