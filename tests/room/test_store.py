"""The room's database, in SQLite and in PostgreSQL."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workshop.room.posts import RoomReport
from workshop.room.store import Kept, Participant, Presence, ReceivedReport, Store, StoreUnavailableError

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))

ADA = Participant("a" * 32, "Ada", "0" * 64, 1.0)
GRACE = Participant("b" * 32, "Grace", "1" * 64, 2.0)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database of a server of its own, as Debian has it."""
    pytest.importorskip("psycopg")
    if not SERVERS:
        pytest.skip("there is no server of PostgreSQL")
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []  # the server refuses to run as root
    if as_user:
        shutil.chown(folder, "postgres")

    def call(program: str, *arguments: str) -> None:
        command = [*as_user, str(SERVERS[-1] / program), *arguments]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    call("initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "room")
    options = f"-k {folder} -c listen_addresses=''"
    call("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", options, "start")
    yield f"postgresql://room@/postgres?host={folder}"
    call("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "room.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgresql")


def report(number: int, **fields: str) -> RoomReport:
    return RoomReport(f"{number:032x}", "hint", "part3", 1.5, **fields)


def test_what_was_kept_is_there_after_it_was_opened_again(database: str) -> None:
    store = Store(database)
    for each in (ADA, GRACE):
        store.join(each)
    before = store.settings()
    store.set_presence(GRACE.id, Presence.LEFT)
    sent = [ReceivedReport(ADA.id, 10.0 + number, 9.0, report(number)) for number in range(300)]
    assert store.keep(sent) == [Kept.NEW] * 300
    other = ReceivedReport(ADA.id, 500.0, 9.0, report(1, machine="another"))
    mine = ReceivedReport(GRACE.id, 600.0, 9.0, report(0))
    assert store.keep([sent[0], other, mine, mine]) == [Kept.AGAIN, Kept.OTHER, Kept.NEW, Kept.AGAIN]
    store.set("hide_names", "1")
    store.close()

    again = Store(database)
    assert again.reports() == [*sent, mine]
    assert [each.state for each in again.participants()] == [Presence.HERE, Presence.LEFT]
    assert again.settings() == before | {"hide_names": "1"}
    again.keep_hash(Path("/a"), 6_000_000_000, 2**62, "2" * 64)
    assert again.hash_of(Path("/a"), 6_000_000_000, 2**62) == "2" * 64
    assert again.hash_of(Path("/a"), 6_000_000_001, 2**62) is None
    again.close()


def test_a_transaction_is_kept_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "room.sqlite"))
    store.join(ADA)
    nobody = ReceivedReport("f" * 32, 1.0, 1.0, report(2))
    with pytest.raises(StoreUnavailableError):
        store.keep([ReceivedReport(ADA.id, 1.0, 1.0, report(1)), nobody])
    assert store.reports() == []
    store.close()


def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    Store(str(tmp_path / "room.sqlite")).close()
    assert (tmp_path / "room.sqlite").stat().st_mode & 0o777 == 0o600
