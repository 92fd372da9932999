"""What the tests of the configuration share: a home with a user file and a project file, settings, and a deaf
provider.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolglot.config.layers import Configuration, read_configuration
from toolglot.config.settings import Settings
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ConnectFailed


def settings(**document: Any) -> Settings:
    return msgspec.convert(document, Settings)


class DeafTransport:
    """Records what is sent and answers nothing."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        raise ConnectFailed("nobody listens")


class Home:
    """A user with a file, and a project with another one."""

    def __init__(self, root: Path) -> None:
        self.directory, self.user_file = root, root / "user" / "config.toml"
        self.state, self.project = root / "state", root / "project"
        self.project.mkdir(parents=True)
        self.user_file.parent.mkdir()

    @property
    def project_file(self) -> Path:
        return self.project / "toolglot.toml"

    def read(
        self, user: str = "", project: str = "", *, trusted: bool | None = None, **options: Any
    ) -> Configuration:
        self.user_file.write_text(user, encoding="utf-8")
        self.project_file.write_text(project, encoding="utf-8")
        environ: Mapping[str, str] = {**os.environ, **options.pop("environ", {})}
        return read_configuration(directory=self.project, environ=environ, trusted=trusted, **options)
