import os
import stat
from pathlib import Path

import pytest
from homes import Home

from toolglot.common.user_dirs import (
    config_file,
    data_directory,
    ensure_private_directory,
    state_directory,
    write_private,
)
from toolglot.config.trust import (
    has_decision,
    is_trusted,
    list_trusted_directories,
    refuse_trust,
    revoke_trust,
    trust_directory,
    trust_file,
)
from toolglot.errors import MalformedData, ToolglotError, UsageError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestDirectories:
    def test_variables_override_them(self, tmp_path: Path) -> None:
        environ = {"TOOLGLOT_CONFIG": "~/mine.toml", "TOOLGLOT_STATE": "state"}
        assert config_file(environ) == tmp_path / "mine.toml"
        assert data_directory(environ) == state_directory(environ) == tmp_path / "state"

    def test_the_default_is_the_platforms(self, tmp_path: Path) -> None:
        paths = [config_file({}), data_directory({}), state_directory({})]
        assert all(path.is_relative_to(tmp_path) and "toolglot" in path.parts for path in paths)
        assert config_file({}).name == "config.toml"

    def test_reading_creates_nothing(self, home: Home) -> None:
        home.read()
        assert not is_trusted(home.project)
        assert list_trusted_directories() == ()
        assert not home.state.exists()

    def test_files_are_private_to_their_owner(self, tmp_path: Path) -> None:
        file = tmp_path / "a" / "b" / "file"
        write_private(file, b"1")
        write_private(file, b"2")
        assert (file.read_bytes(), mode(file), mode(file.parent)) == (b"2", 0o600, 0o700)
        assert os.listdir(file.parent) == ["file"]
        assert mode(file.parent.parent) == 0o700, (
            "the first directory that is needed may be below the state directory"
        )

    def test_failures_are_named_and_leave_nothing_behind(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "taken").mkdir()
        with pytest.raises(
            UsageError,
            match=r"^cannot create the directory '.*file/x': .*; set TOOLGLOT_STATE to use another",
        ):
            ensure_private_directory(tmp_path / "file" / "x")
        with pytest.raises(UsageError, match=r"^cannot write '.*taken': "):
            write_private(tmp_path / "taken", b"")
        assert os.listdir(tmp_path / "taken") == []
        assert sorted(os.listdir(tmp_path)) == ["file", "taken"]


class TestTrust:
    def test_it_applies_to_the_directory_and_everything_below(self, home: Home) -> None:
        below = home.project / "a" / "b"
        below.mkdir(parents=True)
        trust_directory(home.project)
        trusted = (home.project, below, home.directory, home.directory / "project2")
        assert [is_trusted(directory) for directory in trusted] == [True, True, False, False]
        assert list_trusted_directories() == (home.project.resolve(),)
        assert (mode(trust_file()), mode(home.state)) == (0o600, 0o700)

    def test_a_refusal_is_remembered_and_can_be_changed(self, home: Home) -> None:
        assert not has_decision(home.project)
        for decide, trusted in ((refuse_trust, False), (trust_directory, True)):
            decide(home.project)
            assert (has_decision(home.project), is_trusted(home.project)) == (True, trusted)

    def test_the_nearest_decision_counts(self, home: Home) -> None:
        deep = home.project / "foreign"
        deep.mkdir()
        trust_directory(home.project)
        refuse_trust(deep)
        assert (is_trusted(deep), is_trusted(home.project)) == (False, True)

    def test_a_refusal_above_is_no_decision(self, home: Home) -> None:
        refuse_trust(home.directory)
        assert not has_decision(home.project)

    def test_revoking_forgets_the_decision(self, home: Home) -> None:
        trust_directory(home.project)
        revoke_trust(home.project)
        assert (is_trusted(home.project), has_decision(home.project)) == (False, False)
        trust_directory(home.directory)
        revoke_trust(home.project)  # below a trusted directory
        assert (is_trusted(home.project), is_trusted(home.directory)) == (False, True)

    def test_links_are_resolved(self, home: Home) -> None:
        link = home.directory / "link"
        link.symlink_to(home.project)
        trust_directory(link)
        assert is_trusted(home.project)
        other = home.directory / "other"
        other.mkdir()
        link.unlink()
        link.symlink_to(other)
        assert not is_trusted(link)

    def test_trust_decides_what_a_project_may_do(self, home: Home) -> None:
        assert home.read("", "audit = false").settings.audit is True
        trust_directory(home.project)
        configuration = home.read("", "audit = false")
        assert (configuration.settings.audit, configuration.trusted, configuration.project) == (
            False,
            True,
            home.project,
        )

    def test_a_missing_directory_cannot_be_trusted(self, home: Home) -> None:
        with pytest.raises(UsageError, match=r"^there is no directory '.*nowhere' to trust$"):
            trust_directory(home.directory / "nowhere")


@pytest.mark.parametrize("damage", [
    b"", b"{", b"[]", b'{"trusted": "/"}', b'{"trusted": [1]}', b'{"trusted": ["/"], "else": 1}', b'{"refused": []}',
    b'{"trusted": ["\xff"]}', b'\xef\xbb\xbf{"trusted": ["/"]}',
])  # fmt: skip
def test_a_damaged_list_is_an_error_that_names_it(home: Home, damage: bytes) -> None:
    home.state.mkdir()
    trust_file().write_bytes(damage)
    for work in (is_trusted, has_decision, trust_directory, refuse_trust, revoke_trust):
        with pytest.raises(MalformedData) as error:
            work(home.project)
        assert str(error.value).startswith(
            f"the list of trusted directories {str(trust_file())!r} is damaged ("
        )
    with pytest.raises(MalformedData):
        home.read("", "model = 'simulator'")
    assert trust_file().read_bytes() == damage


def test_an_unreadable_list_is_an_error(home: Home) -> None:
    trust_file().mkdir(parents=True)
    with pytest.raises(
        ToolglotError, match=r"^cannot read the list of trusted directories '.*trust\.json': "
    ):
        is_trusted(home.project)


def test_a_damaged_list_matters_only_with_a_project(home: Home) -> None:
    home.state.mkdir()
    trust_file().write_bytes(b"{")
    from toolglot.config.layers import read_configuration

    assert read_configuration(directory=home.project).project is None
