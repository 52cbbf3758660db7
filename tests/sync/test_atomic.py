"""Replacing a file at once."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from sync_kit import registry

from litellm_registry_hook.edges import atomic
from litellm_registry_hook.edges.config_file import read_config, sync_config, write_config
from litellm_registry_hook.errors import ConfigError


def test_mode_is_kept(tmp_path: Path) -> None:
    """The mode of a file stays, even an unusual one, and nothing is left beside it."""
    path = tmp_path / "c.yaml"
    path.write_text("old")
    path.chmod(0o640)

    atomic.replace_bytes(path, b"new")

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["c.yaml"]


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    """A new file gets the mode that the umask leaves of 644."""
    before = os.umask(0o027)
    try:
        atomic.replace_bytes(tmp_path / "c.yaml", b"new")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "c.yaml").stat().st_mode) == 0o640


def test_a_symlink_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    """The file that a symlink means is replaced, in its own folder, and the link stays a link."""
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "c.yaml"
    target.write_text("old")
    link = tmp_path / "c.yaml"
    link.symlink_to("real/c.yaml")

    atomic.replace_bytes(link, b"new")

    assert os.readlink(link) == "real/c.yaml"
    assert target.read_bytes() == b"new"


def test_other_hard_links_keep_the_old_bytes(tmp_path: Path) -> None:
    """A reader that has the old file open goes on reading the old bytes."""
    path = tmp_path / "c.yaml"
    path.write_text("old")
    with path.open() as reader:
        atomic.replace_bytes(path, b"new")
        assert reader.read() == "old"


def test_a_failed_write_leaves_the_file(tmp_path: Path) -> None:
    """Where the target cannot be replaced the error comes through and nothing is left behind."""
    path = tmp_path / "c.yaml"
    path.mkdir()

    with pytest.raises(OSError):
        atomic.replace_bytes(path, b"new")

    assert [p.name for p in tmp_path.iterdir()] == ["c.yaml"]


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    """A link to nowhere is an error that says where it points."""
    link = tmp_path / "c.yaml"
    link.symlink_to("gone.yaml")

    with pytest.raises(ConfigError) as caught:
        read_config(link)

    assert str(caught.value) == f"{link}: the link points to gone.yaml, which does not exist"


def test_a_change_in_between_is_not_overwritten(tmp_path: Path) -> None:
    """A config that somebody else wrote after it was read is left alone."""
    path = tmp_path / "c.yaml"
    path.write_text("model_list: []\n")
    done = sync_config(registry(), read_config(path))
    path.write_text("model_list: []\n# mine\n")

    with pytest.raises(ConfigError) as caught:
        write_config(done)

    assert str(caught.value) == f"{path}: changed while it was being edited: run it again"
    assert path.read_text() == "model_list: []\n# mine\n"


def test_a_second_writer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot get the lock says so."""
    monkeypatch.setattr(atomic, "LOCK_SECONDS", 0.0)
    path = tmp_path / "c.yaml"

    with atomic.one_writer(path), pytest.raises(ConfigError) as caught:
        with atomic.one_writer(path):
            raise AssertionError("two writers")

    assert str(caught.value).startswith(f"{path}: another run has been writing it for 0 seconds (lock ")


def _add(path: str, number: int) -> None:
    with atomic.one_writer(Path(path)):
        atomic.replace_bytes(Path(path), Path(path).read_bytes() + b"%d\n" % number)


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    """Several processes that read, add and replace under the lock lose nothing."""
    path = tmp_path / "c.yaml"
    path.write_bytes(b"")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(str(path), n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert sorted(path.read_text().split()) == ["0", "1", "2", "3"]
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
