"""The body of every error answer, and the one table from refusals to statuses."""

import secrets
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from aiohttp import web

from tonearm.core.errors import (
    BadRequest,
    ErrorCode,
    InvalidIdentifier,
    LimitReached,
    LoadFailed,
    NoArtwork,
    NoPrevious,
    NotSeekable,
    OverlayNotFound,
    PlayerExists,
    PlayerNotFound,
    RequestError,
    ResolveFailed,
    ResolverDisabled,
    SourceBlocked,
    SourceRefused,
    TrackNotFound,
)
from tonearm.protocol.rendering import error_out
from tonearm.server.replies import json_reply


class Unauthorized(RequestError):
    code = "unauthorized"

    def __init__(self) -> None:
        # One sentence for every cause: an answer must not show how near a guess was.
        super().__init__("Send the node's password as the value of one Authorization header.")


class ForeignOrigin(RequestError):
    code = "foreign_origin"


class NotFound(RequestError):
    code = "not_found"


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not possible here. Use {self.allow}.")


class BodyTooLarge(RequestError):
    code = "body_too_large"


class UpgradeRequired(RequestError):
    code = "upgrade_required"

    def __init__(self) -> None:
        super().__init__("This path is a WebSocket. Connect with a WebSocket client (version 13).")


class NotReady(RequestError):
    code = "not_ready"


STATUS_BY_ERROR: Final[Mapping[type[RequestError], HTTPStatus]] = MappingProxyType(
    {
        BadRequest: HTTPStatus.BAD_REQUEST,
        InvalidIdentifier: HTTPStatus.BAD_REQUEST,
        LoadFailed: HTTPStatus.BAD_REQUEST,
        ResolveFailed: HTTPStatus.BAD_REQUEST,
        ResolverDisabled: HTTPStatus.BAD_REQUEST,
        UpgradeRequired: HTTPStatus.BAD_REQUEST,
        Unauthorized: HTTPStatus.UNAUTHORIZED,
        ForeignOrigin: HTTPStatus.FORBIDDEN,
        SourceBlocked: HTTPStatus.FORBIDDEN,
        SourceRefused: HTTPStatus.FORBIDDEN,
        NotFound: HTTPStatus.NOT_FOUND,
        PlayerNotFound: HTTPStatus.NOT_FOUND,
        TrackNotFound: HTTPStatus.NOT_FOUND,
        OverlayNotFound: HTTPStatus.NOT_FOUND,
        NoArtwork: HTTPStatus.NOT_FOUND,
        MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
        PlayerExists: HTTPStatus.CONFLICT,
        NotSeekable: HTTPStatus.CONFLICT,
        NoPrevious: HTTPStatus.CONFLICT,
        BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        LimitReached: HTTPStatus.TOO_MANY_REQUESTS,
        NotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


def status_of(error: RequestError) -> HTTPStatus:
    """The status of the error's class, or of the nearest base that the table knows; 400 when there is none."""
    for kind in type(error).__mro__:
        if kind in STATUS_BY_ERROR:
            return STATUS_BY_ERROR[kind]
    return HTTPStatus.BAD_REQUEST


def new_request_id() -> str:
    """A random id, which is in an error's answer and in the log."""
    return secrets.token_hex(6)


def refusal_reply(error: RequestError, path: str, request_id: str) -> web.Response:
    """The answer to a request that was refused."""
    reply = error_reply(status_of(error), error.code, error.message, path, request_id)
    if isinstance(error, MethodNotAllowed):
        reply.headers["Allow"] = error.allow
    return reply


def internal_error_reply(path: str, request_id: str) -> web.Response:
    """The answer to a request that failed by an error of the node. Details are in the log only."""
    message = "The node failed to do this. Try again; when it stays, look into the node's log."
    return error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message, path, request_id)


def stopping_reply(path: str, request_id: str) -> web.Response:
    """The answer to a request that the stopping node cannot answer."""
    message = "The node is shutting down. Try again when it runs again."
    reply = error_reply(HTTPStatus.SERVICE_UNAVAILABLE, "internal", message, path, request_id)
    reply.force_close()
    return reply


def error_reply(status: HTTPStatus, code: ErrorCode, message: str, path: str, request_id: str) -> web.Response:
    """An error's answer. `path` is the request's, without the query."""
    body = error_out(time.time_ns() // 1_000_000, status.value, status.phrase, code, message, path, request_id)
    return json_reply(body, status)
