"""Generated ids: deterministic, so that the same bytes decode to the same reply and encodings stay cacheable."""

from hashlib import sha256

# Letters and digits are legal in every provider's ids; Mistral allows nothing else (400 "must be a-z, A-Z,
# 0-9").
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def name_suffix(name: str) -> str:
    """Return what keeps a name apart from others that become equal once it is made legal."""
    return "_" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def hash_id(seed: str, length: int) -> str:
    """Return an id of `length` characters, at most 21, that depends only on the seed."""
    number = int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits += _ALPHABET[digit]
    return digits
