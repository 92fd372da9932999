"""A provider, the wire it speaks, and how it signs in: `-m parrot:polly`."""

import os

from toolglot import Profile, ProviderLimits, Token
from toolglot.wire.spec import WireSpec

__all__ = ["PARROT", "PARROT_LINES", "ParrotSignIn"]

PARROT = Profile(
    id="parrot",  # the name of the entry point
    title="Parrot",
    wire="parrot-lines",
    base_url="https://parrot.example",
    path="/squawk",
    key_env=("PARROT_KEY",),
    sign_in="parrot-pass",
    options=frozenset({"temperature"}),  # all others are reported as losses
    limits=ProviderLimits(tools=32, as_of="2026-11-16", source="the parrot itself"),
    notes=("It repeats what it hears.",),
)
PARROT_LINES = WireSpec(
    name="parrot-lines",  # the name of the entry point
    package="toolglot_example_plugin.wire",
    class_prefix="Parrot",
    default_profile="parrot",
    options={"temperature": "squawkiness"},
    stream_type="application/x-ndjson",
    frame_end=b"\n",
    paths=((r"/squawk", ""),),
)


class ParrotSignIn:
    """Gets a token without a key. A real one would ask a server, and again if `fresh`."""

    async def token(self, *, fresh: bool) -> Token:
        return Token(os.environ.get("PARROT_PASS", "cracker"))
