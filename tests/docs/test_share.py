"""Files that `make install`, the wheel and `make dist` put beside the program."""

import subprocess

import pytest

from serving import PROGRAM, ROOT


def test_man_pages_and_completions_are_where_shells_and_man_look(tmp_path):
    subprocess.run([ROOT / "scripts" / "share.sh", PROGRAM, tmp_path], check=True)
    pages = {page.name for page in (tmp_path / "man" / "man1").iterdir()}
    assert {"firstbyte.1", "firstbyte-cp.1", "firstbyte-bench-run.1"} <= pages
    bash = tmp_path / "bash-completion" / "completions" / "firstbyte"
    asked = f"source {bash}; COMP_WORDS=(firstbyte hyd); COMP_CWORD=1; _firstbyte firstbyte hyd firstbyte; echo ${{COMPREPLY[*]}}"
    assert subprocess.check_output(["bash", "-c", asked], text=True).split() == ["hydrate"]
    assert (tmp_path / "zsh" / "site-functions" / "_firstbyte").read_text().startswith("#compdef firstbyte")
    assert "complete -c firstbyte" in (tmp_path / "fish" / "vendor_completions.d" / "firstbyte.fish").read_text()


def completed(world, typed: str) -> list[str]:
    """Returns bash's completions for the last word of a line. Bash breaks words at `:`."""
    script = (
        f"source <(firstbyte completions bash); COMP_LINE='firstbyte cp {typed}'; COMP_POINT=${{#COMP_LINE}}; "
        "COMP_WORDS=(firstbyte cp); COMP_CWORD=1; compopt() { :; }; set +x; _firstbyte_or_locations firstbyte; "
        "printf '> %s\\n' \"${COMPREPLY[@]}\""
    )
    done = world.run(script)
    assert done.returncode == 0, done.stdout
    return [line.removeprefix("> ") for line in done.stdout.splitlines() if line.startswith("> ")]


@pytest.mark.needs_root
def test_names_in_stores_are_completed(world):
    assert "//bucket/" in completed(world, "s3://buc")
    assert completed(world, "s3://bucket/sam") == ["//bucket/sample.bam"]
    assert completed(world, "s3://bucket/results/plo") == ["//bucket/results/plots/"]
    assert completed(world, "s3+lab://bucket/sam") == ["//bucket/sample.bam"]
    assert completed(world, "s3://no-such-bucket/x") == [""]
