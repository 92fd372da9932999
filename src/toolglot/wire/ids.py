"""Ids that are made up: letters and digits, which every provider accepts, the same for the same words."""

from hashlib import sha256

__all__ = ["hash_id"]

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def hash_id(seed: str, length: int) -> str:
    """An id of `size` characters, 21 at most."""
    number = int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits += _ALPHABET[digit]
    return digits
