"""What `make install`, the wheel and `make dist` put beside the program."""

import subprocess

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
