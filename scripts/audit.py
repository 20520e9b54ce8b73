"""Checks the dependencies: licences, sources, banned and doubled crates.

Reads `cargo metadata` alone, so it works offline.

Not covered: known vulnerabilities. Those need the RustSec database, which is fetched by git; with a
network, `cargo install cargo-audit && cargo audit` adds that check.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict

ALLOWED = {
    "MIT", "MIT-0", "Apache-2.0", "BSD-1-Clause", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD", "BSL-1.0",
    "Unlicense", "CC0-1.0", "Unicode-3.0", "Unicode-DFS-2016", "CDLA-Permissive-2.0", "OpenSSL",
    "Apache-2.0 WITH LLVM-exception",
}  # fmt: skip

# This project uses one TLS stack (rustls) and one S3 client (its own). These crates would add a
# second one.
BANNED = {"openssl-sys", "native-tls", "aws-sdk-s3", "object_store", "reqwest"}

# Maximum number of crates that are present in more than one version. Lower it when the number
# falls; raise it only with a reason.
MOST_DOUBLED = 9


def permitted(expression: str) -> bool:
    """Returns true if an SPDX expression can be satisfied with allowed licences only."""
    expression = expression.replace("/", " OR ")
    # AND binds tighter than OR. Brackets are evaluated first, the innermost ones before the others.
    # Each bracket is replaced with an allowed licence (MIT) or with a refused one.
    while inner := re.search(r"\(([^()]*)\)", expression):
        expression = expression.replace(inner[0], "MIT" if permitted(inner[1]) else "refused")
    return any(
        all(term.strip() in ALLOWED for term in choice.split(" AND ")) for choice in expression.split(" OR ")
    )


def main() -> int:
    metadata = json.loads(
        subprocess.check_output(
            ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"],
            text=True,
        )
    )
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    versions = defaultdict(set)
    found = []
    for package in metadata["packages"]:
        if package["id"] not in used:
            continue
        name = f"{package['name']} {package['version']}"
        versions[package["name"]].add(package["version"])
        source = package["source"]
        if source is not None and not source.startswith("registry+https://github.com/rust-lang/crates.io-index"):
            found.append(f"{name}: from {source}, not crates.io")
        if not permitted(package["license"] or ""):
            found.append(f"{name}: licence {package['license']!r} is not on the list")
        if package["name"] in BANNED:
            found.append(f"{name}: banned, see scripts/audit.py")
    doubled = {name: have for name, have in versions.items() if len(have) > 1}
    if len(doubled) > MOST_DOUBLED:
        found.append(f"{len(doubled)} crates in several versions, over {MOST_DOUBLED}: {', '.join(sorted(doubled))}")
    print("\n".join(found), end="\n" if found else "")
    print(f"{len(used)} crates, {len(doubled)} in several versions; licences, sources and bans checked;")
    print("known vulnerabilities not checked: needs the RustSec database (cargo audit, with a network)")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
