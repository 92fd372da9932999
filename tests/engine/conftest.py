"""A machine on which nobody is signed in, for the tests of keys and sign-ins."""

import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends import null

from toolglot.engine import auth
from toolglot.engine.signin.environment import KEY_VARIABLES

VENDOR_PREFIXES = ("AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_", "TOOLGLOT_")


@pytest.fixture
def nobody_signed_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No key, no sign-in, no keyring; no request leaves this machine."""
    for name in [*KEY_VARIABLES, *(name for name in os.environ if name.startswith(VENDOR_PREFIXES))]:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE", "APPDATA", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "environmentcredential")
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)
    monkeypatch.setattr("toolglot.engine.signin.adc._PRODUCT_NAME_FILE", tmp_path / "absent")
    monkeypatch.setattr("toolglot.engine.signin.entra._LOGIN_DIRECTORIES", ("~/.azure",))
    monkeypatch.setattr("toolglot.engine.signin.environment._hidden_keys", {})
    before = keyring.get_keyring()
    keyring.set_keyring(null.Keyring())
    auth._sign_in.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield
    auth._sign_in.cache_clear()  # pyright: ignore[reportPrivateUsage]
    keyring.set_keyring(before)
