"""House rules that neither rustfmt nor clippy knows.

Function length, undocumented items, `unsafe` without a reason and `dbg!` are clippy's (Cargo.toml, clippy.toml).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Lines a source file may have. A file is one idea: rarely over 500 lines, and not split only to satisfy a number.
LIMIT = 600

# Files that are longer, with what they may have at most. An entry must stay close to its file, so that each shortening
# is kept; nobody adds one without saying why beside it.
LONG: dict[str, int] = {}
SLACK = 50

# Which of our crates each may import, beside itself. The map and its reasons are in ARCHITECTURE.md.
MAY_IMPORT = {
    "location": set(),
    "listing": {"location"},
    "pacing": set(),
    "store": {"location", "listing", "pacing"},
    "transfer": {"location", "pacing", "store"},
    "hydrate": {"location", "pacing", "store", "transfer"},
    "mount": {"location", "store", "hydrate"},
    "firstbyte": {"location", "store", "transfer", "hydrate"},
    "serve": {"location", "store", "listing", "pacing"},
    "link": {"location"},
    "testkit": {"location", "store", "serve", "link"},
    "python": {"location", "listing", "store", "transfer", "hydrate", "firstbyte"},
    "cli": {"location", "listing", "store", "transfer", "hydrate", "mount", "serve", "link", "firstbyte"},
}

# Work left lying about, and tests that cannot fail.
LITTER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|#\[ignore|\bdbg!\(")
# A machine's own paths do not belong in a project.
PRIVATE_PATH = re.compile(r"(?<![\w.])/(root/\.|home/\w+/)")
MARKDOWN_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def tracked() -> list[Path]:
    """Files of the project: known to git, or new and not ignored."""
    names = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def check_source(name: str, text: str) -> list[str]:
    """The rules for one Rust file."""
    found = []
    # A file `tests.rs` is the inside of another module's `mod tests`, which says what it is.
    if not text.startswith("//!") and not name.endswith("/tests.rs"):
        found.append(f"{name}:1: opens without a `//!` text: say what it is, why, and what it assumes")
    lines = text.count("\n")
    if name in LONG and not max(LIMIT, LONG[name] - SLACK) < lines <= LONG[name]:
        found.append(f"{name}: {lines} lines, {LONG[name]} allowed: split it, or tighten its entry in scripts/tidy.py")
    elif name not in LONG and lines > LIMIT:
        found.append(f"{name}: {lines} lines, over {LIMIT}: split it by purpose")
    return found


def check_text(name: str, text: str) -> list[str]:
    """The rules for every text file."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if name != "scripts/tidy.py" and (match := LITTER.search(line)):
            found.append(f"{name}:{number}: `{match[0]}`: do it, or open an issue")
        if match := PRIVATE_PATH.search(line):
            found.append(f"{name}:{number}: `{match[0]}` exists on one machine only")
    return found


def check_links(path: Path, text: str) -> list[str]:
    """Relative links in a page must lead somewhere."""
    name = path.relative_to(ROOT)
    return [
        f"{name}: link to `{target}`, which is not there"
        for target in MARKDOWN_LINK.findall(text)
        if not (path.parent / target).exists()
    ]


def check_imports() -> list[str]:
    """Crates import only downwards on the map."""
    metadata = json.loads(
        subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, text=True)
    )
    found = []
    for package in metadata["packages"]:
        crate = Path(package["manifest_path"]).parent.name
        if crate not in MAY_IMPORT:
            found.append(f"crates/{crate}: not on the map in scripts/tidy.py and ARCHITECTURE.md")
            continue
        for dependency in package["dependencies"]:
            if "path" not in dependency or dependency["kind"] == "dev":
                continue
            if (target := Path(dependency["path"]).name) not in MAY_IMPORT[crate]:
                found.append(f"crates/{crate} imports {target}: the map forbids that direction")
    return found


def main() -> int:
    found = check_imports()
    for path in tracked():
        name = str(path.relative_to(ROOT))
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if name.startswith("LICENSE"):
            continue
        found += check_text(name, text)
        if path.suffix == ".rs":
            found += check_source(name, text)
        if path.suffix == ".md":
            found += check_links(path, text)
    for entry in LONG.keys() - {str(p.relative_to(ROOT)) for p in tracked()}:
        found.append(f"{entry}: listed in scripts/tidy.py, but gone")
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
