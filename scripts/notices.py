"""Writes the licences of the crates in a program: `notices.py PACKAGE [PACKAGE...] OUT`.

Reads `cargo metadata` and the sources that cargo has fetched, so it works offline. Each licence
text is written once, below the names of the crates that use it. A crate without a licence file gets
the standard text of its licence from a crate that has one, with its own authors named.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# Names of files in crates that are licences or notices.
LICENCE = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)
# Maximum size of a licence in bytes. Some crates keep sources in a directory whose name matches.
LONGEST = 200_000


def metadata() -> dict:
    """Describes the workspace and its dependencies on Linux."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    return json.loads(subprocess.check_output(command, text=True))


def linked(described: dict, roots: list[str]) -> list[dict]:
    """Returns the external packages that are linked into these packages. Build and test
    dependencies are left out.
    """
    packages = {package["id"]: package for package in described["packages"]}
    nodes = {node["id"]: node for node in described["resolve"]["nodes"]}
    waiting = [package["id"] for package in packages.values() if package["name"] in roots and not package["source"]]
    if len(waiting) != len(roots):
        sys.exit(f"notices.py: {', '.join(roots)}: not all are packages of this workspace")
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if None in kinds and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    found = [packages[package] for package in seen if packages[package]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    """Returns the texts of a package's licences and notices."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and LICENCE.search(path.name)]
    files += sorted(path for path in folder.glob("LICENSES/*") if path.is_file())
    if package["license_file"]:
        files.append(folder / package["license_file"])
    found = []
    for path in dict.fromkeys(files):
        if path.suffix in {".rs", ".toml", ".py", ".sh"} or not path.is_file() or path.stat().st_size > LONGEST:
            continue
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        if text:
            found.append("\n".join(line.rstrip() for line in text.splitlines()))
    return found


def notices(packages: list[dict]) -> str:
    """Returns all notices as one text."""
    by_text: dict[str, list[str]] = defaultdict(list)
    bare = []
    for package in packages:
        name = f"{package['name']} {package['version']} ({package['license'] or 'see its file'})"
        found = texts(package)
        for text in found:
            by_text[text].append(name)
        if not found:
            authors = ", ".join(package["authors"]) or "its authors"
            bare.append(f"{name}, by {authors}, {package['repository'] or package['homepage'] or 'no home page'}")
    lines = [
        "firstbyte contains the following software of others, under their licences. It contains too the standard",
        "library of Rust (MIT OR Apache-2.0, The Rust Project Contributors), and its static programs musl libc",
        "(MIT, Copyright (c) 2005-2020 Rich Felker, et al.).",
        "",
        *(f"  {package['name']} {package['version']}  {package['license'] or ''}" for package in packages),
        "",
    ]
    if bare:
        lines += ["Without a licence file of their own; the standard text of their licence stands below:", ""]
        lines += [*(f"  {name}" for name in bare), ""]
    for text, names in sorted(by_text.items(), key=lambda item: (-len(item[1]), item[1])):
        lines += ["=" * 100, "", *(f"  {name}" for name in sorted(set(names))), "", text, ""]
    return "\n".join(lines)


def main(words: list[str]) -> None:
    if len(words) < 2:
        sys.exit(__doc__)
    *roots, out = words
    packages = linked(metadata(), roots)
    Path(out).write_text(notices(packages), encoding="utf-8")
    print(f"{out}: {len(packages)} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
