"""Projects: create, open, rename, delete; the sample project; folders of photos; all requests name the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ...conftest import picture
from .conftest import Opener
from .fake_service import Running
from .fake_state import Fake, failure
from .states import announced, classify, jpeg, pictures, train

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def open_projects(page: Page) -> None:
    page.locator("#project").click()
    expect(page.get_by_role("dialog", name="Projects")).to_be_visible()


def save_folder(folder: Path, names: dict[str, int]) -> Path:
    """Write so many pictures into each subfolder of ``folder``; "" is the folder itself."""
    for kind, (name, number) in enumerate(names.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(number):
            picture(kind % 3, 100 * kind + i).save(folder / name / f"{i}.png")
        (folder / name / "notes.txt").write_text("not a photo")
    return folder


def drop(page: Page, path: Path) -> None:
    """Drop a folder of the disk on the heading "Photos"."""
    place = page.locator("#photos-title").bounding_box()
    assert place is not None
    browser = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        browser.send(
            "Input.dispatchDragEvent", {"type": kind, "x": place["x"] + 5, "y": place["y"] + 5, "data": data}
        )


def test_projects_are_created_opened_renamed_and_deleted_with_the_keyboard(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fake.add_class("cup", pictures(0, 2))
    page = opened(service.url)
    key = page.keyboard
    page.locator("#project").press("Enter")
    dialog = page.get_by_role("dialog", name="Projects")
    expect(dialog.get_by_role("button", name="My classifier 1 class, 2 photos")).to_be_focused()
    page.get_by_label("Name of a new project").focus()
    key.press("Enter")
    expect(dialog.locator(".notice")).to_contain_text("A project needs a name.")
    key.type("birds")
    expect(dialog.locator(".notice")).to_have_count(0)
    key.press("Enter")
    announced(page, "Project birds is open, no classes yet.")
    expect(page.get_by_label("Name of a new class")).to_be_focused()
    expect(page.locator("#project")).to_have_text("birds")
    expect(page.locator(".class")).to_have_count(0)
    key.type("robin")
    key.press("Enter")
    announced(page, "Class robin added.")
    assert [row["name"] for row in fake.projects[1].classes.values()] == ["robin"]
    assert len(fake.projects[0].classes) == 1

    page.reload()  # the choice is remembered
    expect(page.get_by_role("heading", name="robin", exact=True)).to_be_visible()
    page.locator("#project").press("Enter")
    expect(dialog.get_by_role("button", name="birds 1 class, 0 photos")).to_have_attribute(
        "aria-current", "true"
    )
    dialog.get_by_role("button", name="Rename birds").press("Enter")
    key.type("garden birds")
    key.press("Escape")  # the name stays, and so does the dialog
    expect(dialog.get_by_role("button", name="Rename birds")).to_be_focused()
    key.press("Enter")
    key.type("garden birds")
    key.press("Enter")
    announced(page, "Renamed to garden birds.")
    expect(dialog.get_by_role("button", name="Rename garden birds")).to_be_focused()
    dialog.get_by_role("button", name="My classifier 1 class, 2 photos").press("Enter")
    announced(page, "Project My classifier is open, 1 class, 2 photos.")
    expect(page.locator("#project")).to_be_focused()
    expect(page.locator(".class .tile")).to_have_count(2)

    key.press("Enter")
    dialog.get_by_role("button", name="Delete My classifier").press("Enter")
    expect(page.get_by_role("dialog", name="Delete this project?")).to_contain_text(
        "“My classifier” (1 class, 2 photos) will be deleted with all its versions."
    )
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    page.get_by_role("button", name="Delete project").press("Enter")
    announced(page, "Project My classifier deleted.")
    expect(dialog.get_by_role("button", name="garden birds 1 class, 0 photos")).to_be_focused()
    expect(page.get_by_role("heading", name="robin", exact=True)).to_be_visible()  # another one is open
    dialog.get_by_role("button", name="Delete garden birds").press("Enter")
    expect(page.get_by_role("dialog", name="Delete this project?")).to_contain_text(
        "A new, empty project takes its place."
    )
    page.get_by_role("button", name="Delete project").press("Enter")
    expect(dialog.get_by_role("button", name="My classifier no classes yet")).to_be_focused()
    expect(page.locator(".class")).to_have_count(0)


def test_everything_on_the_page_belongs_to_the_open_project(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    other = fake.add_project("birds")
    other.add_class("robin", pictures(2, 3))
    page = opened(service.url)
    classify(page)
    expect(page.locator(".confusion")).to_be_visible()
    assert page.locator("#used-photos").evaluate("(meter) => meter.value") == 28  # of all projects
    page.get_by_role("button", name="Photo 1 of 6, cup").focus()
    open_projects(page)
    page.get_by_role("button", name="birds 1 class, 3 photos").click()
    announced(page, "Project birds is open")
    expect(page.get_by_role("button", name="Photo 1 of 3, robin")).to_be_visible()
    expect(page.locator(".class")).to_have_count(1)
    for gone in (".answers", ".asked", ".confusion", ".version", ".score", ".curve"):
        expect(page.locator(gone).locator("visible=true")).to_have_count(0)
    expect(page.locator("#train-status")).to_have_text("It needs at least two classes.")
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    assert page.locator("#used-photos").evaluate("(meter) => meter.value") == 28
    page.locator(".class input[type=file]").set_input_files([jpeg(2, 70)])
    announced(page, "1 photo added to robin.")
    assert len(other.photos) == 4
    expect(page.locator(".thumb[src^='blob:']")).to_have_count(4)
    open_projects(page)
    page.get_by_role("button", name="My classifier 3 classes, 25 photos").click()
    expect(page.locator("#train-card .score")).to_have_text("90% accuracy")
    expect(page.locator(".curve")).to_be_visible()
    expect(page.locator(".confusion")).to_be_visible()
    scoped = [key for key in fake.seen if key.split(" ")[1].startswith("/api/")]
    scoped = [key for key in scoped if not key.split(" ")[1].startswith("/api/projects")]
    assert {scope for key in scoped for scope in fake.scopes[key]} == {fake.projects[0].id, other.id}


def test_uploads_continue_while_another_project_is_open(opened: Opener, service: Running, fake: Fake) -> None:
    cup = fake.add_class("cup")
    other = fake.add_project("birds")
    page = opened(service.url, expected=("429",))
    fake.failures[f"POST /api/classes/{cup}/photos"] = [
        failure(429, "rate", "Too many requests.", Retry_After="1") for _ in range(3)
    ]
    page.locator(".class input[type=file]").set_input_files([jpeg(0, i) for i in range(6)])
    expect(page.locator(".class progress")).to_be_visible()
    open_projects(page)
    page.get_by_role("button", name="birds no classes yet").click()
    announced(page, "6 photos added to cup.")
    assert len(fake.photos) == 6
    assert not other.photos
    expect(page.locator(".class")).to_have_count(0)
    expect(page.locator(".tile")).to_have_count(0)


def test_folders_go_to_the_project_they_were_chosen_for(
    opened: Opener, service: Running, fake: Fake, tmp_path: Path
) -> None:
    """Another project is opened while the first of three folders is uploaded."""
    cup = fake.add_class("cup")
    other = fake.add_project("birds")
    other.add_class("robin", pictures(2, 1))
    page = opened(service.url, expected=("429",))
    expect(page.locator(".class")).to_have_count(1)
    fake.failures[f"POST /api/classes/{cup}/photos"] = [
        failure(429, "rate", "Too many requests.", Retry_After="2") for _ in range(2)
    ]
    folder = save_folder(tmp_path / "things", {"cup": 2, "plate": 2, "robin": 1, "": 1})
    page.set_input_files("#folder-files", folder)
    expect(page.locator(".class progress")).to_be_visible()
    open_projects(page)
    page.get_by_role("button", name="birds 1 class, 1 photo").click()
    expect(page.locator("#project")).to_have_text("birds")
    expect(page.locator(".notice")).to_contain_text("1 photo beside the subfolders was ignored.")
    assert fake.counts() == {"cup": 2, "plate": 2, "robin": 1}
    assert other.counts() == {"robin": 1}
    expect(page.locator(".class")).to_have_count(1)
    expect(page.locator(".tile")).to_have_count(1)
    open_projects(page)
    page.get_by_role("button", name="My classifier").first.click()
    expect(page.locator(".class")).to_have_count(3)
    expect(page.locator(".class .tile")).to_have_count(5)


def test_a_folder_that_cannot_be_added_is_named(
    opened: Opener, service: Running, fake: Fake, tmp_path: Path
) -> None:
    page = opened(service.url, expected=("507",))
    expect(page.locator("#work")).to_be_visible()
    fake.failures["POST /api/classes"] = [failure(507, "quota", "The quota is 0.", "Remove some.")]
    page.set_input_files("#folder-files", save_folder(tmp_path / "things", {"cup": 1, "plate": 1}))
    expect(page.locator("#photos .notice")).to_contain_text(
        "The folder “cup” could not be added: The quota is 0."
    )
    assert not fake.classes


def test_a_download_continues_while_another_project_is_open(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    fake.add_project("birds")
    page = opened(service.url)
    page.get_by_role("button", name="Download version 2", exact=True).click()
    fake.delayed = {"onnx"}
    page.get_by_role("button", name="Download the ONNX of version 2").click()
    announced(page, "ONNX of version 2 is being prepared.")
    open_projects(page)
    page.get_by_role("button", name="birds no classes yet").click()
    expect(page.locator("#project")).to_have_text("birds")
    with page.expect_download() as got:
        fake.delayed.clear()
    assert got.value.suggested_filename == "classifier-2.onnx"
    announced(page, "ONNX of version 2 downloaded")
    assert fake.scopes["GET /api/versions/2/onnx"] == {fake.projects[0].id}


def test_a_project_that_was_deleted_elsewhere_gives_way_to_the_oldest(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fake.add_class("cup", pictures(0, 1))
    fake.add_project("birds")
    page = opened(service.url, expected=("404",))
    open_projects(page)
    page.get_by_role("button", name="birds").first.click()
    expect(page.locator("#project")).to_have_text("birds")
    fake.remove_project(fake.projects[1])
    page.get_by_label("Name of a new class").fill("robin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="cup", exact=True)).to_be_visible()
    expect(page.locator("#project")).to_have_text("My classifier")
    page.reload()  # a choice that does not exist any more does no harm
    expect(page.get_by_role("heading", name="cup", exact=True)).to_be_visible()


def test_the_sample_project_is_one_click_away(opened: Opener, service: Running, fake: Fake) -> None:
    page = opened(service.url)
    page.get_by_role("button", name="Try it with sample drawings").click()
    announced(page, "Project Sample drawings is open, 3 classes, 12 photos.")
    expect(page.locator("#photos")).to_be_focused()
    expect(page.locator(".class .tile")).to_have_count(12)
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Try it with sample drawings")).to_be_hidden()
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train-status")).to_have_text("Waiting for a worker…")
    assert len(fake.projects[1].trainings) == 1
    assert not fake.projects[0].trainings


def test_a_chosen_folder_becomes_classes(
    opened: Opener, service: Running, fake: Fake, tmp_path: Path
) -> None:
    fake.add_class("cup", pictures(0, 1))
    names = {"plate": 2, "plate/more": 1, "cup": 3, "bowl": 1, ".hidden": 1, "": 1}
    folder = save_folder(tmp_path / "things", names)
    page = opened(service.url)
    expect(page.get_by_role("button", name="Choose a folder")).to_have_accessible_description(
        "Each subfolder becomes a class."
    )
    page.set_input_files("#folder-files", folder)
    expect(page.locator("#photos .notice")).to_contain_text("1 photo beside the subfolders was ignored.")
    assert list(fake.counts().items()) == [("cup", 4), ("bowl", 1), ("plate", 3)]  # "cup" existed
    page.set_input_files("#folder-files", save_folder(tmp_path / "empty", {"cup": 0}))
    expect(page.locator("#photos .notice")).to_contain_text("There are no photos in this folder.")


def test_dropped_folders_become_classes(opened: Opener, service: Running, fake: Fake, tmp_path: Path) -> None:
    page = opened(service.url)
    expect(page.locator("#work")).to_be_visible()
    drop(page, save_folder(tmp_path / "old cup", {"": 3, "more": 1}))  # one class
    announced(page, "4 photos added to old cup.")
    drop(page, save_folder(tmp_path / "things", {"plate": 2, "bowl": 3}))  # a folder of classes
    announced(page, "2 photos added to plate.")
    expect(page.locator(".class")).to_have_count(3)
    expect(page.locator(".class .tile")).to_have_count(9)
    assert list(fake.counts().items()) == [
        ("old cup", 4),
        ("bowl", 3),
        ("plate", 2),
    ]  # in the order of their names
