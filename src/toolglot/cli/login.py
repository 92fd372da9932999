"""`toolglot login`, `toolglot logout`: a key into the system keyring, or a sign-in at GitHub for Copilot.

A key is asked for without echo, and never printed.
"""

import asyncio
import os
import sys
from getpass import getpass

from toolglot.cli.startup import logins_file
from toolglot.config.paths import write_private
from toolglot.engine.auth import read_key_variable
from toolglot.engine.signin import copilot
from toolglot.engine.signin.copilot import GitHub, Login, Sleep
from toolglot.engine.signin.keyring_store import delete_key, has_backend, is_installed, keyring_account, load_key, store_key
from toolglot.errors import ToolglotError, UsageError
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile

__all__ = ["keys_table", "login", "logout"]

EXIT_INTERRUPTED = 130
_SIGN_IN_NAMES = {
    "entra": "Microsoft Entra (`az login`, a managed identity, a service principal)",
    "adc": "Google (`gcloud auth application-default login`, `GOOGLE_APPLICATION_CREDENTIALS`)",
    "copilot": "GitHub (`toolglot login copilot`)",
}


def login(provider: str, *, host: str | None = None, github: GitHub | None = None, sleep: Sleep = asyncio.sleep) -> int:
    """Keeps a key or a sign-in; the exit code. `host`: the GitHub of a company. Raises ToolglotError."""
    profile = resolve_profile(provider)
    if host is not None and profile.sign_in != "copilot":
        raise UsageError("a host is for copilot only: a company's GitHub, as in company.ghe.com")
    try:
        if profile.sign_in == "copilot":
            _sign_in_to_github(github or GitHub.for_host(host), sleep)
        else:
            _store_key(profile)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return EXIT_INTERRUPTED
    _warn_about_variable(profile, "is set, and goes before what was kept")
    return 0


def logout(provider: str) -> int:
    """Drops the key or the sign-in that was kept; the exit code. Raises ToolglotError."""
    profile = resolve_profile(provider)
    dropped = copilot.delete_login() if profile.sign_in == "copilot" else delete_key(profile.id)
    if not dropped and load_key(profile.id):
        raise ToolglotError(f"the system keyring does not let go of the key for {keyring_account(profile.id)}: remove it there")
    print(
        f"the key for {keyring_account(profile.id)} is dropped"
        if dropped
        else f"no key for {keyring_account(profile.id)} was kept"
    )
    _warn_about_variable(profile, "is still set")
    return 0


def _warn_about_variable(profile: Profile, consequence: str) -> None:
    name = next((name for name in (*profile.key_env, *profile.token_env) if read_key_variable(name)), None)
    if name:
        print(f"note: {name} {consequence}", file=sys.stderr)


# ---- a key


def _store_key(profile: Profile) -> None:
    account, instead = keyring_account(profile.id), f"set {profile.key_env[0]}" if profile.key_env else "pass key=…"
    if profile.sign_in == "adc":
        raise UsageError(f"{profile.title} takes no key that lasts: run `gcloud auth application-default login`")
    if not is_installed():
        raise ToolglotError(f"there is no keyring to keep a key in: `pip install 'toolglot[keyring]'`, or {instead}")
    if not has_backend():
        raise ToolglotError(f"this system has no keyring that can keep a key: {instead}")
    key = _prompt_for_key(account)
    if not key:
        raise UsageError(f"no key was given: type it, or pipe it in, or {instead}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("that is no key: it holds characters that no header can hold")
    if not store_key(profile.id, key):
        raise ToolglotError(f"the system keyring did not take the key: unlock it, or {instead}")
    write_private(logins_file(), b"a key was kept in the system keyring\n")
    print(f"the key for {account} is kept in the system keyring")


def _prompt_for_key(account: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    try:
        return getpass(f"Key for {account} (it is not shown): ").strip()
    except EOFError:
        return ""


# ---- GitHub


def _sign_in_to_github(github: GitHub, sleep: Sleep) -> None:
    place = copilot.store_login(asyncio.run(_run_device_flow(github, sleep)))
    print(f"signed in; the login for Copilot is kept in {'the ' if os.sep not in place else ''}{place}")


async def _run_device_flow(github: GitHub, sleep: Sleep) -> Login:
    code = await copilot.request_device_code(github)
    print(
        f"open {_strip_unprintable(code.verification_uri)} and enter the code {_strip_unprintable(code.user_code)}", flush=True
    )
    print("waiting for GitHub (Ctrl-C ends it) …", file=sys.stderr, flush=True)
    found = await copilot.wait_for_login(code, github, sleep=sleep)
    await copilot.exchange_login(found)
    return found


def _strip_unprintable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:200]


# ---- the documentation


def keys_table() -> str:
    """docs/keys.md: one line for each key, with all that it opens."""
    rows = ["| key of | opens | variables | or a sign-in with |", "|---|---|---|---|"]
    for account in dict.fromkeys(map(keyring_account, PROFILES)):
        kin = [profile for profile in PROFILES.values() if keyring_account(profile.id) == account]
        names = ", ".join(f"`{name}`" for name in (*kin[0].key_env, *kin[0].token_env)) or "none"
        opened = ", ".join(f"`{profile.id}`" for profile in kin)
        optional = ", where the server asks for one" if kin[0].auth == "optional" and kin[0].key_env else ""
        rows.append(f"| `{account}` | {opened} | {names}{optional} | {_SIGN_IN_NAMES.get(kin[0].sign_in, '')} |")
    return "\n".join(rows)
