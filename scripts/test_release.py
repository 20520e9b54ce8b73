"""A dry run of a release: a tag in a copy of the repository, files as `make dist` makes them."""

import contextlib
import hashlib
import io
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

import release


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "a copy"
        tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=release.ROOT, text=True).split("\0")
        for name in filter(None, tracked):
            source, copy = release.ROOT / name, self.root / name
            if source.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        self.version = release.packages(self.root)[0]["version"]
        changelog = self.root / "CHANGELOG.md"
        first, rest = changelog.read_text().split("\n## ", 1)
        body = rest.split("\n", 1)[1]
        changelog.write_text(f"{first}\n## {self.version} (2026-11-27)\n{body}")
        git = ["git", "-C", str(self.root), "-c", "user.name=A", "-c", "user.email=a@example.org"]
        for words in [["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"], ["tag", f"v{self.version}"]]:
            subprocess.run([*git, *words], check=True)

    def run_release(self, *words):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = release.main(list(words), self.root)
        return code, out.getvalue()

    def build(self):
        """Makes files with the names that `make dist` gives."""
        dist = self.root / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir()
        wheels = {f"firstbyte-{self.version}-cp311-abi3-manylinux_2_17_{arch}.whl" for arch in release.ARCHITECTURES}
        for name in release.expected(self.version) | wheels:
            if name.endswith((".whl", ".zip")):
                with zipfile.ZipFile(dist / name, "w") as packed:
                    packed.writestr(f"x/{release.NOTICES}", "licences")
            else:
                (dist / name).write_text(name)
        self.sum(dist)
        return dist

    def sum(self, dist):
        files = sorted(path for path in dist.iterdir() if path.name not in {"SHA256SUMS", "notes.md"})
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
        (dist / "SHA256SUMS").write_text("".join(lines))

    def test_a_clean_tree_with_a_dated_section_is_ready_and_the_crates_have_an_order(self):
        code, said = self.run_release("--tag", f"v{self.version}")
        self.assertEqual(code, 0, said)
        names = said.split()
        self.assertLess(names.index("firstbyte-location"), names.index("firstbyte-store"))
        self.assertLess(names.index("firstbyte-store"), names.index("firstbyte"))
        self.assertEqual(names[-1], "firstbyte-cli")
        self.assertNotIn("firstbyte-testkit", names)

    def test_what_does_not_fit_the_tag_is_named(self):
        code, said = self.run_release("--tag", "v9.9.9")
        self.assertEqual(code, 1)
        self.assertIn("and the tag 9.9.9", said)
        self.assertIn("CHANGELOG.md has no section 9.9.9", said)
        (self.root / "new").write_text("")
        changelog = self.root / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("(2026-11-27)", ", unreleased"))
        said = self.run_release("--tag", f"v{self.version}")[1]
        self.assertIn("not committed: ?? new", said)
        self.assertIn("unreleased: write its date", said)

    def test_built_files_are_complete_with_checksums_and_notices(self):
        dist = self.build()
        code, said = self.run_release("--tag", f"v{self.version}", "--dist", str(dist))
        self.assertEqual(code, 0, said)
        self.assertGreater(len((dist / "notes.md").read_text()), 100)
        (dist / "handlers.zip").write_text("other")
        (dist / "core").write_text("")
        (dist / f"firstbyte-{self.version}-linux-aarch64").unlink()
        with zipfile.ZipFile(dist / "layer-arm64.zip", "w") as packed:
            packed.writestr("python/firstbyte/__init__.py", "")
        said = self.run_release("--tag", f"v{self.version}", "--dist", str(dist))[1]
        for fault in [
            "handlers.zip: not the checksum", "core does not belong", "linux-aarch64 is missing",
            f"layer-arm64.zip: has no {release.NOTICES}",
        ]:
            self.assertIn(fault, said)


if __name__ == "__main__":
    unittest.main()
