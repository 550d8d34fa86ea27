"""The commands of ``fit user``."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from filmtransfer.cli import main
from filmtransfer.serve.store import Store, StoreLocation


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    code = main(["user", *arguments, "--folder", str(folder)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> dict:
    code, out, err = run(capsys, folder, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_commands_from_creation_to_deletion(capsys, tmp_path):
    folder = tmp_path / "a folder with 100% odd # ? characters"
    Store.open(StoreLocation.of(folder)).close()
    code, out, _ = run(capsys, folder, "list")
    assert code == 0
    assert "no users yet" in out
    made = document(capsys, folder, "add", "Ann [bold]", "--photos", "7", "--megabytes", "3")
    assert made["quota"] == {"classes": 100, "photos": 7, "bytes": 3_000_000, "versions": 20}
    assert (folder / "fit.db").is_file()

    location = StoreLocation.of(folder)
    store = Store.open(location)
    assert store.users.by_token(made["token"]).id == made["id"]
    store.versions.publish(store.projects.resolve(made["id"]), b"update", "trained", {})

    new = document(capsys, folder, "token", made["id"])["token"]
    assert store.users.by_token(made["token"]) is None
    assert store.users.by_token(new).id == made["id"]
    assert document(capsys, folder, "quota", made["id"], "--classes", "5")["quota"]["classes"] == 5
    shown = document(capsys, folder, "show", made["id"])
    assert shown["quota"]["photos"] == 7
    assert shown["used"] == {"classes": 0, "photos": 0, "bytes": 6, "versions": 1}
    assert [project["name"] for project in shown["projects"]] == ["My classifier"]
    assert [v["number"] for v in shown["projects"][0]["versions"]] == [shown["projects"][0]["current"]] == [1]
    listed = document(capsys, folder, "list")["users"]
    assert [user["name"] for user in listed] == ["Ann [bold]"]
    for arguments in (("list",), ("show", made["id"])):
        code, out, _ = run(capsys, folder, *arguments)
        assert code == 0
        assert "Ann [bold]" in out
    code, out, _ = run(capsys, folder, "delete", made["id"], "--yes")
    assert code == 0
    assert out == f"Deleted Ann [bold] ({made['id']}) with no photos and one version.\n"
    assert store.users.all() == []
    store.close()


def test_deletion_asks_for_confirmation(capsys, tmp_path, monkeypatch):
    made = document(capsys, tmp_path, "add", "Ann")
    for answer, code in (("n", 2), ("y", 0)):
        asked = []
        monkeypatch.setattr(
            "typer.confirm", lambda text, err, answer=answer, asked=asked: asked.append(text) or answer == "y"
        )
        assert run(capsys, tmp_path, "delete", made["id"])[0] == code
        assert asked == ["Delete Ann with no photos and no versions for good?"]


def test_deletion_without_anyone_to_ask_is_refused(capsys, tmp_path, monkeypatch):
    made = document(capsys, tmp_path, "add", "Ann")
    for answer, code, line in ((EOFError, 2, "Use --yes"), (KeyboardInterrupt, 130, "Interrupted")):

        def ask(_: str, answer: type[BaseException] = answer) -> str:
            raise answer

        monkeypatch.setattr("click.termui.visible_prompt_func", ask)
        exit_code, _, err = run(capsys, tmp_path, "delete", made["id"])
        assert (exit_code, line in err) == (code, True), err
    assert len(document(capsys, tmp_path, "list")["users"]) == 1


ID = "0123456789abcdef"


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", ID], ["token", ID], ["quota", ID, "--photos", "1"], ["delete", ID]]
)
def test_a_mistyped_folder_is_an_error_and_nothing_is_created(capsys, tmp_path, arguments):
    (tmp_path / "empty").mkdir()
    for folder in ("typo", "empty"):
        code, out, err = run(capsys, tmp_path / folder, *arguments)
        assert (code, out) == (3, "")
        assert f"There is no service in {tmp_path / folder}." in err
        assert "--folder" in err
    url = f"sqlite:///{tmp_path}/more/fit.db"
    assert main(["user", *arguments, "--database", url]) == 3
    assert f"There is no service in {url}." in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_an_empty_database_is_no_service(capsys, tmp_path):
    file = tmp_path / "fit.db"
    file.touch()
    assert run(capsys, tmp_path, "list")[0] == 3
    assert file.read_bytes() == b""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert run(capsys, tmp_path, "list")[0] == 3


def test_a_user_can_be_added_before_the_first_start_which_is_said(capsys, tmp_path):
    code, out, err = run(capsys, tmp_path / "new", "add", "Ann")
    assert code == 0
    assert "Token, shown only now" in out
    assert "a new store was created there" in err
    assert str(tmp_path / "new") in err
    code, _, err = run(capsys, tmp_path / "new", "add", "Bob")
    assert (code, err) == (0, "")
    assert run(capsys, tmp_path / "other", "add", "")[0] == 3
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["show", "0000000000000000"], 3, "no such user"),
        (["show", "../../etc"], 3, "no such user"),
        (["add", ""], 3, "empty"),
        (["add", "a\nb"], 3, "cannot be displayed"),
        (["add", "x", "--versions", "0"], 2, "0 is not in the range x>=1"),
        (["add", "x", "--photos", "-1"], 2, "range"),
        (["quota", "0000000000000000"], 2, "Nothing to change"),
    ],
)
def test_errors_are_one_clear_line(capsys, tmp_path, arguments, code, line):
    Store.open(StoreLocation.of(tmp_path)).close()
    exit_code, _, err = run(capsys, tmp_path, *arguments)
    assert (exit_code, line in err) == (code, True), err
    assert "Traceback" not in err


def test_the_location_of_the_store_is_that_of_the_service_and_checked(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["user", "list"]) == 3
    assert "There is no service in fit-serve" in capsys.readouterr().err
    Store.open(StoreLocation.of(Path("fit-serve"))).close()
    assert main(["user", "list"]) == 0
    for url, code in (
        ("mysql://a/b", 2),
        ("nonsense", 2),
        ("sqlite://", 2),
        ("postgresql://fit:secret@127.0.0.1:1/none", 5),
    ):
        assert main(["user", "list", "--database", url]) == code
        assert "secret" not in capsys.readouterr().err


def test_a_foreign_file_is_refused_unchanged(capsys, tmp_path):
    file = tmp_path / "fit.db"
    for content in (b"this is not a database, but it is long enough to look like one" * 40, None):
        file.unlink(missing_ok=True)
        if content is None:
            with sqlite3.connect(file) as connection:
                connection.execute("CREATE TABLE recipes (name TEXT)")
            connection.close()
        else:
            file.write_bytes(content)
        before = file.read_bytes()
        code, _, err = run(capsys, tmp_path, "list")
        assert code == 4
        assert "database" in err
        assert file.read_bytes() == before
