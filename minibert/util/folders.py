"""Several files of a folder, replaced as one.

A model is config.json, weights and a tokenizer: each file alone can be replaced atomically, but new
labels beside old weights are no model. So all new files are written into a hidden folder first. One
rename decides that they are valid. Then the files change places:

    model/.replacement.0.tmp/    written, while the model in `model` is the old one
    model/.replacement/          decided: the old files move to old/ in it, and those of new/ up

A process that is killed before the decision leaves the old files. One that is killed after it
leaves the plan, by which the next reader or writer moves the rest (`finish_replacement`). An error
moves everything back. Other programs do not know the plan, so the files that they look for first
go first and come last: in between, they find no model.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from minibert.util.checks import check_kind
from minibert.util.files import (
    has_locks,
    is_at,
    lock,
    make_folder,
    named_in_errors,
    read_json,
    remove_leftovers,
    write_json,
)

PENDING = ".replacement"
_PLAN = "plan.json"
# of the plan of a stranger's folder, nothing outside the folder is moved
_NAME = re.compile(r"(?!\.\.?(/|$))[^/\\\0]+(/(?!\.\.?(/|$))[^/\\\0]+)*")
_PATIENCE = 20.0  # seconds: the files of a live writer change places in milliseconds

Superseded = Callable[[Path, Sequence[str]], Sequence[str]]
"""Returns the files of a folder that go, for new files of these names. All paths are relative."""


def _nothing(folder: Path, new: Sequence[str]) -> Sequence[str]:
    return ()


@contextmanager
def replacing_folder(
    path: str | os.PathLike[str],
    superseded: Superseded = _nothing,
    first: Sequence[str] = (),
) -> Iterator[Path]:
    """Write files into a folder as one: all of them are there when the block succeeds, else none.

    A folder that exists keeps its other files. What killed writers have left in it or beside it is
    removed. A file that is replaced keeps its permissions, and a link gives way to a file.

    Args:
        path: The folder. It is created if it does not exist.
        superseded: Names old files that go although no new file has their name.
        first: Names of the files that other programs look for first.

    Yields:
        The folder to write into.

    Raises:
        TypeError: Not a path.
        NotADirectoryError: A file has the name of the folder.
        OSError: The files cannot be written, and those of before are still there.
    """
    check_kind("The folder to save into", path, str | os.PathLike, "a path")
    target = Path(path)
    if os.path.lexists(target):
        make_folder(target)  # raises an error for a file
    with named_in_errors(target.parent, target):
        make_folder(target.parent)
    remove_leftovers(target)
    is_new = not target.exists()
    if not is_new:
        finish_replacement(target)
        remove_leftovers(target / PENDING)
    # inside a folder that exists, because it may be a link or a mounted disk
    with named_in_errors(target.parent, target):
        staged, handle = _locked_folder(target if is_new else target / PENDING)
    try:
        with named_in_errors(staged, target):
            yield staged
            if not (is_new and _takes_its_place(staged, target)):
                replace_files(target, staged, superseded, first)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(staged, ignore_errors=True)


def _takes_its_place(staged: Path, target: Path) -> bool:
    """Rename a new folder. False: another writer has made one of this name since."""
    try:
        os.rename(staged, target)
    except OSError:
        if target.is_dir():
            return False
        raise
    return True


def replace_files(
    folder: Path,
    staged: Path,
    superseded: Superseded = _nothing,
    first: Sequence[str] = (),
) -> None:
    """Move all files of `staged`, a folder on the same disk, into `folder`, as one.

    Args:
        folder: The folder.
        staged: The folder of the new files.
        superseded: As in `replacing_folder`.
        first: As in `replacing_folder`.

    Raises:
        OSError: The files cannot be moved. Both folders are as they were.
    """
    journal, handle = _locked_folder(folder / PENDING)
    try:
        with named_in_errors(folder, folder):
            plan = _decide(folder, journal, staged, superseded, first)
            try:
                _move(folder, plan)
            except BaseException:
                # where this fails, too, the plan stays, and the next reader completes it
                _move_back(folder, plan)
                os.rename(folder / PENDING / "new", staged)
                _retire(folder)
                raise
            _retire(folder)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(journal, ignore_errors=True)


def finish_replacement(folder: str | os.PathLike[str]) -> None:
    """Move what a killed writer has left to move in a folder, or wait for a live one.

    Raises:
        OSError: It cannot be done, for instance because the folder is read-only.
        ValueError: The plan is damaged.
    """
    folder = Path(folder)
    pending = folder / PENDING
    if not os.path.isdir(pending):
        return
    handle = None
    try:
        handle = _wait_for(pending)
        if handle is None or is_at(handle, pending):
            _move(folder, _read_plan(folder))
            _retire(folder)
    except FileNotFoundError:
        if pending.exists():  # else another process has been faster
            raise
    except OSError as error:
        raise OSError(
            f"the files of {folder} have been replaced in part, and the rest cannot be moved out "
            f"of {pending} ({error.strerror or error}). Correct that, and try again."
        ) from error
    finally:
        if handle is not None:
            os.close(handle)


def _wait_for(pending: Path) -> int | None:
    """Lock a plan. None: the file system has no locks.

    Raises:
        TimeoutError: Its writer is alive and does not end.
    """
    if not has_locks():
        return None
    handle = os.open(pending, os.O_RDONLY)
    end = time.monotonic() + _PATIENCE
    while lock(handle) is False:
        if time.monotonic() > end:
            os.close(handle)
            raise TimeoutError("a process that is alive is moving it")
        time.sleep(0.01)
    return handle


def _decide(
    folder: Path, journal: Path, staged: Path, superseded: Superseded, first: Sequence[str]
) -> dict[str, list[str]]:
    """Make the new files valid: after this, they are moved whatever happens.

    Returns:
        The plan: the names of new files in the order in which they move up, and those of old files
        in the order in which they go.
    """

    def order(name: str) -> tuple[int, int, str]:
        base = name.rpartition("/")[2]
        return (first.index(base) if base in first else len(first), name.count("/"), name)

    paths = [path for path in staged.rglob("*") if not path.is_dir()]
    new = [path.relative_to(staged).as_posix() for path in paths]
    while True:
        finish_replacement(folder)  # of another writer
        old = {name for name in new if os.path.lexists(folder / name)}
        old.update(superseded(folder, new))
        plan = {"new": sorted(new, key=order, reverse=True), "old": sorted(old, key=order)}
        write_json(journal / _PLAN, plan)
        for name in new:
            replaced = folder / name
            if replaced.is_file() and not replaced.is_symlink():
                (staged / name).chmod(stat.S_IMODE(replaced.stat().st_mode))
        os.rename(staged, journal / "new")
        try:
            os.rename(journal, folder / PENDING)
            return plan
        except OSError:
            os.rename(journal / "new", staged)
            if not (folder / PENDING).exists():
                raise


def _read_plan(folder: Path) -> dict[str, list[str]]:
    """The plan of a folder. It may be a stranger's: nothing outside the folder is moved.

    Raises:
        ValueError: It is damaged, or leads outside.
    """
    path = folder / PENDING / _PLAN
    content = read_json(path)
    plan = {}
    for key in ("new", "old"):
        names = content.get(key)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{path} is damaged: delete {path.parent}, and write {folder} again.")
        for name in names:
            for top in (folder, folder / PENDING / "new", folder / PENDING / "old"):
                inside = Path(os.path.realpath(folder), top.relative_to(folder), name).parent
                is_inside = os.path.realpath((top / name).parent) == os.fspath(inside)
                if not _NAME.fullmatch(name) or not is_inside:
                    raise ValueError(f"{path} names {name!r:.200}, which is not in {folder}.")
        plan[key] = names
    return plan


def _move(folder: Path, plan: dict[str, list[str]]) -> None:
    """Let the files of a plan change places. It may have been begun before."""
    new, old = folder / PENDING / "new", folder / PENDING / "old"
    for name in plan["old"]:
        if name not in plan["new"] or os.path.lexists(new / name):  # else the new one is there
            _rename(folder / name, old / name)
    for path in sorted(new.rglob("*")):
        if path.is_dir():
            (folder / path.relative_to(new)).mkdir(exist_ok=True)
    for name in plan["new"]:
        _rename(new / name, folder / name)
    for name in plan["old"]:
        with suppress(OSError):  # it is the folder of other files, too
            if "/" in name:
                (folder / name).parent.rmdir()


def _move_back(folder: Path, plan: dict[str, list[str]]) -> None:
    """Undo `_move`, wherever it has stopped."""
    new, old = folder / PENDING / "new", folder / PENDING / "old"
    for name in reversed(plan["new"]):
        if not os.path.lexists(new / name):
            _rename(folder / name, new / name)
    for name in reversed(plan["old"]):
        _rename(old / name, folder / name)


def _rename(source: Path, target: Path) -> None:
    """Rename a file that may have been moved already."""
    if os.path.lexists(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)


def _retire(folder: Path) -> None:
    """Remove a plan that has been carried out. First its name, by which others know it."""
    pending = folder / PENDING
    for done in _temporary_names(pending):
        if not done.exists():
            os.rename(pending, done)
            shutil.rmtree(done, ignore_errors=True)
            return


def _locked_folder(path: Path) -> tuple[Path, int | None]:
    """Create a locked folder next to `path`. One that is not locked has lost its writer.

    Returns:
        The folder and its handle, which is None on systems without locks.
    """
    for folder in _temporary_names(path):
        with suppress(FileExistsError):
            folder.mkdir()
            if not has_locks():
                return folder, None
            handle = os.open(folder, os.O_RDONLY)
            # another process may have removed it as abandoned before it was locked
            if lock(handle) is not False and is_at(handle, folder):
                return folder, handle
            os.close(handle)
    raise AssertionError("there is always another number")


def _temporary_names(path: Path) -> Iterator[Path]:
    return (path.with_name(f".{path.name}.{number}.tmp") for number in count())
