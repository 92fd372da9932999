"""Ids that are made up: letters and digits, which every provider accepts, the same for the same words."""

from hashlib import sha256

__all__ = ["hashed"]

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def hashed(words: str, size: int) -> str:
    """An id of `size` characters, 21 at most."""
    number = int.from_bytes(sha256(words.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    digits = ""
    for _ in range(size):
        number, digit = divmod(number, len(_ALPHABET))
        digits += _ALPHABET[digit]
    return digits
