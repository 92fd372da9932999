import os
import stat
from pathlib import Path

import pytest
from homes import Home

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
from toolglot.user_dirs import config_file, data_directory, ensure_private_directory, state_directory, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestPlaces:
    def test_variables_name_other_places(self, tmp_path: Path) -> None:
        environ = {"TOOLGLOT_CONFIG": "~/mine.toml", "TOOLGLOT_STATE": "state"}
        assert config_file(environ) == tmp_path / "mine.toml"
        assert data_directory(environ) == state_directory(environ) == tmp_path / "state"

    def test_without_them_they_are_where_the_platform_has_them(self, tmp_path: Path) -> None:
        places = [config_file({}), data_directory({}), state_directory({})]
        assert all(place.is_relative_to(tmp_path) and "toolglot" in place.parts for place in places)
        assert config_file({}).name == "config.toml"

    def test_looking_creates_nothing(self, home: Home) -> None:
        home.read()
        assert not is_trusted(home.project)
        assert list_trusted_directories() == ()
        assert not home.state.exists()

    def test_what_is_written_is_for_its_owner_only(self, tmp_path: Path) -> None:
        file = tmp_path / "a" / "b" / "file"
        write_private(file, b"1")
        write_private(file, b"2")
        assert (file.read_bytes(), mode(file), mode(file.parent)) == (b"2", 0o600, 0o700)
        assert os.listdir(file.parent) == ["file"]

    def test_a_place_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(
            UsageError, match=r"^cannot create the directory '.*file/x': .*; set TOOLGLOT_STATE to use another one$"
        ):
            ensure_private_directory(tmp_path / "file" / "x")

    def test_what_cannot_be_written_leaves_nothing_behind(self, tmp_path: Path) -> None:
        (tmp_path / "taken").mkdir()
        with pytest.raises(UsageError, match=r"^cannot write '.*taken': "):
            write_private(tmp_path / "taken", b"")
        assert os.listdir(tmp_path / "taken") == []
        assert [name for name in os.listdir(tmp_path) if name.startswith(".taken")] == []


class TestTrust:
    def test_a_yes_counts_for_the_folder_and_all_below(self, home: Home) -> None:
        below = home.project / "a" / "b"
        below.mkdir(parents=True)
        trust_directory(home.project)
        assert is_trusted(home.project)
        assert is_trusted(below)
        assert not is_trusted(home.directory)
        assert list_trusted_directories() == (home.project.resolve(),)
        assert (mode(trust_file()), mode(home.state)) == (0o600, 0o700)

    def test_a_neighbour_with_a_longer_name_is_another_folder(self, home: Home) -> None:
        trust_directory(home.project)
        assert not is_trusted(home.directory / "project2")

    def test_a_no_is_remembered_and_can_be_changed(self, home: Home) -> None:
        assert not has_decision(home.project)
        refuse_trust(home.project)
        assert has_decision(home.project)
        assert not is_trusted(home.project)
        trust_directory(home.project)
        assert is_trusted(home.project)
        assert has_decision(home.project)

    def test_the_nearest_word_counts(self, home: Home) -> None:
        deep = home.project / "foreign"
        deep.mkdir()
        trust_directory(home.project)
        refuse_trust(deep)
        assert not is_trusted(deep)
        assert is_trusted(home.project)

    def test_a_no_for_a_folder_above_is_none_for_this_one(self, home: Home) -> None:
        refuse_trust(home.directory)
        assert not has_decision(home.project)

    def test_taking_it_back_asks_again(self, home: Home) -> None:
        trust_directory(home.project)
        revoke_trust(home.project)
        assert not is_trusted(home.project)
        assert not has_decision(home.project)

    def test_taking_it_back_counts_below_a_trusted_folder_too(self, home: Home) -> None:
        trust_directory(home.directory)
        revoke_trust(home.project)
        assert not is_trusted(home.project)
        assert is_trusted(home.directory)

    def test_a_link_is_what_it_leads_to(self, home: Home) -> None:
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
        found = home.read("", "audit = false")
        assert (found.settings.audit, found.trusted, found.project) == (False, True, home.project)

    def test_a_folder_that_does_not_exist_cannot_be_trusted(self, home: Home) -> None:
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
        assert str(error.value).startswith(f"the list of trusted directories {str(trust_file())!r} is damaged (")
    with pytest.raises(MalformedData):
        home.read("", "model = 'simulator'")
    assert trust_file().read_bytes() == damage


def test_a_list_that_cannot_be_read_is_an_error_too(home: Home) -> None:
    trust_file().mkdir(parents=True)
    with pytest.raises(ToolglotError, match=r"^cannot read the list of trusted directories '.*trust\.json': "):
        is_trusted(home.project)


def test_a_damaged_list_matters_only_where_there_is_a_project(home: Home) -> None:
    home.state.mkdir()
    trust_file().write_bytes(b"{")
    from toolglot.config.layers import read_configuration

    assert read_configuration(directory=home.project).project is None
