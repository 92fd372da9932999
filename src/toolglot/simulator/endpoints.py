"""What a provider serves beside replies: lists of models, token counts, compaction, and what real clients
probe.
"""

import re
from collections.abc import Mapping

from toolglot.common.jsontext import loads
from toolglot.providers.catalog import ALIASES, DEFAULT_MODELS, PROFILES, resolve_profile
from toolglot.providers.model_data import known_models
from toolglot.simulator.opaque_state import sign_state
from toolglot.simulator.prompt_cache import count_prompt
from toolglot.simulator.request_rules import AcceptedRequest
from toolglot.simulator.wires.base import Refusal
from toolglot.wire import spec
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["answer_action", "answer_probe", "find_listing", "list_models"]

_LISTING = re.compile(r"(/@(?P<row>[^/]+))?.*?(?P<api>/api/tags|(/v1beta)?/models)(/(?P<model>[^:]+))?")
_SHOW = re.compile(r"(/@[^/]+)?/api/show")
# Asked by clients beside their real work; any answer will do. The last three are OpenTelemetry's.
_PROBES = re.compile(r"(/@[^/]+)?(/api/hello|/v1/(metrics|logs|traces))")
_RELEASED = "2026-01-01T00:00:00Z"
_LOCAL_MODELS = ("qwen3:latest", "llama3.2:latest")
_LOCAL_DETAILS: Doc = {
    "parent_model": "",
    "format": "gguf",
    "family": "simulated",
    "families": ["simulated"],
    "parameter_size": "1B",
    "quantization_level": "Q4_0",
}


def answer_probe(method: str, path: str, body: bytes) -> Doc | None:
    """Return the answer to a request that asks no model anything and lists none; else None.

    Raises Refusal.
    """
    path = path.partition("?")[0]
    if _PROBES.fullmatch(path):
        return {}
    if method == "POST" and _SHOW.fullmatch(path):
        try:
            model = as_dict(loads(body)).get("model") or as_dict(loads(body)).get("name")
        except ValueError:
            raise Refusal("invalid character in the JSON body") from None
        if not model:
            raise Refusal("model is required")
        info = {"general.architecture": "simulated", "simulated.context_length": 131_072}
        details: Doc = {
            "details": _LOCAL_DETAILS,
            "model_info": info,
            "capabilities": ["completion", "tools", "thinking"],
        }
        return {
            "modelfile": f"FROM {model}",
            "parameters": "",
            "template": "{{ .Prompt }}",
            **details,
            "modified_at": _RELEASED,
        }
    return None


def find_listing(method: str, path: str, headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the profile whose models a request lists, and the one that it names, if any; None if it lists
    none.
    """
    match = _LISTING.fullmatch(path.partition("?")[0])
    if method not in ("GET", "HEAD") or match is None:
        return None
    model = match["model"] or ""
    row = match["row"] or ""
    row = ALIASES.get(row, row)
    if row not in PROFILES:
        row = _guess_row(match["api"], headers)
    return row, model


def _guess_row(path: str, headers: Mapping[str, str]) -> str:
    """Return whose form a list of models has: it follows from the client's headers, and then from the path."""
    if "anthropic-version" in headers:
        return "anthropic"
    if "x-goog-api-key" in headers or "v1beta" in path:
        return "gemini"
    return "ollama" if path == "/api/tags" else "openai-responses"


def list_models(row: str, wanted: str) -> Doc:
    """Return the models of a profile, or the wanted one. Raises Refusal."""
    names = _model_names(row)
    if wanted:
        names = [name for name in names if name == wanted]
    if not names:
        raise Refusal(f"The model '{wanted}' does not exist", "missing", code="model_not_found")
    match PROFILES[row].wire:
        case spec.ANTHROPIC_MESSAGES:
            state = {"type": "model", "created_at": _RELEASED, "lifecycle": "active"}
            rows: list[Doc] = [{"id": name, "display_name": name, **state} for name in names]
            listing: Doc = {"data": rows, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        case spec.GEMINI:
            rows = [_describe_gemini(name) for name in names]
            listing = {"models": rows}
        case spec.OLLAMA_CHAT:
            state = {"modified_at": _RELEASED, "size": 1, "digest": "0" * 64, "details": _LOCAL_DETAILS}
            rows = [{"name": name, "model": name, **state} for name in names]
            listing = {"models": rows}
        case _:
            rows = [
                {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "simulator"}
                for name in names
            ]
            listing = {"object": "list", "data": rows}
    return rows[0] if wanted else listing


def _model_names(row: str) -> list[str]:
    """Return the models that a profile is known to have. Patterns name none."""
    if row == "ollama":
        return list(_LOCAL_MODELS)
    names = [name for name in known_models(row) if "*" not in name]
    return names or [DEFAULT_MODELS.get(row, "simulated")]


def _describe_gemini(name: str) -> Doc:
    limits = resolve_profile("gemini", name).limits
    sizes = {"inputTokenLimit": limits.context or 1_048_576, "outputTokenLimit": limits.answer or 65_536}
    verbs = ["generateContent", "streamGenerateContent", "countTokens"]
    head = {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "description": "A simulated model.",
    }
    return {**head, **sizes, "supportedGenerationMethods": verbs}


def answer_action(action: str, accepted: AcceptedRequest, number: int, created: int) -> Doc:
    """Return the answer of an endpoint that takes a whole request: a count of its tokens, or a shorter
    conversation.
    """
    tokens = count_prompt(accepted.profile.wire, accepted.body)
    match action:
        case "/count_tokens":
            return {"input_tokens": tokens}
        case "/input_tokens":
            return {"object": "response.input_tokens", "input_tokens": tokens}
        case "countTokens":
            return {
                "totalTokens": tokens,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
            }
        case _:  # what users said stays, the rest becomes one opaque item
            text = accepted.body.get("input")
            items = [{"role": "user", "content": text}] if isinstance(text, str) else list(iter_dicts(text))
            output: list[Doc] = []
            for item in items:
                if item.get("role") == "user":
                    content = item.get("content")
                    parts = as_list(content) or [{"type": "input_text", "text": as_text(content)}]
                    head = {
                        "type": "message",
                        "id": f"msg_{number:06d}_{len(output)}",
                        "status": "completed",
                        "role": "user",
                    }
                    output.append({**head, "content": parts})
            cipher = sign_state(accepted.profile, "compaction")
            output.append({"type": "compaction", "id": f"cmp_{number:06d}", "encrypted_content": cipher})
            details = {
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            }
            usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1, **details}
            head = {"id": f"resp_{number:06d}", "object": "response.compaction", "created_at": created}
            return {**head, "output": output, "usage": usage}
