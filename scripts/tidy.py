"""Checks house rules that neither rustfmt nor clippy knows.

Function length, undocumented items, `unsafe` without a reason and `dbg!` are clippy's (Cargo.toml,
clippy.toml).
"""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import imports
import prose
import reading
import ways

ROOT = Path(__file__).resolve().parent.parent

# Maximum number of lines in a source file. A file is about one idea. It rarely has over 500 lines,
# and is not split only to satisfy a number.
LIMIT = 600

# Maximum number of lines for each file that may be longer. An entry must stay close to the length
# of its file, so that each shortening is kept. A comment next to the entry gives the reason.
LONG: dict[str, int] = {}
SLACK = 50

# Temporary exceptions: names of crates, or of folders for files outside crates. Remove an entry
# together with its last finding. An entry without findings is an error, so that clean code stays
# clean.
WITH_CIRCLES: set[str] = set()
WITH_WIDE_COMMENTS: set[str] = set()
WITH_PHRASES: set[str] = set()

# Type names that several types have, each with the crates of these types. The list may only become
# shorter: the names of new types must be unique.
SHARED_TYPE_NAMES = {
    "Case": "bench bench",
    "Contender": "bench bench",
    "Service": "bench location",
    "Summary": "bench transfer",
    "Workload": "advise bench",
    # Alternative files, only one of which is compiled in a build.
    "ChainFailure": "store store",
    "CredentialChain": "store store",
    "CredentialService": "store store",
    "Profiles": "store store",
}
# Type names that every crate has.
OF_EACH_CRATE = {"Error", "Result"}

# Files that contain the forbidden phrases because they forbid them.
QUOTES_PHRASES = {"scripts/prose.py", "scripts/test_rules.py"}

# Code of other projects, kept unchanged, with its licence and digest.
FOREIGN = ("crates/bench/src/report/uplot/",)

# Marks of unfinished work, and tests that cannot fail.
LITTER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|#\[ignore|\bdbg!\(")
EMPTY_TEST = re.compile(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)\(\) \{\s*\}")
# Paths that exist on one machine only, and do not belong in a project.
PRIVATE_PATH = re.compile(r"(?<![\w.])/(root/\.|home/\w+/)")
MARKDOWN_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
# Names that are sentences, as names of tests are; below, such a name cited in a decision record.
LONG_NAME = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+){3,}\b")
CITED = re.compile(f"`({LONG_NAME.pattern})`")
PUBLIC_TYPE = re.compile(r"^ *pub(?:\([^)]*\))? (?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


def tracked() -> list[Path]:
    """Returns the project's files: those that git tracks, and new ones that git does not ignore."""
    names = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def check_source(name: str, text: str) -> list[str]:
    """Checks one Rust file."""
    found = []
    # A file `tests.rs` is the body of `mod tests` in another module, whose head describes it.
    if not text.startswith("//!") and not name.endswith("/tests.rs"):
        found.append(f"{name}:1: opens without a `//!` text: say what it is, why, and what it assumes")
    for match in EMPTY_TEST.finditer(text):
        found.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: `{match[1]}` tests nothing: delete it")
    lines = text.count("\n")
    if name in LONG and not max(LIMIT, LONG[name] - SLACK) < lines <= LONG[name]:
        found.append(f"{name}: {lines} lines, {LONG[name]} allowed: split it, or tighten its entry in scripts/tidy.py")
    elif name not in LONG and lines > LIMIT:
        found.append(f"{name}: {lines} lines, over {LIMIT}: split it by purpose")
    return found


def check_text(name: str, text: str) -> list[str]:
    """Checks one text file of any kind."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if name != "scripts/tidy.py" and (match := LITTER.search(line)):
            found.append(f"{name}:{number}: `{match[0]}`: do it, or open an issue")
        if match := PRIVATE_PATH.search(line):
            found.append(f"{name}:{number}: `{match[0]}` exists on one machine only")
    return found


def check_links(path: Path, text: str) -> list[str]:
    """Checks that relative links in a page lead to an existing file and heading."""
    name = path.relative_to(ROOT)
    found = []
    for target, heading in MARKDOWN_LINK.findall(text):
        place = path.parent / target if target else path
        if not place.exists():
            found.append(f"{name}: link to `{target}`, which is not there")
        elif heading and place.suffix == ".md" and heading not in headings(place):
            found.append(f"{name}: link to `{target}#{heading}`, a heading that is not there")
    return found


@cache
def headings(page: Path) -> set[str]:
    """Returns the headings of a page, in the form that Git hosts use in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def area(name: str) -> str:
    """Returns the crate of a file, or its folder if it is in no crate. Pages next to the README
    belong to `docs`.
    """
    first, *rest = name.split("/")
    return rest[0] if first == "crates" else first if rest else "docs"


def check_circles() -> list[str]:
    """Checks that no crate has a circle of imports, and that no crate at the edge bypasses the
    library.
    """
    found = []
    for folder in sorted((ROOT / "crates").iterdir()):
        found += imports.past_the_client(folder)
        here = [imports.describe(folder, *circle) for circle in imports.circles(folder)]
        if folder.name not in WITH_CIRCLES:
            found += here
        elif not here:
            found.append(f"crates/{folder.name}: has no import circle: remove it from WITH_CIRCLES in scripts/tidy.py")
    return found


def check_test_programs(texts: dict[str, str]) -> list[str]:
    """Checks that every file of tests next to a `main.rs` is one of its modules. Other files would
    never be compiled.
    """
    found = []
    for name, text in texts.items():
        if not re.fullmatch(r"crates/\w+/tests/main\.rs", name):
            continue
        folder = name.removesuffix("main.rs")
        for other in texts:
            stem = other.removeprefix(folder).removesuffix(".rs")
            if other.startswith(folder) and re.fullmatch(r"\w+", stem) and stem != "main":
                if not re.search(rf"^mod {stem};$", text, re.MULTILINE):
                    found.append(f"{other}: is in no test program: add `mod {stem};` to {name}")
    return found


def check_named_tests(texts: dict[str, str]) -> list[str]:
    """Checks that each test cited by a decision record exists."""
    sources = [text for name, text in texts.items() if not name.endswith(".md")]
    words = {word for text in sources for word in LONG_NAME.findall(text)}
    return [
        f"{name}: cites `{word}`, which no source has"
        for name, text in texts.items()
        if name.startswith("docs/decisions/")
        for word in CITED.findall(text)
        if word not in words
    ]


def check_type_names(texts: dict[str, str], shared: dict[str, str]) -> list[str]:
    """Checks that a type name that other modules can see belongs to only one type in the workspace.
    """
    crates: dict[str, list[str]] = {}
    for name, text in texts.items():
        if match := re.match(r"crates/(\w+)/src/.*\.rs$", name):
            for word in PUBLIC_TYPE.findall(text):
                crates.setdefault(word, []).append(match[1])
    found = []
    for word in sorted(crates.keys() - OF_EACH_CRATE | shared.keys()):
        here, allowed = sorted(crates.get(word, [])), shared.get(word, "").split()
        more = Counter(here) - Counter(allowed)
        if more and len(here) > 1:
            found.append(f"type `{word}` is defined in {', '.join(here)}: name each for what it is")
        elif allowed and (len(here) < len(allowed) or len(here) < 2):
            found.append(f"type `{word}` is shared by fewer: tighten its entry in SHARED_TYPE_NAMES of scripts/tidy.py")
    return found


def check_prose(files: dict[str, str]) -> list[str]:
    """Checks the width of comments, and their phrases."""
    found = []
    for rule, check, unfinished in (
        ("WITH_WIDE_COMMENTS", prose.wide_comments, WITH_WIDE_COMMENTS),
        ("WITH_PHRASES", prose.phrases, WITH_PHRASES),
    ):
        clean = set(unfinished)
        for name, text in files.items():
            here = [f"{name}:{number}: {what}" for number, what in check(Path(name), text)]
            if area(name) not in unfinished:
                found += here
            elif here:
                clean.discard(area(name))
        found += [f"{name}: is clean: remove it from {rule} in scripts/tidy.py" for name in sorted(clean)]
    return found


def main() -> int:
    found = imports.against_the_map() + check_circles() + reading.check() + ways.check()
    texts = {}
    for path in tracked():
        name = str(path.relative_to(ROOT))
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if name.startswith(("LICENSE", *FOREIGN)):
            continue
        found += check_text(name, text)
        if path.suffix == ".rs":
            found += check_source(name, text)
        if path.suffix == ".md":
            found += check_links(path, text)
        if not name.startswith("peers/") and name not in QUOTES_PHRASES:
            texts[name] = text
    found += check_test_programs(texts) + check_named_tests(texts) + check_prose(texts)
    found += check_type_names(texts, SHARED_TYPE_NAMES)
    for entry in LONG.keys() - {str(p.relative_to(ROOT)) for p in tracked()}:
        found.append(f"{entry}: listed in scripts/tidy.py, but gone")
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
