"""Packs the crates as they are published, and builds a program outside the workspace against them.

    outside.py          packs, and compares what is packed with what is to be published
    outside.py --build  also builds the program, with and without the features of the library

Offline: it takes third-party crates that cargo has fetched already.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import release

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", release.ROOT / "target"))
PROGRAM = """
use std::io::Read;

fn main() -> firstbyte::Result<()> {
    let client = firstbyte::Client::new(firstbyte::Options::default())?;
    let mut file = client.open("https://example.org/data")?;
    let mut head = [0; 16];
    if let Err(error) = file.read_exact(&mut head) {
        let error = firstbyte::Error::from(error);
        println!("{}: {:?}", error.kind(), error.trace());
    }
    let summary = client.cp("a", "b", &firstbyte::Copy::default())?;
    println!("{} bytes", summary.bytes);
    Ok(())
}
"""


def pack(crates: list[dict], target: Path) -> list[Path]:
    """Packs the crates that are published. Returns the archives."""
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
    for features in ["", ', features = ["manifest"]']:
        (program / "Cargo.toml").write_text(
            f'[package]\nname = "outside"\nversion = "1.0.0"\nedition = "2024"\n\n[workspace]\n\n'
            f'[dependencies]\nfirstbyte = {{ version = "{version}"{features} }}\n\n[patch.crates-io]\n{patches}'
        )
        # The versions that the workspace has, which are fetched.
        (program / "Cargo.lock").write_text((release.ROOT / "Cargo.lock").read_text())
        command = ["cargo", "check", "--offline", "--quiet"]
        subprocess.run(command, cwd=program, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(TARGET / "outside")})
        tree = ["cargo", "tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
        crates = subprocess.check_output(tree, cwd=program, text=True).splitlines()
        print(f"outside.py: built{features or ' without features'}; {len({line.split(' (')[0] for line in crates}) - 1} crates")


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
