"""Hides secrets in text: known keys, and whatever looks like one. Used wherever text leaves the program.

Time grows only with the length of the text, because every look-ahead is bounded. JSON stays JSON, unless
`by_name` is set.

A known key is also hidden in the usual encodings, reversed, and from half of it on. That is for accidents: a
provider that has received a key and wants to show it can always encode it in a way that nobody expects.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote

from toolglot.common.jsontext import dumps_text

REDACTED = "[hidden]"
_MIN_SECRET_LENGTH = 6  # a shorter one may be an ordinary word
_MIN_PREFIX_LENGTH = 8  # of a secret at the end of a truncated text
_MIN_PART_LENGTH = 12  # of a part of a secret elsewhere
# of an Authorization header: no secret, the word after it is
_SCHEMES = frozenset({"bearer", "basic", "token"})
_RANDOM_TEXT = re.compile(r"[\w.~+/=-]+", re.ASCII)  # no URL, no sentence: parts of those may be anywhere
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
        | (?<=[?&]) (?: key | sig | signature | auth | x-amz-signature | x-goog-signature )
      )
      (?: (?: \\?["'] )? \s{0,3} (?: := | => | [=:] ) \s{0,3} | \\?["'] , \s{0,3} )
      | (?<![\w-]) --? [\w-]{0,40}? (?: key | token | secret | passw(?:or)?d | pwd | passphrase | credentials? | auth | pat )
        \s{1,3} (?!-)
    )
    (?: (?P<more> b? (?P<quote> \\?["'] ) (?: (?: bearer|basic|token ) \s{1,3} )? ) (?: (?!(?P=quote)) (?: \\. | [^\n] ) )+
      | (?P<scheme> (?: (?: bearer|basic|token ) \s{1,3} )? ) (?! (?: none|null|true|false ) \b ) [^\s"'&,;)\\]+ )
    | (?P<cookie> (?<![\w-]) (?:set-)? cookie \\?["']? \s{0,3} : \s{0,3} \\?["']? ) [^\n"'\\]+""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)


def redact(text: str, secrets: Iterable[str] = (), *, by_name: bool = False) -> str:
    """Hide the given secrets and anything that looks like a key.

    `by_name` also hides values called key, token or password.
    """
    for secret in sorted(secrets, key=len, reverse=True):  # one secret may contain another
        if len(secret) >= _MIN_SECRET_LENGTH:
            for form in encode_secret(secret):
                text = text.replace(form, REDACTED)
            if _RANDOM_TEXT.fullmatch(secret):
                # itself first: encodings have parts of it in common
                for form in (secret, *encode_secret(secret)):
                    text = _hide_parts(text, form)
            for form in _quoted_forms(secret):
                text = _hide_truncated_secret(text, form)
    text = _KEY_PATTERN.sub(REDACTED, text)
    if not by_name:
        return text
    return _NAMED_SECRET_PATTERN.sub(lambda match: _shown_part(match) + REDACTED, text)


def redact_words(words: Sequence[str]) -> list[str]:
    """Hide secrets in the words of a command or a list, also a whole word because of the one before it:
    `--api-key`, `KEY`.
    """
    shown: list[str] = []
    for previous, word in zip(("", *words), words, strict=False):
        if _is_named_by(previous, word):
            shown.append(REDACTED)
        else:
            shown.append(redact(word, by_name=True))
    return shown


def find_secrets(words: Sequence[str]) -> list[str]:
    """Return what `redact_words` hides."""
    secrets: list[str] = []
    for previous, word in zip(("", *words), words, strict=False):
        if _is_named_by(previous, word):
            secrets.append(word)
            continue
        secrets += (match[0] for match in _KEY_PATTERN.finditer(word))
        secrets += (
            match[0].removeprefix(_shown_part(match)) for match in _NAMED_SECRET_PATTERN.finditer(word)
        )
    return secrets


def _is_named_by(previous: str, word: str) -> bool:
    """Whether a word is a secret because of the one before it."""
    if word.lower() in _SCHEMES:
        return False
    return not redact(f"{previous} {word}", by_name=True).endswith(f" {redact(word, by_name=True)}")


def _shown_part(match: re.Match[str]) -> str:
    """Return what stays of a named secret: everything before its value."""
    return "".join(match[group] or "" for group in ("name", "more", "scheme", "cookie"))


def _quoted_forms(secret: str) -> set[str]:
    """Return a secret as it is, in a URL, in JSON, and in JSON inside of JSON."""
    if secret.isascii() and secret.isalnum():
        return {secret}
    in_json = dumps_text(secret)[1:-1]
    return {secret, quote(secret, safe="", errors="replace"), in_json, dumps_text(in_json)[1:-1]}


@lru_cache(256)
def encode_secret(secret: str) -> tuple[str, ...]:
    """Return a secret as it is, quoted, reversed, in hexadecimal and in base64; the longest first."""
    data = secret.encode(errors="replace")
    forms = _quoted_forms(secret)
    if len(data) >= _MIN_PREFIX_LENGTH:
        forms |= {secret[::-1], data.hex(), data.hex().upper()}
        for offset in range(3):  # the characters of base64 depend on how many bytes stand before
            encoded = b64encode(b"\0" * offset + data).decode()
            encoded = encoded[(0, 2, 3)[offset] : (offset + len(data)) * 8 // 6]
            forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return tuple(sorted(forms, key=len, reverse=True))


def _hide_parts(text: str, secret: str) -> str:
    """Hide every run of characters that is at least half of a secret."""
    size = max(_MIN_PART_LENGTH, (len(secret) + 1) // 2)
    if len(secret) < size:
        return text
    step = size // 2  # so that each such run contains one of the chunks that are looked for
    for start in range(0, len(secret) - step + 1, step):
        chunk = secret[start : start + step]
        kept: list[str] = []
        done = 0
        at = text.find(chunk)
        while at >= 0:
            left = start
            right = start + step
            while left and at - (start - left) > done and text[at - (start - left) - 1] == secret[left - 1]:
                left -= 1
            end = at + step
            while right < len(secret) and end < len(text) and text[end] == secret[right]:
                right += 1
                end += 1
            if right - left >= size:
                kept += [text[done : at - (start - left)], REDACTED]
                done = end
            at = text.find(chunk, max(at + 1, done))
        if kept:
            text = "".join([*kept, text[done:]])
    return text


def _hide_truncated_secret(text: str, secret: str) -> str:
    """Hide the beginning of a secret at the end of a text that was truncated, perhaps inside of quotes."""
    end = text.rstrip("\"'…")
    at = end.rfind(secret[:_MIN_PREFIX_LENGTH], max(0, len(end) - len(secret)))
    if at < 0 or len(end) - at < _MIN_PREFIX_LENGTH:
        return text
    if not secret.startswith(end[at:]):
        return text
    return text[:at] + REDACTED + text[len(end) :]
