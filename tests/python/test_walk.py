"""`walk` gives the same triples in the same order as `os.walk`, whatever the caller changes."""

import os
import pathlib
import random
import shutil
import sys

import pytest

import firstbyte


def both(*arguments, **options):
    """Returns the triples of our `walk`, and those of `os.walk`."""
    return list(firstbyte.walk(*arguments, **options)), list(os.walk(*arguments, **options))


@pytest.mark.parametrize("topdown", [True, False])
@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path, lambda path: f"{path}/"])
def test_a_tree_is_walked_as_by_os(tree, topdown, form):
    ours, theirs = both(form(str(tree)), topdown)
    assert len(theirs) == 302
    assert ours == theirs


@pytest.mark.parametrize("topdown", [True, False])
def test_links_are_followed_only_when_asked(tmp_path, topdown):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "file").write_bytes(b"")
    os.symlink("real", tmp_path / "link")
    os.symlink("nowhere", tmp_path / "dangling")
    os.symlink("itself", tmp_path / "itself")
    for followlinks in (False, True):
        ours, theirs = both(tmp_path, topdown, followlinks=followlinks)
        assert ours == theirs
        assert len(ours) == (5 if followlinks else 3)


def test_every_name_and_kind_is_parted_as_by_os(odd):
    ours, theirs = both(odd)
    assert ours == theirs
    ours, theirs = both(os.fsencode(odd))
    assert ours == theirs


def test_the_caller_prunes_and_orders_the_walk(tree):
    def walked(walk):
        seen = []
        for root, dirs, files in walk(tree):
            seen.append((root, list(dirs), files))
            dirs[:] = sorted((name for name in dirs if not name.endswith("7")), reverse=True)
            if root == str(tree):
                dirs += ["no such directory", "last"]
        return seen

    assert walked(firstbyte.walk) == walked(os.walk)


def test_what_the_caller_changes_in_directories_to_come_is_seen(tree):
    # The times are old, so that a directory that was read ahead counts as current unless it is
    # examined again.
    old = 1_000_000_000
    places = sorted(os.path.relpath(root, tree) for root, _, _ in os.walk(tree))
    copy = tree.with_name("copy")
    shutil.copytree(tree, copy, symlinks=True)
    for top in (tree, copy):
        for place in places:
            os.utime(top / place, (old, old))

    def walked(walk, root):
        seen, seeded = [], random.Random(5)
        for number, (place, dirs, files) in enumerate(walk(root)):
            seen.append((os.path.relpath(place, root), sorted(dirs), sorted(files)))
            dirs.sort()
            # Changes any five directories. Some have been walked already, and some have only been
            # read ahead.
            for target in seeded.sample(places, 5):
                (root / target / f"file {number}").write_bytes(b"")
                (root / target / f"directory {number}").mkdir()
            if number == 100:
                return seen
        return seen

    theirs = walked(os.walk, copy)
    assert len(theirs) == 101 and any(name.startswith("file ") for _, _, files in theirs for name in files)
    assert walked(firstbyte.walk, tree) == theirs


def test_a_directory_replaced_by_a_link_is_not_entered(tree):
    def walked(walk, root):
        seen = []
        for place, dirs, _ in walk(root):
            seen.append(os.path.relpath(place, root))
            dirs.sort()
            if place == str(root):
                shutil.rmtree(os.path.join(root, dirs[0]))
                os.symlink("last", os.path.join(root, dirs[0]))
        return seen

    copy = tree.with_name("copy")
    shutil.copytree(tree, copy, symlinks=True)
    assert walked(firstbyte.walk, tree) == walked(os.walk, copy)


@pytest.mark.parametrize("topdown", [True, False])
def test_errors_go_to_onerror_and_the_walk_goes_on(tree, topdown):
    def walked(walk):
        errors = []
        steps = []
        # Adds a directory that does not exist, as if it had vanished before the walk came to it.
        for root, dirs, files in walk(tree, topdown, lambda error: errors.append((type(error), error.filename))):
            steps.append((root, list(dirs), files))
            dirs.append("gone")
        return steps, errors

    assert walked(firstbyte.walk) == walked(os.walk)


@pytest.mark.parametrize("top", ["/nowhere", b"/nowhere", pathlib.Path("/nowhere"), "/etc/passwd", ""])
def test_a_top_that_cannot_be_read_is_one_error(top):
    def errors(walk):
        found = []
        assert list(walk(top, onerror=found.append)) == []
        return [(type(error), error.errno, error.filename) for error in found]

    assert errors(firstbyte.walk) == errors(os.walk)
    assert list(firstbyte.walk(top)) == []


def test_onerror_may_end_the_walk():
    def stop(error):
        raise error

    with pytest.raises(FileNotFoundError):
        list(firstbyte.walk("/nowhere", onerror=stop))


@pytest.mark.parametrize("top", [None, 7, 1.5, object()], ids=["None", "7", "1.5", "object"])
def test_what_is_no_path_is_refused(top):
    with pytest.raises(TypeError) as theirs:
        list(os.walk(top))
    with pytest.raises(TypeError) as ours:
        list(firstbyte.walk(top))
    assert str(ours.value) == str(theirs.value)


def test_audit_events_are_those_of_os(tree, audited):
    want = audited(lambda: list(os.walk(str(tree))))
    assert audited(lambda: list(firstbyte.walk(str(tree)))) == want
    assert len(want) == 303


def test_a_walk_may_be_left_at_any_point(tree):
    before = set(os.listdir("/proc/self/fd")), set(os.listdir("/proc/self/task"))
    for steps in (1, 20, 100):
        walk = firstbyte.walk(tree)
        for _ in range(steps):
            next(walk)
        walk.close()
    # `<=` and not `==`: threads of earlier tests may end during this test.
    assert set(os.listdir("/proc/self/fd")) <= before[0]
    assert set(os.listdir("/proc/self/task")) <= before[1]


def test_a_tree_deeper_than_the_stack_of_calls_is_walked(tmp_path):
    depth = sys.getrecursionlimit() + 100
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    try:
        assert sum(1 for _ in firstbyte.walk(tmp_path)) == depth + 1
        assert sum(1 for _ in firstbyte.walk(tmp_path, topdown=False)) == depth + 1
    finally:
        # The standard library's function for removing a tree would recurse too deeply.
        os.chdir(tmp_path)
        for _ in range(depth):
            os.rename("d/d", "e") if os.path.isdir("d/d") else None
            os.rmdir("d")
            os.rename("e", "d") if os.path.isdir("e") else None
        os.chdir(here)
