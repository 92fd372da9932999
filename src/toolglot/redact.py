"""Hides secrets in text: known keys, and whatever looks like one. Used wherever text leaves the program.

Time grows only with the length of the text, because every look-ahead is bounded. JSON stays JSON, unless `by_name` is set.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

from toolglot.jsontext import dumps_text

REDACTED = "[hidden]"
_MIN_SECRET_LENGTH = 6  # a shorter one may be an ordinary word
_MIN_PREFIX_LENGTH = 8  # of a secret at the end of a truncated text
# A key starts where a word does, also after an escape of JSON (\n, \u00e4) or of a URL (%3D).
_KEY_BOUNDARY = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2}))"
_KEY_PATTERNS = (
    r"sk-(?=[\w-]{0,80}\d)[\w-]{16,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek …
    r"AIza[\w-]{20,}",  # Google: two kinds of key, access token, refresh token, client secret
    r"AQ\.[\w-]{30,}",
    r"ya29\.[\w.-]{16,}",
    r"1//0[\w-]{30,}",
    r"GOCSPX-[\w-]{16,}",
    r"gh[oprsu]_\w{16,}",  # GitHub; below, a Copilot session
    r"github_pat_\w{16,}",
    r"tid=[\w-]{6,};[^\s\"'`<>\\,]{8,}",
    r"xai-\w{16,}",
    r"gsk_\w{16,}",
    r"hf_\w{20,}",
    r"nvapi-[\w-]{20,}",
    r"pplx-\w{20,}",
    r"csk-\w{20,}",
    r"glpat-[\w-]{16,}",
    r"xox[abeprs]-[\w-]{16,}",
    r"A(?:KI|SI)A[A-Z0-9]{12,}",
    r"(?<!-)eyJ[\w-]{10,}\.[\w-]{10,}[\w.-]*",  # a JWT
)
_KEY_PATTERN = re.compile(
    rf"""(?=[A-Gac-hnpstxy1]){_KEY_BOUNDARY}(?:{"|".join(_KEY_PATTERNS)})
    | (?: (?<=(?i:bearer)[ ]) | (?<=(?i:bearer)%20) ) (?: (?=[\w.~+/-]{{0,80}}\d)[\w.~+/-]{{8,}} | [\w.~+/-]{{32,}} ) =*
    | (?: (?<=(?i:basic)[ ]) | (?<=(?i:basic)%20) ) (?=[A-Za-z+/]{{0,80}}[0-9=]) [\w+/]{{8,}} =*
    | (?<=://) (?: [^/\s:@"'<>\\]{{0,100}} : [^/\s"'<>\\]{{1,300}} | [^/\s:@"'<>\\]{{20,200}} ) (?=@)  # https://user:…@host
    | (?: (?<=[?&]key=) | (?<=[?&]apikey=) | (?<=[?&]api[_-]key=) ) (?!\[hidden\]) [^&\s"'\#<>\\]{{8,}}""",
    re.ASCII | re.VERBOSE,
)
# `api_key=…`, `"PASSWORD": "…"`, `--token …`, `x-api-key: …`, `?sig=…`, `('authorization', '…')`
_NAMED_SECRET_PATTERN = re.compile(
    r"""(?P<name>
      (?:
        (?: (?: api|access|account|auth|client|encryption|master|private|secret|shared|signing|subscription ) [_-]? key
          | secret | passw(?:or)?d | passphrase | credential ) (?: s | s?[_-]\w{1,20} | \d{1,3} )?
        | authorization
        | token (?: [_-] (?! count|type|ur[il]|env|limit|budget|usage|endpoint ) \w{1,20} | \d{1,3} )?
        | (?<=[?&]) (?: key | sig | signature | x-amz-signature | x-goog-signature )
      )
      (?: (?: \\?["'] )? \s{0,3} (?: := | => | [=:] ) \s{0,3} | \\?["'] , \s{0,3} )
      | (?<![\w-]) --? [a-z-]{0,20}? (?: key | token | secret | passw(?:or)?d ) \s{1,3} (?!-)
    )
    (?: (?P<more> b? (?P<quote> \\?["'] ) (?: (?: bearer|basic|token ) \s{1,3} )? ) (?: (?!(?P=quote)) (?: \\. | [^\n] ) )+
      | (?P<scheme> (?: (?: bearer|basic|token ) \s{1,3} )? ) (?! (?: none|null|true|false ) \b ) [^\s"'&,;)\\]+ )
    | (?P<cookie> (?<![\w-]) (?:set-)? cookie \\?["']? \s{0,3} : \s{0,3} \\?["']? ) [^\n"'\\]+""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)


def redact(text: str, secrets: Iterable[str] = (), *, by_name: bool = False) -> str:
    """Hide the given secrets and anything that looks like a key. `by_name` also hides values called key, token or password."""
    for secret in sorted(secrets, key=len, reverse=True):  # one secret may contain another
        if len(secret) >= _MIN_SECRET_LENGTH:
            for form in _encoded_forms(secret):
                text = _hide_truncated_secret(text.replace(form, REDACTED), form)
    text = _KEY_PATTERN.sub(REDACTED, text)
    if not by_name:
        return text
    names = ("name", "more", "scheme", "cookie")
    return _NAMED_SECRET_PATTERN.sub(lambda match: "".join(match[name] or "" for name in names) + REDACTED, text)


def _encoded_forms(secret: str) -> Iterable[str]:
    """Return a secret as it is, in a URL, in JSON, and in JSON inside of JSON; the longest first."""
    if secret.isascii() and secret.isalnum():
        return (secret,)
    in_json = dumps_text(secret)[1:-1]
    forms = {secret, quote(secret, safe="", errors="replace"), in_json, dumps_text(in_json)[1:-1]}
    return sorted(forms, key=len, reverse=True)


def _hide_truncated_secret(text: str, secret: str) -> str:
    """Hide the beginning of a secret at the end of a text that was truncated, perhaps inside of quotes."""
    end = text.rstrip("\"'…")
    at = end.rfind(secret[:_MIN_PREFIX_LENGTH], max(0, len(end) - len(secret)))
    is_truncated = at >= 0 and len(end) - at >= _MIN_PREFIX_LENGTH and secret.startswith(end[at:])
    return text[:at] + REDACTED + text[len(end) :] if is_truncated else text
