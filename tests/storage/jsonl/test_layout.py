from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.storage.jsonl.layout import (
    LOG_NAMES,
    escape_session_id,
    find_logs,
    log_path,
    project_directory,
    unescape_session_id,
)

IDS = [
    ("plain-id_1.2", "plain-id_1.2"),
    (".", "~002E"),
    ("..", "~002E~002E"),
    ("...", "..."),
    ("../x", "..~002Fx"),
    ("a/b\\c:d", "a~002Fb~005Cc~003Ad"),
    ("~", "~007E"),
    ("~002E", "~007E002E"),
    (" ", "~0020"),
    ("é", "~00E9"),
    ("⏰", "~23F0"),
    ("\N{SLEEPING SYMBOL}", "~D83D~DCA4"),
    ("\ud83d", "~D83D"),
    ("a\0\n", "a~0000~000A"),
    ("failed turns ~ é/..", "failed~0020turns~0020~007E~0020~00E9~002F.."),
]


@pytest.mark.parametrize(("session_id", "name"), IDS)
def test_a_session_id_becomes_one_safe_name_and_back(session_id: str, name: str) -> None:
    assert escape_session_id(session_id) == name
    assert unescape_session_id(name) == session_id


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "~", "~00e9", "~0041", "~002E.", "é", "x~12", "x" * 256]
)
def test_other_names_are_no_sessions(name: str) -> None:
    assert unescape_session_id(name) is None


@pytest.mark.parametrize("session_id", ["", "x" * 256, "é" * 52])
def test_an_id_without_a_name_is_refused(session_id: str) -> None:
    with pytest.raises(ValueError, match="session id"):
        escape_session_id(session_id)


@given(
    st.text(
        st.characters(categories=["Lu", "Cs", "Po", "So", "Cc"]) | st.sampled_from("~.0aA"),
        min_size=1,
        max_size=20,
    )
)
def test_escaping_loses_nothing(session_id: str) -> None:
    # Two halves of a pair are the same JavaScript text as the character that they make.
    text = session_id.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert unescape_session_id(escape_session_id(session_id)) == text


PROJECTS = [
    (None, "_no-cwd"),
    ("/", "--root--"),
    ("/srv/projects/alpha", "--srv-projects-alpha--"),
    ("/srv/projects/stand up/ünï", "--srv-projects-stand~0020up-~00FCn~00EF--"),
    ("/srv//x/", "--srv-x---"),
    ("C:\\work\\a.b", "--C-work-a.b--"),
    ("/-x-", "--x---"),
    ("/---", "--root--"),
    ("/..", "--..--"),
    ("/~", "--~007E--"),
    ("/" + "x" * 300, "--" + "x" * 251 + "--"),
    ("/" + "x" * 249 + "é", "--" + "x" * 249 + "~0--"),
]


@pytest.mark.parametrize(("cwd", "name"), PROJECTS)
def test_a_project_becomes_a_directory_name(cwd: str | None, name: str) -> None:
    assert project_directory(cwd) == name


def test_logs_are_found_in_all_projects_and_strays_are_passed_over(tmp_path: Path) -> None:
    assert list(find_logs(tmp_path)) == []
    paths = [
        log_path(tmp_path, "a", "/x", "zstd"),
        log_path(tmp_path, "b", "/x", "none"),
        log_path(tmp_path, "a", None, "zstd"),
    ]
    assert paths[0] == tmp_path / "sessions" / "--x--" / "a" / LOG_NAMES["zstd"]
    strays = [tmp_path / "sessions" / "stray" / "a" / LOG_NAMES["zstd"], paths[0].parent / "owner"]
    for path in (*paths, *strays):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "sessions" / ".DS_Store").touch()
    (tmp_path / "sessions" / "--x--" / "empty").mkdir()
    assert list(find_logs(tmp_path)) == paths
    assert list(find_logs(tmp_path, "a")) == [paths[0], paths[2]]
    assert list(find_logs(tmp_path, "empty")) == []
