"""What goes wrong while a request is served, in the shape in which the API says it. Given."""

import logging

log = logging.getLogger(__name__)


class ApiError(Exception):
    """An error that has an HTTP status, and a type and a code for programs to look at."""

    status, kind, code = 500, "server_error", None

    def __init__(self, message: str, param: str | None = None):
        super().__init__(message)
        self.param = param  # the field of the request that is to blame


class Invalid(ApiError, ValueError):
    """The client sent what can't be served; the message says what would be right."""

    status, kind = 400, "invalid_request_error"


class NotFound(Invalid):
    status, code = 404, "not_found"


class NotAllowed(Invalid):
    status, code = 405, "method_not_allowed"


class TooLarge(Invalid):
    status, code = 413, "request_too_large"


class Full(ApiError):
    """More requests than the server has places for. A client tries again later; most libraries do so by themselves."""

    status, kind, code = 429, "rate_limit_error", "server_full"


class Closed(ApiError):
    """The server is shutting down."""

    status, code = 503, "shutting_down"


class Failed(ApiError):
    """The engine raised."""


def failed(error: Exception) -> Failed:
    """What the clients of an engine that raised `error` get; its traceback goes to the log."""
    log.error("the engine failed", exc_info=error)
    return Failed(f"the engine failed: {type(error).__name__}: {error}")


def error_object(error: Exception) -> dict:
    """{"error": {"message", "type", "param", "code"}}, as in the body of a response or in an event of a stream."""
    if not isinstance(error, ApiError):
        error = ApiError(f"{type(error).__name__}: {error}")
    shown = {"message": str(error), "type": error.kind, "param": error.param, "code": error.code}
    return {"error": shown}
