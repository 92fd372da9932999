"""Text without secrets."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest

from toolglot.common.redact import REDACTED, find_secrets, redact, redact_words

SECRETS = [
    "sk-abcdefgh12345678",
    "sk-proj-AbC_123-xyzABCDEF",
    "sk-ant-api03-AbCdEfGh_12345-67890",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstu",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2",
    "gho_" + "a1B2c3D4e5F6g7H8i9J0k1L2",
    "github_pat_" + "11ABCDEFG0abcdefghij_klmnop",
    "xai-" + "a1B2c3D4e5F6g7H8i9J0",
    "gsk_" + "a1B2c3D4e5F6g7H8i9J0",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-DEF_123",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "the key {} is wrong", '{{"key":"{}"}}', "key={}&x=1", "({}).", "'{}'", "a\n{}\nb"]
)
def test_what_looks_like_a_key(secret: str, around: str) -> None:
    text = around.format(secret)
    assert redact(text) == around.format(REDACTED)


@pytest.mark.parametrize("word", ["Bearer", "bearer"])
def test_bearers(word: str) -> None:
    assert (
        redact(f"authorization: {word} ya29.a0AfB_by-x/y+z==, next")
        == f"authorization: {word} {REDACTED}, next"
    )


@pytest.mark.parametrize("text", [
    "", "a task-oriented risk-assessment of scikit-learn", "sk-8", "the bearer of bad news", "AIza",
    '{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}]}',
    "msg_01XFDUDYJgAACzvnptvVoYEL call_abcdef0123456789abcdef01 "
    "toolu_01A09q90qw90lq917835lq9", "eyJust a word",
])  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert redact(text) == text


def test_keys_that_are_known() -> None:
    assert (
        redact("secret-1 and secret-2, secret-1", ["secret-1", "secret-2"])
        == f"{REDACTED} and {REDACTED}, {REDACTED}"
    )
    assert redact("nothing here", {"secret-1"}) == "nothing here"


def test_known_keys_that_are_too_short_are_words() -> None:
    """A test key such as "k" does not make holes in everything."""
    assert redact("kiosk key", ["k", "key", ""]) == "kiosk key"


@pytest.mark.parametrize("known", [["abcdefgh", "abcdefgh-more"], ["abcdefgh-more", "abcdefgh"]])
def test_a_key_that_starts_with_another_is_hidden_whole(known: list[str]) -> None:
    assert redact("key abcdefgh-more is wrong", known) == f"key {REDACTED} is wrong"


def test_it_is_idempotent() -> None:
    once = redact("Bearer abcdefgh12345 sk-abcdefgh12345678", ["abcdefgh12345"])
    assert redact(once, ["abcdefgh12345"]) == once


KEY = "my-live_Q7w+E/9rTyU4iOpA1sDfGh2JkL3zXcVbN"

ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: b64encode(data).decode(),
    "url-safe base64": lambda data: urlsafe_b64encode(data).decode().rstrip("="),
    "hex": lambda data: data.hex(),
    "upper hex": lambda data: data.hex().upper(),
    "reversed": lambda data: data.decode()[::-1],
    "url": lambda data: quote(data.decode(), safe=""),
    "json": lambda data: json.dumps(json.dumps(data.decode())),
}


@pytest.mark.parametrize("around", ["{}", "x{}", "xy{}", "xyz{}", '{{"authorization": "Bearer {}", "n": 1}}'])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encoded_keys(encoding: str, around: str) -> None:
    encode = ENCODINGS[encoding]
    text = f"before {encode(around.format(KEY).encode())} after"
    hidden = redact(text, [KEY])
    assert REDACTED in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    forms = [encode(b"   " + KEY[start : start + 20].encode() + b"   ") for start in range(21)]
    assert not any(form[6:-6] in hidden for form in forms)


@pytest.mark.parametrize(
    "part", [KEY[:21], KEY[20:], KEY[10:31], KEY[1:], KEY[:-1], KEY[5:26][::-1], KEY[:22].encode().hex()]
)
def test_half_of_a_key_is_hidden(part: str) -> None:
    for text in (part, f"a{part}b", f"{part} {part}", f"{KEY}{part}", part * 3):
        hidden = redact(text, [KEY])
        assert REDACTED in hidden
        assert not any(KEY[start : start + 12] in hidden for start in range(len(KEY) - 12))


def test_parts_of_what_may_be_anywhere_stay() -> None:
    assert redact("https://example.com/other", ["https://example.com/my-app"]) == "https://example.com/other"
    assert redact("my-live_Q7 is a short prefix", [KEY]) == "my-live_Q7 is a short prefix"


def test_hostile_text_takes_no_longer() -> None:
    """Each chunk of the key, everywhere: what is found is looked at once."""
    for chunk in (KEY[:10], KEY[10:20], KEY[:19], KEY[1:20]):
        assert len(redact(chunk * 20_000, [KEY])) > 19_000 * 10


@pytest.mark.parametrize(("words", "secrets"), [
    (["--api-key", "argsecret12345"], ["argsecret12345"]),
    (["--my-own_token2key", "a b c"], ["a b c"]),
    (["-y", "--token=abcdef", "x"], ["abcdef"]),
    (["Authorization:", "Bearer", "abc123defg"], ["abc123defg"]),
    (["https://me:passw0rd@x/", "https://x/?auth=abcdefgh"], ["me:passw0rd", "abcdefgh"]),
    (["sh", "-c", "serve --password abcdef --verbose"], ["abcdef"]),
    (["--use-token", "--verbose"], []),
    (["--max-tokens", "5", "--keyring", "x", "monkey", "y"], []),
    (["", "--token", ""], []),
    ([], []),
])  # fmt: skip
def test_the_words_of_a_command(words: list[str], secrets: list[str]) -> None:
    shown = redact_words(words)
    assert find_secrets(words) == secrets
    assert [secret for secret in secrets if secret in " ".join(shown)] == []
    assert len(shown) == len(words)
    assert redact_words(shown) == shown
    if not secrets:
        assert shown == words
