"""Packs the crates as they are published, and builds a program outside the workspace against them.

    outside.py          packs, and compares the packed crates with those to be published
    outside.py --build  also builds the program, with and without the features of the library

Works offline: it takes third-party crates that cargo has fetched already.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import release

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", release.ROOT / "target"))
# Maximum number of crates in a build of the library without features, including those of this
# project.
MOST_CRATES = 90
# Source of a program that copies a file, and opens an object in Azure, whose feature may be left
# out.
PROGRAM = """
use std::io::Read;

fn main() -> firstbyte::Result<()> {
    let client = firstbyte::Client::new(firstbyte::ClientOptions::default().without_cache())?;
    let error = client.open("az://container/data").err().expect("no account");
    println!("{}: {error}", error.kind());
    let summary = client.cp("Cargo.toml", "copy.toml", &firstbyte::Copy::default())?;
    let mut copy = String::new();
    client.open("copy.toml")?.read_to_string(&mut copy)?;
    println!("{} bytes", summary.bytes == copy.len() as u64);
    Ok(())
}
"""
LEFT_OUT = "unsupported: az://container/data: this build cannot reach it: the feature `azure` was left out"
ALL = ["async", "aws-config", "azure", "events", "google", "http", "manifest", "sftp"]


def pack(crates: list[dict], target: Path) -> list[Path]:
    """Packs the published crates. Returns the archives."""
    left_out = [word for crate in crates if crate["publish"] == [] for word in ["--exclude", crate["name"]]]
    command = ["cargo", "package", "--workspace", "--no-verify", "--locked", "--allow-dirty", "--offline", "--quiet"]
    subprocess.run([*command, *left_out], cwd=release.ROOT, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(target)})
    return sorted((target / "package").glob("*.crate"))


def build(archives: list[Path], top: Path) -> None:
    """Builds the program against the unpacked archives."""
    for archive in archives:
        with tarfile.open(archive) as packed:
            packed.extractall(top / "crates", filter="data")
    patches = "".join(
        f'{archive.stem.rsplit("-", 1)[0]} = {{ path = "../crates/{archive.stem}" }}\n' for archive in archives
    )
    program = top / "program"
    (program / "src").mkdir(parents=True)
    (program / "src" / "main.rs").write_text(PROGRAM)
    version = archives[0].stem.rsplit("-", 1)[1]
    for features in [[], ALL]:
        (program / "Cargo.toml").write_text(
            f'[package]\nname = "outside"\nversion = "1.0.0"\nedition = "2024"\n\n[workspace]\n\n'
            f'[dependencies]\nfirstbyte = {{ version = "{version}", features = {json.dumps(features)} }}\n\n'
            f"[patch.crates-io]\n{patches}"
        )
        # Uses the versions that the workspace has locked, because these have been fetched already.
        (program / "Cargo.lock").write_text((release.ROOT / "Cargo.lock").read_text())
        env = os.environ | {"CARGO_TARGET_DIR": str(TARGET / "outside")}
        said = subprocess.check_output(["cargo", "run", "--offline", "--quiet"], cwd=program, text=True, env=env)
        tree = ["cargo", "tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
        lines = subprocess.check_output(tree, cwd=program, text=True).splitlines()
        # The program itself does not count.
        crates = len({line.split(" (")[0] for line in lines if line}) - 1
        print(f"outside.py: built with {', '.join(features) or 'no features'}; {crates} crates")
        if not said.endswith("true bytes\n") or (not features and LEFT_OUT not in said):
            sys.exit(f"outside.py: the program said {said!r}")
        if not features and crates > MOST_CRATES:
            sys.exit(f"outside.py: more than {MOST_CRATES} crates")


def main(words: list[str]) -> int:
    crates = release.packages(release.ROOT)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        archives = pack(crates, top / "target")
        packed = {archive.stem.rsplit("-", 1)[0] for archive in archives}
        expected = {crate["name"] for crate in release.published(crates)}
        if packed != expected:
            print(f"outside.py: packed {packed ^ expected} too many or too few")
            return 1
        print(f"outside.py: {len(packed)} crates are packed")
        if words == ["--build"]:
            build(archives, top)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
