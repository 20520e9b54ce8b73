"""Every shell block of the documentation runs, or says why it cannot run here."""

import re

import pytest
from blocks import Block, blocks

# Reasons why a block is not run. Add a reason only if it is as good as these.
REASONS = {
    "builds for minutes",
    "changes the machine",
    "needs a cluster",
    "needs a container image",
    "needs an AWS account",
    "needs another store",
    "needs what make dist builds",
    "runs until it is stopped",
}
# Pages about suites that take minutes to hours with a release build. `make bench` runs them.
ELSEWHERE = {"suites.md"}
LANGUAGES = {"", "json", "nginx", "python", "rust", "sh", "sql", "text", "toml", "yaml"}
# Generated pages. Their blocks without a language are usage texts and command lines.
GENERATED = {"benchmarks.md", "options.md"}

SHELL = [block for block in blocks() if block.language == "sh" and block.page.name not in ELSEWHERE]


def pytest_generate_tests(metafunc):
    if "block" in metafunc.fixturenames:
        info = "sh long" if metafunc.config.getoption("--long") else "sh"
        metafunc.parametrize("block", [block for block in SHELL if block.info == info], ids=str)


@pytest.mark.needs_root
def test_the_block_runs(block: Block, world):
    done = world.run(block.text)
    assert done.returncode == 0, f"{block}: exit code {done.returncode}\n{done.stdout[-4000:]}"


def test_a_block_that_does_not_run_says_why():
    assert {block.info for block in SHELL if not block.reason} <= {"sh", "sh long"}
    assert {block.reason for block in SHELL} - {None} == REASONS


def test_no_command_hides_in_a_block_of_another_language():
    assert {block.language for block in blocks()} <= LANGUAGES
    hidden = [
        str(block)
        for block in blocks()
        if not block.language and block.page.name not in GENERATED and re.search(r"^(\$ )?firstbyte ", block.text, re.MULTILINE)
    ]
    assert not hidden


@pytest.mark.needs_root
def test_a_block_that_fails_is_seen(world):
    assert world.run("firstbyte cp s3://bucket/missing .").returncode == 1
    assert world.run("firstbyte cat s3://bucket/missing | head -c 1").returncode == 1
    assert world.run("firstbyte cp s3://bucket/big . && test -s big").returncode == 0
