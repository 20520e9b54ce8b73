"""A small part of the guest's jobs: real NFS clients and a real server list the same names, and a
real FAT gets the files that it can hold.

The whole is `make soak SOAK_FLAGS="--runs guest"`.
"""

import guest
import pytest
from serving import PROGRAM

pytestmark = pytest.mark.needs_root

# Limit in seconds of the host. The host may be busy, and an emulated processor is ten times as
# slow.
DEADLINE = 600


@pytest.fixture(scope="module")
def listed():
    """Returns the reports of listings on NFS 3 and 4.2."""
    scenes = "names:3000,details:500,tree:64,tree with details:64"
    return guest.run(guest.Job("listings", (scenes, "3,4.2", "0"), (PROGRAM,), deadline=DEADLINE, counted=True))


def chosen(reports: list[dict], **wanted: object) -> list[dict]:
    """Returns those reports that have these values in their fields."""
    return [row for row in reports if all(row.get(name) == value for name, value in wanted.items())]


def test_every_method_lists_the_same_names_on_nfs(listed):
    rows = [row for row in listed if "method" in row]
    assert {row["version"] for row in rows} == {"3", "4.2"}
    assert [row for row in rows if not row["exact"]] == []


@pytest.mark.parametrize("version", ["3", "4.2"])
@pytest.mark.parametrize("what", ["names", "details", "tree", "tree with details"])
def test_no_other_method_lists_with_fewer_calls(listed, version, what):
    rows = chosen(listed, version=version, what=what, access="first")
    calls = {row["method"]: sum(row["calls"].values()) for row in rows}
    (ours,) = [count for method, count in calls.items() if method.startswith("firstbyte") and "--buffer" not in method]
    others = min(count for method, count in calls.items() if not method.startswith("firstbyte"))
    # Several threads of one walk may look up the same directory.
    spare = others // 20 if "tree" in what else 0
    assert ours <= others + spare, calls


def test_fat_gets_what_it_can_hold_and_each_other_file_is_a_line():
    cases = ("pairs", "directories", "refused-names", "times", "four-gib")
    reports = guest.run(guest.Job("weak", ("vfat", *cases), (PROGRAM,), deadline=DEADLINE))
    assert [row["case"] for row in reports] == list(cases)
    assert [row for row in reports if not row["ok"]] == []
