"""`toolglot login` and `toolglot logout`: store a key in the system keyring, or sign in to GitHub for
Copilot.

A key is read without echo and never printed.
"""

import asyncio
import os
import sys
from getpass import getpass

import click

from toolglot.cli.printer import print_line, print_note
from toolglot.cli.startup import logins_file
from toolglot.common.user_dirs import write_private
from toolglot.engine.signin import copilot
from toolglot.engine.signin.copilot import GitHub, Login
from toolglot.engine.signin.environment import read_key_variable
from toolglot.engine.signin.keyring_store import (
    delete_key,
    has_backend,
    is_installed,
    keyring_account,
    load_key,
    store_key,
)
from toolglot.errors import ToolglotError, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile


@click.command()
@click.argument("provider")
@click.option("--host", help="GitHub Enterprise host, for example company.ghe.com (copilot only).")
def login(provider: str, host: str | None) -> None:
    """Store a key in the system keyring, or sign in to Copilot."""
    profile = resolve_profile(provider)
    if host is not None and profile.sign_in != "copilot":
        raise UsageError(
            "--host only applies to copilot: it names a GitHub Enterprise host such as company.ghe.com"
        )
    if profile.sign_in == "copilot":
        copilot.check_installed()
        location = copilot.store_login(asyncio.run(_run_device_flow(GitHub.for_host(host))))
        print_line(
            f"signed in; the Copilot login is stored in {'the ' if os.sep not in location else ''}{location}"
        )
    else:
        _store_key(profile)
    _warn_about_variable(profile, "is set and takes precedence over the stored key")


@click.command()
@click.argument("provider")
def logout(provider: str) -> None:
    """Delete a key or sign-in stored by `login`."""
    profile = resolve_profile(provider)
    account = keyring_account(profile.id)
    is_deleted = copilot.delete_login() if profile.sign_in == "copilot" else delete_key(profile.id)
    if not is_deleted and load_key(profile.id):
        raise ToolglotError(f"the system keyring refuses to delete the key for {account}: delete it there")
    print_line(f"deleted the key for {account}" if is_deleted else f"no key is stored for {account}")
    _warn_about_variable(profile, "is still set")


def _warn_about_variable(profile: Profile, consequence: str) -> None:
    name = next((name for name in (*profile.key_env, *profile.token_env) if read_key_variable(name)), None)
    if name:
        print_note(f"{name} {consequence}")


def _store_key(profile: Profile) -> None:
    account = keyring_account(profile.id)
    alternative = f"set {profile.key_env[0]}" if profile.key_env else "pass key=…"
    if profile.auth == "optional":
        alternative += " (a key is optional)"
    if profile.sign_in == "adc":
        raise UsageError(
            f"{profile.title} has no permanent keys: run `gcloud auth application-default login`"
        )
    if not is_installed():
        raise ToolglotError(
            f"the keyring package is not installed: run `pip install 'toolglot[keyring]'`, or {alternative}"
        )
    if not has_backend():
        raise ToolglotError(f"this system has no usable keyring: {alternative}")
    try:
        prompt = f"Key for {account} (not shown): "
        key = (getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline()).strip()
    except EOFError:
        key = ""
    if not key:
        raise UsageError(f"no key was entered: type it, pipe it in, or {alternative}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            "this is not a valid key: it contains characters that are not allowed in an HTTP header"
        )
    if not store_key(profile.id, key):
        raise ToolglotError(f"the system keyring did not accept the key: unlock it, or {alternative}")
    write_private(logins_file(), b"a key was kept in the system keyring\n")
    print_line(f"stored the key for {account} in the system keyring")


async def _run_device_flow(github: GitHub) -> Login:
    code = await copilot.request_device_code(github)
    url, user_code = (
        "".join(filter(str.isprintable, text))[:200] for text in (code.verification_uri, code.user_code)
    )
    print_line(f"open {url} and enter the code {user_code}")
    print_note("waiting for GitHub (press Ctrl-C to cancel) …")
    login = await copilot.wait_for_login(code, github)
    await copilot.exchange_login(login)
    return login
