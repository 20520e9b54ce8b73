"""Import circles inside a Rust crate, imports between crates against the map, and edges that reach
past the library.

How it works. A crate is read from its root (`lib.rs` or `main.rs`): `mod name;` leads to the next
file. Comments and strings are removed, and what only tests compile (`#[cfg(test)]`, `#[test]`) is
skipped. Every `use` declaration and every path in an expression or a type (`crate::a::f()`,
`super::T`, `a::T` where `a` is a name in scope) is resolved, through `use` and `pub use`
declarations, to the file that defines the name: that is one edge between two files. Names that a
glob import brings in are looked up the same way. Method calls are not followed, because the
receiver's type is imported somewhere anyway.

A circle is a strongly connected component of more than one file, after the edges between a module
and its own ancestors and descendants were removed: a parent and its child may import each other.

    python3 scripts/imports.py [--list] [CRATE...]

prints each circle with a shortest cycle and the lines that cause it; `--list` adds all files.
"""

import argparse
import functools
import json
import re
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rust import Token, lex

ROOT = Path(__file__).resolve().parent.parent

# For each of our crates, the other crates of ours that it may import. ARCHITECTURE.md has this map
# and its reasons.
MAY_IMPORT = {
    "location": set(),
    "listing": {"location"},
    "layout": {"location", "listing"},
    "pacing": set(),
    "store": {"location", "listing", "pacing"},
    "fetch": {"location", "pacing", "store"},
    "transfer": {"location", "pacing", "store", "fetch"},
    "hydrate": {"location", "pacing", "store", "fetch"},
    "mount": {"location", "store", "hydrate"},
    "firstbyte": {"location", "store", "transfer", "hydrate", "advise"},
    "serve": {"location", "store", "listing", "pacing", "hydrate"},
    "link": {"location", "advise"},
    "advise": set(),
    "probe": {"location", "listing", "store", "advise"},
    "bench": {
        "location", "listing", "layout", "store", "transfer", "hydrate", "mount", "serve", "link", "advise", "probe",
        "firstbyte",
    },
    "testkit": {"location", "store", "hydrate", "serve", "link"},
    "python": {"location", "listing", "layout", "pacing", "store", "fetch", "transfer", "hydrate", "firstbyte"},
    "lambda": {"location", "store", "transfer", "hydrate", "mount", "firstbyte"},
    "cli": {
        "location", "listing", "layout", "store", "transfer", "hydrate", "mount", "serve", "link", "advise", "probe", "bench",
        "firstbyte",
    },
}

# Types that the crates at the edge make only through `firstbyte::Client`. So outages, scopes and
# sharing are decided in one place, for every store, transfer, reader and cache.
EDGES = {"bench", "cli", "lambda", "python"}
MADE_BY_CLIENT = {("Store", "new"), ("Engine", "new"), ("Hydrator", "new"), ("Cache", "open"), ("Cache", "existing")}

# Crates that the tests of any crate may import, too: servers, faults and networks for tests.
TESTS_MAY_IMPORT = {"testkit", "link", "serve"}

WORD = re.compile(r"[A-Za-z_]\w*$")
ITEM = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
CLOSING = {"{": "}", "(": ")", "[": "]"}


def code(source: str) -> Iterator[Token]:
    """Yields the tokens from which imports are read: words without `r#`, marks, and strings, which
    may be paths in attributes.
    """
    for token in lex(source):
        if token.kind in ("word", "mark", "string"):
            yield Token(token.kind, token.text.removeprefix("r#"), token.line)


@dataclass(frozen=True)
class Mention:
    """A path as it is written: its segments, its line, and `is_use` if the path is in a `use`
    declaration.
    """

    segments: list[str]
    line: int
    is_use: bool = False


@dataclass
class Module:
    """A module: its place in the module tree, its names, and the paths in its code."""

    path: tuple[str, ...]
    file: Path
    children: dict[str, "Module"] = field(default_factory=dict)
    items: set[str] = field(default_factory=set)
    uses: dict[str, list[Mention]] = field(default_factory=lambda: defaultdict(list))
    globs: list[Mention] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)


class Crate:
    """Modules of one crate."""

    def __init__(self, folder: Path):
        source = folder / "src"
        roots = [path for name in ("lib.rs", "main.rs") if (path := source / name).is_file()]
        self.folder = folder
        self.roots = [self.load(root, (), source) for root in roots]

    def load(self, file: Path, path: tuple[str, ...], folder: Path) -> Module:
        """Reads a file, and the files of the modules that the file declares in `folder`."""
        module = Module(path, file)
        Reader(self, module, folder, list(code(file.read_text(encoding="utf-8")))).body()
        return module


@functools.cache
def crate_in(folder: Path) -> Crate:
    """Returns the crate in `folder`. It is read only once for all checks."""
    return Crate(folder)


class Reader:
    """Reads the tokens of one file into its module."""

    def __init__(self, crate: Crate, module: Module, folder: Path, stream: list[Token]):
        self.crate, self.module, self.folder, self.stream = crate, module, folder, stream
        self.at = self.depth = 0

    def text(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.stream[at].text if 0 <= at < len(self.stream) else ""

    def body(self) -> None:
        """Reads up to the brace that closes this module, or to the end of the file."""
        while self.at < len(self.stream):
            text = self.text()
            if text == "}" and self.depth == 0:
                return
            self.depth += {"{": 1, "}": -1}.get(text, 0)
            if text == "#" and self.text(1) in ("[", "!"):
                self.attribute()
            elif text == "use" and self.text(-1) not in ("+", "<", "->"):
                self.at += 1
                self.use([], self.stream[self.at].line)
            elif text == "mod" and WORD.match(self.text(1)) and self.text(2) in (";", "{"):
                self.submodule()
            else:
                self.plain()

    def attribute(self) -> None:
        """Reads an attribute. If only tests compile the item after it, skips that item."""
        inner = self.text(1) == "!"
        self.at += 2 if inner else 1
        start = self.at
        self.skip_group()
        inside = self.stream[start : self.at]
        words = [token.text for token in inside]
        if "test" in words and (words[1] == "test" or words[1] == "cfg" and "not" not in words):
            if inner:
                self.at = len(self.stream)
            else:
                self.skip_item()
            return
        for token in inside:
            if token.text.startswith('"') and re.fullmatch(r'"(crate|super|self)(::\w+)+"', token.text):
                self.module.mentions.append(Mention(token.text.strip('"').split("::"), token.line))
        # Paths in an attribute (`value_parser = crate::sizes::parse`) are read like any others.
        end, self.at = self.at, start
        while self.at < end:
            self.plain()

    def skip_group(self) -> None:
        """Skips a bracket, everything in it, and the bracket that closes it."""
        depth = 0
        while self.at < len(self.stream):
            text = self.text()
            depth += (text in CLOSING) - (text in CLOSING.values())
            self.at += 1
            if depth == 0:
                return

    def skip_item(self) -> None:
        """Skips the item, statement, field or arm that begins here."""
        while self.text() == "#":
            self.at += 1
            self.skip_group()
        is_item = self.text() in ITEM | {"pub", "use", "mod", "impl", "unsafe", "async", "extern", "let"}
        while self.at < len(self.stream):
            text = self.text()
            if text == "}" or text == ";" or text == "," and not is_item:
                self.at += text != "}"
                return
            if text in CLOSING:
                self.skip_group()
                if text == "{" and not (self.text() in (";", ",", ".", "?") and not is_item):
                    return
            else:
                self.at += 1

    def use(self, before: list[str], line: int) -> None:
        """Reads one tree of a `use` declaration. The tree's paths start with the segments `before`.
        """
        segments = list(before)
        while self.at < len(self.stream):
            text, line = self.text(), self.stream[self.at].line
            self.at += 1
            if text == "{":
                while self.text() != "}":
                    self.use(segments, line)
                    if self.text() == ",":
                        self.at += 1
                self.at += 1
                return
            if text == "*":
                self.module.globs.append(Mention(segments, line))
                return
            if WORD.match(text) and text != "as":
                segments.append(text)
            if self.text() in (";", ",", "}", "as"):
                name = segments[-1] if segments else ""
                if name == "self":
                    segments = segments[:-1]
                    name = segments[-1] if segments else ""
                if self.text() == "as":
                    name = self.text(1)
                    self.at += 2
                path = Mention(segments, line, is_use=True)
                self.module.uses[name].append(path)
                self.module.mentions.append(path)
                return

    def submodule(self) -> None:
        """Reads the module of `mod name;` from its file, or that of `mod name { ... }`."""
        name, opens = self.text(1), self.text(2) == "{"
        self.at += 3
        path = (*self.module.path, name)
        if opens:
            child = Module(path, self.module.file)
            inside = Reader(self.crate, child, self.folder / name, self.stream)
            inside.at = self.at
            inside.body()
            self.at = inside.at + 1
        else:
            files = [self.folder / f"{name}.rs", self.folder / name / "mod.rs"]
            file = next((file for file in files if file.is_file()), None)
            if file is None:
                raise FileNotFoundError(f"{self.module.file}: `mod {name};` has no file")
            child = self.crate.load(file, path, self.folder / name)
        self.module.children[name] = child

    def plain(self) -> None:
        """Reads one token, or the whole path that starts at it."""
        text, line = self.text(), self.stream[self.at].line
        before = self.text(-1)
        self.at += 1
        if not WORD.match(text):
            return
        if before in ITEM and self.text() != "::" and text not in ITEM | {"unsafe", "extern", "async", "mut"}:
            # Items inside a function or an `impl` are not names of the module.
            if self.depth == 0:
                self.module.items.add(text)
            return
        if before in (".", "::"):
            return
        segments = [text]
        while self.text() == "::" and WORD.match(self.text(1)):
            segments.append(self.text(1))
            self.at += 2
        self.module.mentions.append(Mention(segments, line))


@dataclass(frozen=True)
class Edge:
    """One file imports another: the imported name, and the line of the import."""

    source: Path
    target: Path
    line: int
    name: str


class Resolver:
    """Finds the modules that define the names at which paths end."""

    def __init__(self, root: Module):
        self.root = root
        self.modules: dict[tuple[str, ...], Module] = {}
        self.add(root)

    def add(self, module: Module) -> None:
        self.modules[module.path] = module
        for child in module.children.values():
            self.add(child)

    def edges(self) -> Iterator[Edge]:
        """Yields every import of one file by another, including imports between parents and
        children.
        """
        for module in self.modules.values():
            for path in module.mentions:
                # If the module imports a bare name, the edge is at that import, except for a name
                # from a glob.
                if len(path.segments) == 1 and not self.only_by_glob(module, path.segments[0]):
                    continue
                found = self.resolve(module, path.segments, frozenset())
                # Importing a module is not an edge: the names that are used from it may be defined
                # in another file.
                if found and found[0].file != module.file and not (path.is_use and found[1]):
                    yield Edge(module.file, found[0].file, path.line, "::".join(path.segments))

    def only_by_glob(self, module: Module, name: str) -> bool:
        known = name in module.items or name in module.uses or name in module.children
        return bool(module.globs) and not known

    def resolve(self, module: Module, segments: list[str], seen: frozenset) -> tuple[Module, bool] | None:
        """Returns the module that defines the last of `segments` which a module of this crate has,
        and true if that name is itself a module. `None` if the path leads out of the crate.
        """
        first, rest = segments[0], segments[1:]
        if first in ("crate", "self", "super"):
            at = self.root if first == "crate" else module
            if first == "super":
                at = self.modules.get(module.path[:-1])
            while rest and rest[0] == "super":
                at, rest = self.modules.get(at.path[:-1]), rest[1:]
            return self.below(at, rest, seen) if at else None
        return self.below(module, segments, seen, local=True)

    def below(
        self, module: Module, segments: list[str], seen: frozenset, local: bool = False
    ) -> tuple[Module, bool] | None:
        """Resolves `segments` as names in `module`. With `local`, the first name may come from
        outside the crate.
        """
        if not segments:
            return module, True
        if (module.path, tuple(segments)) in seen:
            return None
        seen = seen | {(module.path, tuple(segments))}
        name, rest = segments[0], segments[1:]
        if rest and name in module.children:
            return self.below(module.children[name], rest, seen)
        if not rest and name in module.items:
            return module, False
        for path in module.uses.get(name, []):
            if path.segments and (found := self.resolve(module, path.segments, seen)):
                return self.below(found[0], rest, seen) if found[1] else found
        if name in module.items:
            return module, False
        if name in module.children:
            return module.children[name], True
        for path in module.globs:
            found = self.resolve(module, path.segments, seen) if path.segments else None
            if found and found[1] and found[0] is not module:
                if inner := self.below(found[0], segments, seen, local=True):
                    return inner
        return None if local else (module, False)


def related(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Returns true if one module is an ancestor of the other."""
    shorter, longer = sorted((one, other), key=len)
    return longer[: len(shorter)] == shorter


def graph(crate: Crate) -> dict[Path, dict[Path, Edge]]:
    """Returns the imports between files neither of which is an ancestor of the other. Of several
    imports between two files, only the first is returned.
    """
    found: dict[Path, dict[Path, Edge]] = defaultdict(dict)
    for root in crate.roots:
        resolver = Resolver(root)
        place: dict[Path, tuple[str, ...]] = {}
        for module in resolver.modules.values():
            if module.file not in place or len(module.path) < len(place[module.file]):
                place[module.file] = module.path
        for edge in resolver.edges():
            if not related(place[edge.source], place[edge.target]):
                found[edge.source].setdefault(edge.target, edge)
    return found


def components(edges: dict[Path, dict[Path, Edge]]) -> list[set[Path]]:
    """Returns the strongly connected components of more than one file (Tarjan's algorithm, without
    recursion)."""
    number: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    found = []
    for start in sorted(edges):
        if start in number:
            continue
        work = [(start, iter(sorted(edges[start])))]
        number[start] = low[start] = len(number)
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, {})))))
                    break
                if target in stack:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(set(stack[at:]))
                    del stack[at:]
    return sorted(found, key=lambda files: (-len(files), min(files)))


def shortest_cycle(edges: dict[Path, dict[Path, Edge]], files: set[Path]) -> list[Edge]:
    """Returns a shortest cycle among `files`, which are one component."""
    best: list[Edge] = []
    for start in sorted(files):
        came: dict[Path, Edge] = {}
        queue = deque([start])
        while queue and start not in came:
            node = queue.popleft()
            for target, edge in sorted(edges.get(node, {}).items()):
                if target in files and target not in came:
                    came[target] = edge
                    queue.append(target)
        cycle = [came[start]]
        while cycle[0].source != start:
            cycle.insert(0, came[cycle[0].source])
        if not best or len(cycle) < len(best):
            best = cycle
    return best


def circles(folder: Path) -> list[tuple[set[Path], list[Edge]]]:
    """Returns the circles of the crate in `folder`. Each consists of its files and a shortest cycle
    of them.
    """
    edges = graph(crate_in(folder))
    return [(files, shortest_cycle(edges, files)) for files in components(edges)]


def describe(folder: Path, files: set[Path], cycle: list[Edge]) -> str:
    """Describes one circle, with the lines to change."""
    source = folder / "src"
    steps = "".join(
        f"\n    {edge.source.relative_to(source)}:{edge.line} imports {edge.target.relative_to(source)} ({edge.name})"
        for edge in cycle
    )
    return f"crates/{folder.name}: import circle of {len(files)} files; a shortest cycle:{steps}"


def against_the_map() -> list[str]:
    """Returns the dependencies between our crates that the map does not allow."""
    metadata = json.loads(
        subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, text=True)
    )
    found = []
    for package in metadata["packages"]:
        crate = Path(package["manifest_path"]).parent.name
        if crate not in MAY_IMPORT:
            found.append(f"crates/{crate}: not on the map in scripts/imports.py and ARCHITECTURE.md")
            continue
        for dependency in package["dependencies"]:
            if "path" not in dependency:
                continue
            target = Path(dependency["path"]).name
            in_tests = dependency["kind"] == "dev"
            # The tests of a crate may depend on the crate itself, to choose its features.
            if in_tests and target == crate:
                continue
            if target not in MAY_IMPORT[crate] | (TESTS_MAY_IMPORT if in_tests else set()):
                kind = "its tests import" if in_tests else "imports"
                found.append(f"crates/{crate}: {kind} {target}: the map forbids that direction")
    return found


def past_the_client(folder: Path) -> list[str]:
    """Returns the places where a crate at the edge makes a type that only `firstbyte::Client`
    should make.
    """
    if folder.name not in EDGES:
        return []
    found = []
    for root in crate_in(folder).roots:
        for module in Resolver(root).modules.values():
            for path in module.mentions:
                if tuple(path.segments[-2:]) in MADE_BY_CLIENT:
                    place = f"crates/{folder.name}/src/{module.file.relative_to(folder / 'src')}:{path.line}"
                    found.append(f"{place}: {'::'.join(path.segments)} reaches past firstbyte::Client")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="also list the files of each circle")
    parser.add_argument("crates", nargs="*", metavar="CRATE", help="crates to look at (default: all)")
    wanted = parser.parse_args()
    found = False
    for folder in sorted((ROOT / "crates").iterdir()):
        if wanted.crates and folder.name not in wanted.crates:
            continue
        for line in past_the_client(folder):
            found = True
            print(line)
        for files, cycle in circles(folder):
            found = True
            print(describe(folder, files, cycle))
            if wanted.list:
                print("    files: " + ", ".join(sorted(str(file.relative_to(folder / "src")) for file in files)))
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
