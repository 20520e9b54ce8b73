"""fio verifies through a mount the file that it wrote before: the checksum and the offset in the
header of each block.
"""

import subprocess

import pytest
from serving import AWS, CLEAN, TARGET
from waiting import CLIENT_TIMEOUT

SIZE = "64M"
BLOCK = "4k"


def fio(path, *options):
    """Runs one fio job on one file. fio fails at the first block that is wrong, and then the test
    fails.
    """
    command = ["fio", "--name=job", f"--filename={path}", f"--size={SIZE}", "--verify=crc32c", f"--verify_interval={BLOCK}"]
    command += ["--verify_fatal=1", "--verify_state_save=0", "--minimal", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def firstbyte(*arguments):
    """Runs the program until it ends."""
    subprocess.run([TARGET / "debug" / "firstbyte", *arguments], env=CLEAN | AWS, check=True, timeout=CLIENT_TIMEOUT)


@pytest.fixture(scope="module")
def mounted(served, tmp_path_factory):
    """Writes a file with fio, serves the file, and yields its path in a mount."""
    fio(served.root / "data" / "fio", "--rw=write", f"--bs={BLOCK}", "--do_verify=0")
    place, cache = tmp_path_factory.mktemp("mounted"), tmp_path_factory.mktemp("cache")
    firstbyte("--endpoint-url", served.url, "mount", "s3://data/", place, "--cache", cache)
    yield place / "fio"
    firstbyte("unmount", place)


@pytest.mark.parametrize("pattern", ["read", "randread"])
@pytest.mark.parametrize(
    "engine", [["--ioengine=psync"], ["--ioengine=mmap"], ["--ioengine=libaio", "--iodepth=16"]], ids=["psync", "mmap", "libaio"]
)
def test_every_block_read_while_it_is_fetched_is_the_one_written(mounted, engine, pattern):
    firstbyte("release", mounted)
    fio(mounted, "--readonly", f"--rw={pattern}", f"--bs={BLOCK}", "--numjobs=4", *engine)


@pytest.mark.parametrize("size", [BLOCK, "128k", "1m"])
def test_every_block_of_a_hydrated_file_is_the_one_written(mounted, size):
    firstbyte("hydrate", "--wait", mounted)
    fio(mounted, "--readonly", "--rw=randread", f"--bs={size}", "--numjobs=2")


def test_a_block_that_is_not_the_one_written_is_noticed(served, mounted):
    with pytest.raises(AssertionError, match="bad magic header"):
        fio(served.root / "data" / "big.bin", "--readonly", "--rw=read", "--bs=4k", "--size=1M")
