"""Checks a release before its tag, and what was built from it: see RELEASING.md.

    release.py                          the crates: metadata, order of publication
    release.py --tag vX.Y.Z             also version, changelog and a clean tree
    release.py --tag vX.Y.Z --dist DIR  what `make dist` has built: names, checksums, notices

The last also writes DIR/notes.md, the section of the changelog.

Every fault is printed; the exit code is 1 if there is any.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTICES = "THIRD-PARTY-NOTICES.txt"
# Fields that are shown on the package's page, and without which cargo does not publish.
METADATA = ["description", "license", "repository", "rust_version"]
ARCHITECTURES = ["x86_64", "aarch64"]


def packages(root: Path) -> list[dict]:
    """Returns the crates of the workspace."""
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    return json.loads(subprocess.check_output(command, cwd=root, text=True))["packages"]


def published(crates: list[dict]) -> list[dict]:
    """Returns the crates that are published: all except the tools for tests."""
    return [crate for crate in crates if crate["publish"] != []]


def order(crates: list[dict]) -> list[str]:
    """Returns the names of the crates in the order of publication, each after its dependencies. A
    test dependency that states a version counts as a dependency.
    """
    known = {crate["name"]: crate for crate in crates}
    needs = {
        name: {
            dependency["name"]
            for dependency in crate["dependencies"]
            if dependency["name"] in known and (dependency["kind"] != "dev" or dependency["req"] != "*")
        }
        for name, crate in known.items()
    }
    done: list[str] = []
    while len(done) < len(known):
        ready = sorted(name for name in known if name not in done and needs[name] <= set(done))
        if not ready:
            sys.exit(f"release.py: a circle among {', '.join(sorted(set(known) - set(done)))}")
        done += ready
    return done


def faults_of_crates(crates: list[dict]) -> list[str]:
    """Returns the faults for which the crates cannot be published."""
    faults = []
    names = {crate["name"] for crate in published(crates)}
    for crate in published(crates):
        missing = [field for field in METADATA if not crate[field]]
        faults += [f"{crate['name']}: no {field}" for field in missing]
        if crate["metadata"] is None or "docs" not in crate["metadata"]:
            faults.append(f"{crate['name']}: no settings for docs.rs")
        for dependency in crate["dependencies"]:
            inside = dependency.get("path") is not None
            if inside and dependency["kind"] != "dev" and dependency["req"] == "*":
                faults.append(f"{crate['name']}: {dependency['name']} without a version")
            if inside and dependency["kind"] != "dev" and dependency["name"] not in names:
                faults.append(f"{crate['name']}: needs {dependency['name']}, which is not published")
            # Cargo does not publish test dependencies without a version.
            if inside and dependency["kind"] == "dev" and dependency["req"] != "*" and dependency["name"] not in names:
                faults.append(f"{crate['name']}: tests need {dependency['name']}, which is not published")
    return faults


def section(changelog: str, version: str) -> str | None:
    """Returns the text about a version in the changelog; `None` if there is none."""
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else None


def faults_of_version(root: Path, version: str, crates: list[dict]) -> list[str]:
    """Returns the faults in files that must agree with the version of the tag."""
    faults = []
    cargo = tomllib.loads((root / "Cargo.toml").read_text())
    stated = cargo["workspace"]["package"]["version"]
    if stated != version:
        faults.append(f"Cargo.toml has version {stated}, and the tag {version}")
    dependencies = cargo["workspace"]["dependencies"].items()
    for name, dependency in dependencies:
        if isinstance(dependency, dict) and "path" in dependency and dependency.get("version", version) != version:
            faults.append(f"Cargo.toml needs {name} {dependency['version']}, and the tag is {version}")
    faults += [f"{crate['name']} has version {crate['version']}" for crate in crates if crate["version"] != version]
    changelog = (root / "CHANGELOG.md").read_text()
    if not section(changelog, version):
        faults.append(f"CHANGELOG.md has no section {version}")
    elif re.search(rf"^## {re.escape(version)}\b.*unreleased", changelog, re.MULTILINE | re.IGNORECASE):
        faults.append(f"CHANGELOG.md calls {version} unreleased: write its date")
    elif not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        faults.append(f"CHANGELOG.md: write `## {version} (YYYY-MM-DD)`")
    return faults


def expected(version: str) -> set[str]:
    """Returns the names of the files in a release, except the wheels, which are matched by a
    pattern.
    """
    names = {f"firstbyte-{version}-source.tar.gz", "handlers.zip", NOTICES, "SHA256SUMS"}
    for arch in ARCHITECTURES:
        lambda_name = "arm64" if arch == "aarch64" else arch
        names |= {f"firstbyte-{version}-linux-{arch}", f"firstbyte-{version}-linux-{arch}.cdx.json"}
        names |= {f"{kind}-{lambda_name}.zip" for kind in ["function", "api", "layer"]}
    return names


def faults_of_files(dist: Path, version: str) -> list[str]:
    """Returns the faults of the built files."""
    faults = []
    wheel = re.compile(rf"firstbyte-{re.escape(version)}-cp3\d+-abi3-.*_({'|'.join(ARCHITECTURES)})\.whl")
    files = {path.relative_to(dist).as_posix(): path for path in dist.rglob("*") if path.is_file()}
    top = {name for name in files if "/" not in name and name != "notes.md"}
    wheels = {name for name in top if wheel.fullmatch(name)}
    if len(wheels) != len(ARCHITECTURES):
        faults.append(f"{len(wheels)} wheels of {version}, and not {len(ARCHITECTURES)}")
    faults += [f"{name} is missing" for name in sorted(expected(version) - top)]
    faults += [f"{name} does not belong to a release" for name in sorted(top - wheels - expected(version))]
    sums = (dist / "SHA256SUMS").read_text() if (dist / "SHA256SUMS").exists() else ""
    stated = dict(reversed(line.split("  ", 1)) for line in sums.splitlines())
    for name, path in files.items():
        if name in {"SHA256SUMS", "notes.md"}:
            continue
        if stated.get(name) != hashlib.sha256(path.read_bytes()).hexdigest():
            faults.append(f"{name}: not the checksum in SHA256SUMS")
    faults += [f"SHA256SUMS names {name}, which is missing" for name in sorted(set(stated) - set(files))]
    for name in sorted(wheels | {name for name in top if re.match(r"(function|api|layer)-", name)}):
        with zipfile.ZipFile(files[name]) as packed:
            if not any(member.endswith(NOTICES) for member in packed.namelist()):
                faults.append(f"{name}: has no {NOTICES}")
    return faults


def main(words: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag")
    parser.add_argument("--dist", type=Path)
    args = parser.parse_args(words)
    if args.dist and not args.tag:
        parser.error("--dist needs --tag")
    if args.tag and not re.fullmatch(r"v\d+\.\d+\.\d+", args.tag):
        parser.error(f"{args.tag}: a tag is vX.Y.Z")
    version = (args.tag or "").removeprefix("v")
    crates = packages(root)
    faults = faults_of_crates(crates)
    if args.tag:
        faults += faults_of_version(root, version, crates)
    if args.dist:
        faults += faults_of_files(args.dist, version)
        notes = section((root / "CHANGELOG.md").read_text(), version)
        (args.dist / "notes.md").write_text(f"{notes}\n")
    elif args.tag:
        status = subprocess.check_output(["git", "status", "--porcelain"], cwd=root, text=True)
        faults += [f"not committed: {line}" for line in status.splitlines()]
    for fault in faults:
        print(f"release.py: {fault}")
    if not faults:
        print("\n".join(order(published(crates))))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
