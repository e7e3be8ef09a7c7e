"""A participant in a room: `workshop join` and `workshop leave`, and what other commands send to the room."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.options import COURSE, DEFAULT_SCRIPT, ScriptOption, state_beside
from workshop.cli.output import filled, say
from workshop.course.state import State
from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.course.kept_checks import KeptCheck

app = typer.Typer()


@app.command(rich_help_panel=COURSE)
def join(
    address: Annotated[str, typer.Argument(help="The room's address, as the board shows it.")],
    code: Annotated[str, typer.Argument(help="The room's code, as the board shows it.")],
    name: Annotated[str, typer.Option(help="What you are called on the board.")],
    certificate: Annotated[
        Path | None, typer.Option(help="The room's certificate, if your system does not trust it.", exists=True)
    ] = None,
    script: ScriptOption = DEFAULT_SCRIPT,
) -> None:
    """Join the instructor's room: it gets your checks' results.

    Example: workshop join http://192.168.1.5:8000 K7MPQ2 --name Ada

    Nothing is sent before you have joined; this says what will be. It holds for this folder, until workshop leave.
    """
    from workshop.room.membership import Membership, path_beside
    from workshop.room.reporting import WHAT_IS_SENT
    from workshop.room.room_client import AnsweredNoError, RoomClient, UnreachableError, normal_address

    state, address = state_beside(script), normal_address(address)
    if known := Membership.beside(state):
        raise WorkshopError(f"you are {known.name} in the room at {known.address} already; first type: workshop leave")
    trusted = str(certificate.resolve()) if certificate else ""
    folder = path_beside(state).parent
    try:
        folder.mkdir(exist_ok=True)  # before the name is taken in the room, which nobody could use without a membership
    except OSError as error:
        raise WorkshopError(f"what the room answers cannot be kept in {folder}: {error.strerror}") from None
    try:
        answer = RoomClient(address, trusted, silence_s=10.0).join(code, name)
    except (UnreachableError, AnsweredNoError) as error:
        raise WorkshopError(f"{address}: {error}") from None
    Membership(address, answer.participant, answer.token, answer.name, trusted).keep(state)
    print(filled(f"You are {answer.name} in the room at {address}.\n\n{WHAT_IS_SENT}\n\nTo stop it: workshop leave"))


@app.command(rich_help_panel=COURSE)
def leave(script: ScriptOption = DEFAULT_SCRIPT) -> None:
    """Leave the room: nothing more is sent.

    Example: workshop leave
    """
    from workshop.room.membership import Membership, path_beside
    from workshop.room.reporting import Outbox, send_waiting
    from workshop.room.room_client import AnsweredNoError, RoomClient, UnreachableError

    state = state_beside(script)
    path = path_beside(state)
    if not path.exists():
        raise WorkshopError("you are in no room")
    told = "The room has been told; what it has of you, it keeps."
    try:
        if membership := Membership.beside(state):
            send_waiting(state)
            RoomClient(membership.address, membership.certificate).leave(membership.token)
    except (UnreachableError, AnsweredNoError, WorkshopError) as error:
        told = f"The room could not be told: {error}."
    path.unlink(missing_ok=True)
    Outbox(state).clear()
    print(filled(f"You have left the room. Nothing more is sent. {told}"))


def tell_room(state: State, check: "KeptCheck | None" = None, hint: str = "") -> None:
    """Send how a check ended, that a hint of a part was read, or what waits since the room did not answer, if anything.

    Without a room, nothing is sent, or loaded.
    """
    from workshop.room.membership import path_beside

    if not path_beside(state).exists():
        return
    from workshop.room import reporting

    if check:
        line = reporting.report_check(state, check)
    else:
        line = reporting.report_hint(state, hint) if hint else reporting.send_waiting(state).line
    if line:
        say(line)
