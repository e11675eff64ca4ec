import os
from pathlib import Path

import pytest

from strop.sandbox import image


@pytest.fixture
def merged(tmp_path):
    """A host whose system folders are merged into /usr, with public and private settings."""
    for folder in (
        "usr/bin",
        "usr/lib",
        "usr/local",
        "etc/alternatives",
        "etc/ld.so.conf.d",
        "home/me",
        "work",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("bin", "lib"):
        (tmp_path / name).symlink_to(f"usr/{name}")
    (tmp_path / "etc/services").write_text("ssh 22/tcp\n")
    (tmp_path / "etc/shells").write_text("secret\n")
    (tmp_path / "etc/shells").chmod(0o600)
    (tmp_path / "etc/machine-id").write_text("f00\n")
    (tmp_path / "etc/passwd").write_text("me:x:1000:1000::/home/me:/bin/bash\n")
    (tmp_path / "etc/alternatives/awk").symlink_to("/usr/bin/mawk")
    (tmp_path / "etc/alternatives/awk.1.gz").symlink_to("/usr/share/man/man1/mawk.1.gz")
    return str(tmp_path)


def by_path(entries):
    return {path: (kind, content) for kind, path, content, _ in entries}


def test_links_of_a_merged_host_are_repeated(merged):
    assert image.system_trees(merged) == ["usr"]
    entries = by_path(image.skeleton(merged))
    assert entries["bin"] == ("link", "usr/bin") and entries["lib"] == ("link", "usr/lib")
    assert "lib64" not in entries and "sbin" not in entries


def test_folders_of_an_unmerged_host_are_trees_of_their_own(merged):
    (Path(merged) / "bin").unlink()
    (Path(merged) / "bin").mkdir()
    assert image.system_trees(merged) == ["usr", "bin"]
    assert by_path(image.skeleton(merged))["bin"][0] == "folder"


def test_of_etc_only_public_files_are_taken(merged):
    entries = by_path(image.skeleton(merged))
    assert entries["etc/services"] == ("file", b"ssh 22/tcp\n")
    assert entries["etc/alternatives/awk"] == ("link", "/usr/bin/mawk")
    assert not {"etc/shells", "etc/machine-id", "etc/alternatives/awk.1.gz"} & entries.keys()
    assert "me:" not in entries["etc/passwd"][1], "users are the sandbox's own"
    assert not any(path.startswith(("home/", "work")) for path in entries)


def test_every_folder_comes_before_what_lies_in_it(merged):
    for entries in (image.skeleton(merged), image.usr_mask(["bin", "lib"])):
        seen = set()
        for kind, path, _, _ in entries:
            above = path.rpartition("/")[0]
            assert not above or above in seen, path
            assert path not in seen
            if kind == "folder":
                seen.add(path)


def test_entries_are_placed_with_mode_and_owner(tmp_path, is_root):
    owner = 1234 if is_root else os.geteuid()
    image.place(str(tmp_path / "root"), image.skeleton(), owner)
    assert (tmp_path / "root/tmp").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "root/etc/shadow").stat().st_mode & 0o777 == 0o640
    assert {path.lstat().st_uid for path in (tmp_path / "root").rglob("*")} == {owner}
