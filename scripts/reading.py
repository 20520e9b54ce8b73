"""Imports as a reader sees them: by the `use` lines, not by where a name is defined.

`imports.py` follows `pub use` to the file that defines a name, and so ignores files that only
re-export names. Here such a file counts. Three things are found:

- `upward`: a module imports a name that one of its own parents merely re-exports. It should name
  the sibling that defines it.
- `circle`: files that import each other, where a re-export is an import of the file that has it.
- `room`: an import against the order of ROOMS below.

    python3 scripts/reading.py [CRATE...]

Prints each. The repository has none, and `make check` fails on the first.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import imports
from imports import ROOT, Edge, Mention, Module, Resolver, crate_in, related

# Rooms of a crate, from top to bottom, each with its modules. A module may import from its own room
# and from rooms below. A module that is in no room may be imported by all.
ROOMS = {
    "transfer": [
        ["engine"],
        ["tree", "sync", "compare"],
        ["scheduler"],
        ["download", "upload", "relay", "stream", "spool"],
        ["context"],
        ["job", "plan", "journal", "verify"],
    ],
    "hydrate": [
        ["hydrator", "background"],
        ["handle", "read_ahead", "parquet_readahead"],
        ["version"],
        ["fetch_queue"],
        ["block_table"],
        ["block_store"],
        ["cache"],
    ],
    "serve": [
        ["server"],
        ["route"],
        ["s3", "plain", "page"],
        ["state"],
        ["object"],
        ["http"],
        ["access", "config"],
        ["path", "token", "error"],
    ],
    "cli": [["main"], ["args"], ["verbs"], ["globals", "render"]],
}


@dataclass(frozen=True)
class Read:
    """An import as it is written in module `by`: a name in module `of`."""

    edge: Edge
    importer: Module
    imported: Module
    name: str
    is_passed_on: bool


class Reading(Resolver):
    """Follows a path to the module that it names, but not through `pub use`."""

    def reads(self) -> Iterator[Read]:
        for module in self.modules.values():
            for path in module.mentions:
                found = self.named(module, path)
                if found is None:
                    continue
                target, name = found
                if target.file == module.file or not name:
                    continue
                passed_on = name in target.uses and name not in target.items and name not in target.children
                edge = Edge(module.file, target.file, path.line, "::".join(path.segments))
                yield Read(edge, module, target, name, passed_on)

    def named(self, module: Module, path: Mention) -> tuple[Module, str] | None:
        """Returns the module in which a path ends, and the last name in it. The name is empty if
        the path ends at a module.
        """
        at, rest = module, list(path.segments)
        if rest[0] == "crate":
            at, rest = self.root, rest[1:]
        elif rest[0] == "self":
            rest = rest[1:]
        elif rest[0] == "super":
            while rest and rest[0] == "super" and at:
                at, rest = self.modules.get(at.path[:-1]), rest[1:]
        elif rest[0] not in module.children:
            # If the module has imported the name, the edge is at that import; if the name is a
            # module, it is followed.
            if path.is_use or len(rest) == 1:
                return None
            aliased = self.alias(module, rest[0])
            if aliased is None:
                return None
            at, rest = aliased, rest[1:]
        while at and rest and rest[0] in at.children:
            at, rest = at.children[rest[0]], rest[1:]
        return (at, rest[0] if rest else "") if at else None

    def alias(self, module: Module, name: str) -> Module | None:
        """Returns the module to which a `use` in `module` gives this name."""
        for use in module.uses.get(name, []):
            if use.segments and use.segments[0] in ("crate", "self", "super", *module.children):
                found = self.named(module, use)
                if found and not found[1]:
                    return found[0]
        return None


def room_of(crate: str, module: Module) -> int | None:
    for place, modules in enumerate(ROOMS.get(crate, [])):
        if module.path and module.path[0] in modules:
            return place
    return None


def violations(folder: Path) -> list[str]:
    """Returns the violations in the crate in `folder`, one line for each."""
    source, crate = folder / "src", folder.name
    upward: dict[Path, set[str]] = defaultdict(set)
    rooms: set[tuple[Path, Path]] = set()
    edges: dict[Path, dict[Path, Edge]] = defaultdict(dict)
    for root in crate_in(folder).roots:
        for read in Reading(root).reads():
            by, of = read.importer.path, read.imported.path
            if related(by, of):
                if len(of) < len(by) and read.is_passed_on:
                    upward[read.edge.source].add(read.name)
                    continue
                # A parent depends on the child whose name it re-exports. Other edges between the
                # two are allowed.
                if len(of) < len(by) or read.name not in read.importer.uses:
                    continue
            edges[read.edge.source].setdefault(read.edge.target, read.edge)
            here, there = room_of(crate, read.importer), room_of(crate, read.imported)
            if here is not None and there is not None and there < here:
                rooms.add((read.edge.source, read.edge.target))

    def shown(file: Path) -> str:
        return str(file.relative_to(source))

    found = [f"upward {crate}/{shown(file)}: {' '.join(sorted(names))}" for file, names in upward.items()]
    found += [f"room {crate}/{shown(one)}: {shown(other)}" for one, other in rooms]
    for files in imports.components(edges):
        found.append(f"circle {crate}: {' '.join(sorted(map(shown, files)))}")
    return sorted(found)


def all_violations(wanted: list[str]) -> list[str]:
    folders = sorted((ROOT / "crates").iterdir())
    return [line for folder in folders if not wanted or folder.name in wanted for line in violations(folder)]


def check() -> list[str]:
    """Returns a line for each violation in all crates."""
    return [f"{line}: see scripts/reading.py" for line in all_violations([])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crates", nargs="*", metavar="CRATE", help="crates to look at (default: all)")
    found = all_violations(parser.parse_args().crates)
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
