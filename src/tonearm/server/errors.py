"""The body of every error answer, and the refusals of the edge itself."""

import secrets
import time
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web

from tonearm.core.errors import ErrorCode, RequestError
from tonearm.core.json_value import JsonObject
from tonearm.server.replies import json_reply


class Unauthorized(RequestError):
    code = "unauthorized"
    status = 401

    def __init__(self) -> None:
        # One sentence for every cause: an answer must not show how near a guess was.
        super().__init__("Send the node's password as the value of one Authorization header.")


class ForeignOrigin(RequestError):
    code = "foreign_origin"
    status = 403


class NotFound(RequestError):
    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"
    status = 405

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not possible here. Use {self.allow}.")


class BodyTooLarge(RequestError):
    code = "body_too_large"
    status = 413


class UpgradeRequired(RequestError):
    code = "upgrade_required"

    def __init__(self) -> None:
        super().__init__("This path is a WebSocket. Connect with a WebSocket client (version 13).")


class NotReady(RequestError):
    code = "not_ready"
    status = 503


def new_request_id() -> str:
    """It is in an error's answer and in the log."""
    return secrets.token_hex(6)


def refusal_reply(error: RequestError, path: str, request_id: str) -> web.Response:
    reply = error_reply(HTTPStatus(error.status), error.code, error.message, path, request_id)
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
    """`protocol.replies.Error`. `path` is the request's, without the query."""
    body: JsonObject = {
        "timestamp": time.time_ns() // 1_000_000,
        "status": status.value,
        "error": status.phrase,
        "code": code,
        "message": message,
        "path": path,
        "requestId": request_id,
    }
    return json_reply(body, status)
