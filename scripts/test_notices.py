"""The notices name every crate that is linked, with a licence."""

import tempfile
import unittest
from pathlib import Path

import notices


class Notices(unittest.TestCase):
    def test_every_crate_of_the_program_is_named_with_a_licence(self):
        described = notices.metadata()
        packages = notices.linked(described, ["firstbyte-cli"])
        names = {package["name"] for package in packages}
        self.assertLessEqual({"rustls", "clap", "serde_json"}, names)
        # proptest is a dependency of the tests only.
        self.assertNotIn("proptest", names)
        self.assertFalse([package["name"] for package in packages if not package["license"]])
        text = notices.notices(packages)
        for package in packages:
            self.assertIn(f"{package['name']} {package['version']}", text)
        self.assertIn("Permission is hereby granted, free of charge", text)

    def test_one_text_stands_once_below_all_who_have_it(self):
        with tempfile.TemporaryDirectory() as top:
            packages = []
            for name in ["one", "two"]:
                folder = Path(top, name)
                folder.mkdir()
                (folder / "LICENSE-MIT").write_text("The text.  \n")
                (folder / "license.rs").write_text("fn main() {}")
                packages.append({
                    "name": name, "version": "1", "license": "MIT", "license_file": None, "authors": [],
                    "manifest_path": str(folder / "Cargo.toml"), "repository": None, "homepage": None,
                })  # fmt: skip
            text = notices.notices(packages)
        self.assertEqual(text.count("The text."), 1)
        self.assertNotIn("fn main", text)

    def test_a_package_that_is_not_there_is_an_error(self):
        with self.assertRaises(SystemExit):
            notices.linked({"packages": [], "resolve": {"nodes": []}}, ["nothing"])
