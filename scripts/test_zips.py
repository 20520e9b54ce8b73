"""AWS Lambda's requirements of the zips: names, modes, and the same bytes each time."""

import contextlib
import io
import tempfile
import unittest
import zipfile
from pathlib import Path

import zips


class Zips(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.zip"

    def pack(self, *words):
        with contextlib.redirect_stdout(io.StringIO()):
            zips.main([words[0], str(self.folder / words[1]), str(self.out)])
        with zipfile.ZipFile(self.out) as packed:
            return {entry.filename: (packed.read(entry), entry.external_attr >> 16) for entry in packed.infolist()}

    def test_a_function_is_a_program_named_bootstrap(self):
        (self.folder / "api").write_bytes(b"\x7fELF program")
        self.assertEqual(self.pack("function", "api"), {"bootstrap": (b"\x7fELF program", 0o100755)})
        first = self.out.read_bytes()
        (self.folder / "api").touch()
        self.pack("function", "api")
        self.assertEqual(self.out.read_bytes(), first)

    def test_a_function_has_the_licences_of_what_it_contains(self):
        (self.folder / "api").write_bytes(b"program")
        (self.folder / "THIRD-PARTY-NOTICES.txt").write_bytes(b"licences")
        self.assertEqual(self.pack("function", "api")["THIRD-PARTY-NOTICES.txt"], (b"licences", 0o100644))

    def test_a_layer_has_the_modules_where_lambda_looks_and_no_program(self):
        with zipfile.ZipFile(self.folder / "firstbyte.whl", "w") as wheel:
            wheel.writestr("firstbyte/__init__.py", "pass")
            wheel.writestr("firstbyte/_native.abi3.so", "so")
            wheel.writestr("firstbyte-1.dist-info/METADATA", "m")
            wheel.writestr("firstbyte-1.data/scripts/firstbyte", "p")
            wheel.writestr("firstbyte-1.data/data/share/man/man1/firstbyte.1", "man")
            wheel.writestr("firstbyte-1.data/data/share/doc/firstbyte/THIRD-PARTY-NOTICES.txt", "licences")
        layer = self.pack("layer", "firstbyte.whl")
        self.assertEqual(layer["python/firstbyte/__init__.py"], (b"pass", 0o100644))
        self.assertEqual(set(layer), {f"python/{name}" for name in [
            "firstbyte/__init__.py", "firstbyte/_native.abi3.so", "firstbyte-1.dist-info/METADATA",
            "firstbyte/THIRD-PARTY-NOTICES.txt",
        ]})

    def test_the_handlers_of_the_repository_are_packed(self):
        handlers = Path(__file__).resolve().parents[1] / "deploy" / "functions"
        with contextlib.redirect_stdout(io.StringIO()):
            zips.main(["handlers", str(handlers), str(self.out)])
        with zipfile.ZipFile(self.out) as packed:
            self.assertIn("answer.py", packed.namelist())
            self.assertIn("boto3_s3.py", packed.namelist())

    def test_what_is_too_large_is_refused(self):
        zips.MOST, most = 10, zips.MOST
        self.addCleanup(setattr, zips, "MOST", most)
        (self.folder / "big").write_bytes(b"x" * 100)
        with self.assertRaisesRegex(SystemExit, "allowed"):
            self.pack("function", "big")


if __name__ == "__main__":
    unittest.main()
