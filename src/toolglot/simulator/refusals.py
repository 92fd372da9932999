"""How each provider says no: statuses and words as one table a wire, and the bodies they come in."""

from typing import Literal

from toolglot.jsontext import dumps
from toolglot.providers.profile import Profile
from toolglot.wire import spec
from toolglot.wire.framing import encode_ndjson, encode_sse, escape_line_separators
from toolglot.wire.json_values import Doc

__all__ = ["Refusal", "RefusalKind", "error_body", "error_frame", "http_status"]

RefusalKind = Literal[
    "invalid", "no_key", "auth", "missing", "method", "large", "too_long", "rate", "quota", "server", "overloaded"
]

# kind -> (status, type, code)
_OPENAI: dict[RefusalKind, tuple[int, str, str]] = {
    "invalid": (400, "invalid_request_error", ""),
    "no_key": (401, "invalid_request_error", ""),
    "auth": (401, "invalid_request_error", "invalid_api_key"),
    "missing": (404, "invalid_request_error", "model_not_found"),
    "method": (405, "invalid_request_error", "method_not_supported"),
    "large": (413, "invalid_request_error", "request_too_large"),
    "too_long": (400, "invalid_request_error", "context_length_exceeded"),
    "rate": (429, "requests", "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
    "server": (500, "server_error", "server_error"),
    "overloaded": (503, "server_error", "server_is_overloaded"),
}
_ANTHROPIC: dict[RefusalKind, tuple[int, str, str]] = {
    "invalid": (400, "invalid_request_error", ""),
    "no_key": (401, "authentication_error", ""),
    "auth": (401, "authentication_error", ""),
    "missing": (404, "not_found_error", ""),
    "method": (405, "invalid_request_error", ""),
    "large": (413, "request_too_large", ""),
    "too_long": (400, "invalid_request_error", ""),
    "rate": (429, "rate_limit_error", ""),
    "quota": (402, "billing_error", ""),
    "server": (500, "api_error", ""),
    "overloaded": (529, "overloaded_error", ""),
}
_GEMINI: dict[RefusalKind, tuple[int, str, str]] = {
    "invalid": (400, "INVALID_ARGUMENT", ""),
    "no_key": (403, "PERMISSION_DENIED", ""),
    "auth": (400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
    "missing": (404, "NOT_FOUND", ""),
    "method": (405, "INVALID_ARGUMENT", ""),
    "large": (413, "INVALID_ARGUMENT", ""),
    "too_long": (400, "INVALID_ARGUMENT", ""),
    "rate": (429, "RESOURCE_EXHAUSTED", ""),
    "quota": (429, "RESOURCE_EXHAUSTED", "QUOTA"),
    "server": (500, "INTERNAL", ""),
    "overloaded": (503, "UNAVAILABLE", ""),
}
_TABLES = {spec.OPENAI_CHAT: _OPENAI, spec.OPENAI_RESPONSES: _OPENAI, spec.ANTHROPIC_MESSAGES: _ANTHROPIC, spec.GEMINI: _GEMINI}
# what a vendor answers otherwise than the rest of its wire
_VENDOR_ERRORS: dict[tuple[str, RefusalKind], tuple[int, str, str]] = {
    ("openrouter", "quota"): (402, "", ""),
    ("deepseek", "quota"): (402, "unknown_error", "invalid_request_error"),
    ("mistral", "too_long"): (400, "invalid_request_error", "3051"),
    ("vertex", "no_key"): (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING"),
    ("vertex", "auth"): (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING"),
}


class Refusal(Exception):
    """A request is refused, or an error is asked for. `wait`: seconds that the client is told to wait.

    `bare`: the body is these words and no JSON. `field`: an unknown field, which some vendors say in a form of its own.
    """

    def __init__(
        self,
        message: str,
        kind: RefusalKind = "invalid",
        *,
        code: str = "",
        param: str | None = None,
        retry_after: str | None = None,
        is_plain_text: bool = False,
        unknown_field: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: RefusalKind = kind
        self.message, self.code, self.param = message, code, param
        self.retry_after, self.is_plain_text, self.unknown_field = retry_after, is_plain_text, unknown_field


def _error_fields(refusal: Refusal, profile: Profile) -> tuple[int, str, str]:
    status, type, code = _VENDOR_ERRORS.get((profile.id, refusal.kind)) or _TABLES.get(profile.wire, _OPENAI)[refusal.kind]
    return status, type, refusal.code or code


def http_status(refusal: Refusal, profile: Profile) -> int:
    """The HTTP status of a refusal."""
    if refusal.unknown_field and profile.id == "mistral":
        return 422
    return _error_fields(refusal, profile)[0]


def error_body(refusal: Refusal, profile: Profile) -> Doc:
    """The body that a provider sends with it."""
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            error: Doc = {"type": _error_fields(refusal, profile)[1], "message": refusal.message}
            details: Doc = {"details": {"error_code": refusal.code}} if refusal.code else {}
            return {"type": "error", "error": {**error, **details}}
        case spec.GEMINI:
            return {"error": _google_error(refusal, profile)}
        case spec.OLLAMA_CHAT:
            return {"error": refusal.message}
        case _:
            return _openai_body(refusal, profile)


def _google_error(refusal: Refusal, profile: Profile) -> Doc:
    status, type, code = _error_fields(refusal, profile)
    details: list[Doc] = []
    if refusal.retry_after is not None and "GMT" not in refusal.retry_after:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{refusal.retry_after}s"})
    if code == "QUOTA":
        details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []})
    elif code:
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "googleapis.com"})
    return {"code": status, "message": refusal.message, "status": type, **({"details": details} if details else {})}


def _openai_body(refusal: Refusal, profile: Profile) -> Doc:
    status, type, code = _error_fields(refusal, profile)
    message = refusal.message
    match profile.id:
        case "xai":
            return {"code": code or type, "error": message}
        case "openrouter":
            return {"error": {"code": status, "message": message, "metadata": {}}}
        case "mistral" if refusal.unknown_field:
            detail = [{"type": "extra_forbidden", "loc": ["body", refusal.unknown_field], "msg": message}]
            return {"object": "error", "message": {"detail": detail}, "type": type, "param": None, "code": None}
        case "mistral":
            return {"object": "error", "message": message, "type": type, "param": refusal.param, "code": code or "1000"}
        case "copilot":
            return {"error": {"message": message, "code": code or "invalid_request_body"}}
        case _:
            return {"error": {"message": message, "type": type, "param": refusal.param, "code": code or None}}


def error_frame(refusal: Refusal, profile: Profile) -> bytes:
    """The same inside a stream that began with status 200."""
    body = error_body(refusal, profile)
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return encode_sse(escape_line_separators(dumps(body)), "error")
        case spec.OPENAI_RESPONSES:
            error = body["error"]
            frame: Doc = {"type": "error", "code": error["code"], "message": error["message"], "param": error["param"]}
            return encode_sse(escape_line_separators(dumps({**frame, "sequence_number": 0})), "error")
        case spec.OLLAMA_CHAT:
            return encode_ndjson(escape_line_separators(dumps(body)))
        case _:
            return encode_sse(escape_line_separators(dumps(body)))
