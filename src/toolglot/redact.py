"""Text without secrets: keys that are known, and whatever looks like one. Used wherever text leaves the program.

Laws: time grows with the length of the text only: whatever looks further is bounded. JSON stays JSON, unless what is only
called a secret is to be hidden too.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

from toolglot.jsontext import dumps_text

__all__ = ["REDACTED", "redact"]

REDACTED = "[hidden]"
_MIN_SECRET_LENGTH = 6  # a known key that is shorter is a word
_MIN_PREFIX_LENGTH = 8  # so much of a known key at the end of a text is no word either: the text was cut
# A key begins where a word does, also after an escape of JSON (\n, \u00e4) or of a URL (%3D).
_KEY_BOUNDARY = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2}))"
_KEY_PATTERNS = (
    r"sk-(?=[\w-]{0,80}\d)[\w-]{16,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek …
    r"AIza[\w-]{20,}",  # Google: two kinds of key, access token, refresh token, client secret
    r"AQ\.[\w-]{30,}",
    r"ya29\.[\w.-]{16,}",
    r"1//0[\w-]{30,}",
    r"GOCSPX-[\w-]{16,}",
    r"gh[oprsu]_\w{16,}",  # GitHub; then a session of Copilot
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
    """The text, with keys hidden. `named`: also whatever is called a key, a token or a password."""
    for key in sorted(secrets, key=len, reverse=True):
        if len(key) >= _MIN_SECRET_LENGTH:
            for form in _encoded_forms(key):
                text = _hide_truncated_secret(text.replace(form, REDACTED), form)
    text = _KEY_PATTERN.sub(REDACTED, text)
    return _NAMED_SECRET_PATTERN.sub(_keep_name, text) if by_name else text


def _encoded_forms(secret: str) -> Iterable[str]:
    """A key as it is, as it stands in a URL, in JSON, and in JSON that is a text in JSON; the longest first."""
    if secret.isascii() and secret.isalnum():
        return (secret,)
    in_json = dumps_text(secret)[1:-1]
    return sorted({secret, quote(secret, safe="", errors="replace"), in_json, dumps_text(in_json)[1:-1]}, key=len, reverse=True)


def _hide_truncated_secret(text: str, secret: str) -> str:
    """The text without the beginning of a key at its end, where it was cut; quotes may stand around it."""
    end = text.rstrip("\"'…")
    at = end.rfind(secret[:_MIN_PREFIX_LENGTH], max(0, len(end) - len(secret)))
    cut = at >= 0 and len(end) - at >= _MIN_PREFIX_LENGTH and secret.startswith(end[at:])
    return text[:at] + REDACTED + text[len(end) :] if cut else text


def _keep_name(match: re.Match[str]) -> str:
    """What a secret is called, without it."""
    return "".join(match[part] or "" for part in ("name", "more", "scheme", "cookie")) + REDACTED
