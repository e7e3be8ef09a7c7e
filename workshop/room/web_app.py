"""The room over HTTP: what is asked for is looked up, what is sent is checked, and nothing of it is run."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from workshop.pages import template
from workshop.room.open_room import OpenRoom, RefusedError
from workshop.room.posts import MAX_BODY_BYTES, REQUEST_WITHIN_S, JoinPost, Post, Refusal
from workshop.room.shared_files import SUMS, SharedFile, SharedFiles
from workshop.room.store import StoreUnavailableError

PAGES = {"/": "board.html", "/instructor": "instructor.html"}
SCRIPTS = ("board.js", "instructor.js", "room.js")

Body = TypeVar("Body")
Answer = Callable[[Request], Awaitable[Response]]


class CountedFile(FileResponse):
    """A shared file in ranges, in pieces so large that the event loop is seldom woken; so many are on their way."""

    chunk_size = 1 << 20
    on_their_way = 0

    def __init__(self, found: SharedFile) -> None:
        super().__init__(found.path, media_type="application/octet-stream", headers={"ETag": f'"{found.sha256}"'})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or say that it has gone since the last look."""
        CountedFile.on_their_way += 1
        try:
            await super().__call__(scope, receive, send)
        except (FileNotFoundError, RuntimeError):
            await _json(Refusal("the file has gone"), HTTPStatus.NOT_FOUND)(scope, receive, send)
        finally:
            CountedFile.on_their_way -= 1


def web_app(room: OpenRoom, shared: SharedFiles) -> Starlette:
    """Return the room as an ASGI application."""
    return Starlette(
        routes=[*_pages(), *_for_participants(room, shared), *_for_the_instructor(room), *_files(shared)],
        exception_handlers={
            HTTPException: _refuse_request,
            RefusedError: _refuse,
            StoreUnavailableError: _ask_to_come_again,
        },
        lifespan=lambda _: _look_for_files(shared),
    )


def _pages() -> list[Route]:
    static = files("workshop.room").joinpath("static")
    texts = {path: (static.joinpath(name).read_text("utf-8"), "text/html") for path, name in PAGES.items()}
    texts |= {f"/{name}": (static.joinpath(name).read_text("utf-8"), "text/javascript") for name in SCRIPTS}
    texts["/room.css"] = (template.read("style.css") + static.joinpath("room.css").read_text("utf-8"), "text/css")

    async def page(request: Request) -> Response:
        text, kind = texts[request.url.path.removeprefix(request.scope.get("root_path", "")) or "/"]
        return Response(text, media_type=kind, headers={"Cache-Control": "no-cache"})

    return [Route(path, page) for path in texts]


def _for_participants(room: OpenRoom, shared: SharedFiles) -> list[Route]:
    async def board(request: Request) -> Response:
        commands = shared.commands(room.address)
        tag = f'"{room.board_version()}-{len(commands)}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(room.board(commands), media_type="application/json", headers=headers)

    async def join(request: Request) -> Response:
        return _json(await room.join(await _body(request, JoinPost), _address(request)), HTTPStatus.CREATED)

    async def report(request: Request) -> Response:
        participant = room.who(_secret(request))
        await room.keep(participant, await _body(request, Post))
        return _json({}, HTTPStatus.CREATED)

    async def leave(request: Request) -> Response:
        await room.leave(room.who(_secret(request)))
        return _json({})

    return [
        Route("/api/board", board),
        Route("/api/join", _counted(room, join), methods=["POST"]),
        Route("/api/reports", _counted(room, report), methods=["POST"]),
        Route("/api/leave", _counted(room, leave), methods=["POST"]),
    ]


def _for_the_instructor(room: OpenRoom) -> list[Route]:
    async def results(request: Request) -> Response:
        room.require_key(_secret(request))
        return _json({"schema_version": 1, "people": room.people(), "results": await room.results()})

    async def results_csv(request: Request) -> Response:
        room.require_key(_secret(request))
        return Response(_csv(await room.results()), media_type="text/csv")

    async def control(request: Request) -> Response:
        room.require_key(_secret(request))
        for name, value in (await _body(request, dict[str, bool | str])).items():
            await room.control(name, value)
        return _json({})

    return [
        Route("/api/results", _counted(room, results)),
        Route("/api/results.csv", _counted(room, results_csv)),
        Route("/api/control", _counted(room, control), methods=["POST"]),
    ]


def _files(shared: SharedFiles) -> list[Route]:
    async def index(request: Request) -> Response:
        return Response(shared.index(), media_type="text/html")

    async def project(request: Request) -> Response:
        page = shared.index_of(request.path_params["project"])
        if page is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(page, media_type="text/html")

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name == SUMS:
            return Response(shared.sums(), media_type="text/plain")
        found = shared.get(name)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        if CountedFile.on_their_way >= 100:  # so many files at once; who comes then is asked to come again
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "5"})
        return CountedFile(found)

    return [
        Route("/simple/", index),
        Route("/simple/{project}/", project),
        Route("/files/{name}", file),
    ]


@asynccontextmanager
async def _look_for_files(shared: SharedFiles, every_s: float = 5.0) -> AsyncIterator[None]:
    async def look_again_and_again() -> None:
        while True:
            with suppress(StoreUnavailableError, OSError):
                await asyncio.to_thread(shared.look)
            await asyncio.sleep(every_s)

    task = asyncio.create_task(look_again_and_again())
    yield
    task.cancel()


def _counted(room: OpenRoom, answer: Answer) -> Answer:
    """Return an answer that is refused to those of whom too much has been refused lately."""

    async def count(request: Request) -> Response:
        address = _address(request)
        try:
            if not room.knows(_secret(request)):  # the mistakes of others at its address do not count for it
                room.require_patience(address)
            return await answer(request)
        except (RefusedError, HTTPException) as error:
            if not (isinstance(error, RefusedError) and error.kept):
                room.note_failure(address)
            raise

    return count


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret if scheme.lower() == "bearer" else ""


async def _body(request: Request, kind: type[Body]) -> Body:
    """Return what was sent, if it is of this kind.

    Raises:
        RefusedError: it is too long, too slow, or something else.
    """
    content = bytearray()
    try:
        async with asyncio.timeout(REQUEST_WITHIN_S):
            async for piece in request.stream():
                content += piece
                if len(content) > MAX_BODY_BYTES:
                    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
        return msgspec.json.decode(content, type=kind)
    except TimeoutError:
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"it took longer than {REQUEST_WITHIN_S:g} s") from None
    except ClientDisconnect:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "it was cut off") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"this is not what the room understands: {error}") from None


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    content = msgspec.json.encode(value)
    return Response(content, status, media_type="application/json", headers={"Cache-Control": "no-store"})


def _csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV, in which no cell is a formula to a spreadsheet."""
    text = io.StringIO()
    columns = list(rows[0]) if rows else ["name"]
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        guarded = {name: f"'{cell}" if str(cell)[:1] in tuple("=+-@\t\r") else cell for name, cell in row.items()}
        writer.writerow(guarded)
    return text.getvalue()


def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _json(Refusal(str(error), error.kept), error.status)


def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _json(Refusal(error.detail), HTTPStatus(error.status_code))
    answer.headers.update(error.headers or {})
    return answer


def _ask_to_come_again(_: Request, error: Exception) -> Response:
    answer = _json(Refusal(f"nothing can be kept now: {error}"), HTTPStatus.SERVICE_UNAVAILABLE)
    answer.headers["Retry-After"] = "5"
    return answer
