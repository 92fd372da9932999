"""A user with a file of settings, and a project with another one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolglot.config.layers import Configuration, read_configuration


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

    def read(self, user: str = "", project: str = "", *, trusted: bool | None = None, **more: Any) -> Configuration:
        self.user_file.write_text(user, encoding="utf-8")
        self.project_file.write_text(project, encoding="utf-8")
        environ: Mapping[str, str] = {**os.environ, **more.pop("environ", {})}
        return read_configuration(directory=self.project, environ=environ, trusted=trusted, **more)
