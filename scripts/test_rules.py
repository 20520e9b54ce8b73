"""Tests of the checks of imports and of prose, by planted circles, phrases and wide lines."""

import re
import tempfile
import unittest
from pathlib import Path

import imports
import prose
import reading
import tidy
import ways


def write(folder: str, files: dict[str, str]) -> None:
    """Writes the sources of a crate into `folder`."""
    for name, text in files.items():
        path = Path(folder, "src", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def crate(files: dict[str, str]) -> list[list[str]]:
    """Returns the circles in a crate that consists of these files, each as sorted names."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, files)
        source = Path(folder, "src")
        found = imports.circles(Path(folder))
        for files_of, cycle in found:
            assert {edge.source for edge in cycle} <= files_of
            assert [edge.source for edge in cycle[1:] + cycle[:1]] == [edge.target for edge in cycle]
        return [sorted(str(file.relative_to(source)) for file in files_of) for files_of, _ in found]


class Circles(unittest.TestCase):
    def test_two_modules_that_import_each_other_are_a_circle(self):
        found = crate({
            "lib.rs": "mod a;\nmod b;",
            "a.rs": "use crate::b::B;\npub struct A;",
            "b.rs": "use super::a::A;\npub struct B;",
        })
        self.assertEqual(found, [["a.rs", "b.rs"]])

    def test_a_longer_circle_through_folders_is_found(self):
        found = crate({
            "main.rs": "mod a; mod b; mod c;",
            "a/mod.rs": "mod inner;",
            "a/inner.rs": "fn f() { crate::b::g() }",
            "b.rs": "use crate::c;\npub fn g() -> c::C { c::C }",
            "c.rs": "pub struct C(crate::a::inner::Never);",
        })
        # `Never` is not defined anywhere, so the path ends at the module that would define it.
        self.assertEqual(found, [["a/inner.rs", "b.rs", "c.rs"]])

    def test_parent_and_child_may_import_each_other(self):
        found = crate({
            "lib.rs": "mod a; pub struct Root;",
            "a.rs": "mod b; use b::B; pub struct A;",
            "a/b.rs": "mod c; use super::A; use crate::Root; pub struct B;",
            "a/b/c.rs": "use super::super::A; use super::B;",
        })
        self.assertEqual(found, [])

    def test_a_name_re_exported_by_the_root_or_a_parent_counts_where_it_is_defined(self):
        files = {
            "lib.rs": "mod a; mod wire; pub use a::A;",
            "a.rs": "use crate::wire::Method; pub struct A;",
            "wire/mod.rs": "mod method; mod other; pub use method::Method;",
            "wire/method.rs": "use crate::A; pub struct Method;",
            "wire/other.rs": "",
        }
        self.assertEqual(crate(files), [["a.rs", "wire/method.rs"]])
        # The re-exporting file is not part of the circle, even if other names are imported from its
        # folder.
        files["a.rs"] = "use crate::wire; pub struct A; fn f(_: wire::Method) {}"
        self.assertEqual(crate(files), [["a.rs", "wire/method.rs"]])
        files["wire/method.rs"] = "pub struct Method;"
        files["wire/other.rs"] = "use crate::A;"
        self.assertEqual(crate(files), [])

    def test_names_of_a_glob_import_are_followed(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use crate::b::*; pub struct A; fn f(_: B) {}",
            "b.rs": "use crate::a::A; pub struct B;",
        }
        self.assertEqual(crate(files), [["a.rs", "b.rs"]])

    def test_renamed_and_nested_imports_are_followed(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use {std::io, crate::{b::{self as bee, B as _}}}; pub struct A; fn f() -> io::Error { bee::g() }",
            "b.rs": "pub(super) trait B {} fn h<T: Into<super::a::A>>() {} pub fn g() {}",
        }
        self.assertEqual(crate(files), [["a.rs", "b.rs"]])

    def test_what_only_tests_compile_comments_and_strings_do_not_count(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use crate::b::B; pub struct A;",
            "b.rs": """
                //! [`crate::a::A`]
                pub struct B<'a>(&'a str, char);
                /* crate::a::A /* nested */ crate::a::A */
                #[cfg(test)]
                use crate::a::A;
                fn f() { g("crate::a::A", r#"crate::a::A"#, '"', '\\'', b'"'); }
                #[cfg(all(test, unix))]
                impl<'a> B<'a> { fn g(_: crate::a::A) {} }
                #[test]
                fn t() { crate::a::A; }
                #[cfg(test)]
                mod tests { use crate::a::A; }
            """,
        }
        self.assertEqual(crate(files), [])
        # Code after an item for tests counts again, and so does code that is only compiled outside
        # tests.
        files["b.rs"] += "#[cfg(not(test))] use crate::a::A;"
        self.assertEqual(crate(files), [["a.rs", "b.rs"]])

    def test_paths_in_attributes_count(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use crate::b::B; pub fn parse() {}",
            "b.rs": '#[serde(with = "crate::a::parse")] pub struct B;',
        }
        self.assertEqual(crate(files), [["a.rs", "b.rs"]])
        files["b.rs"] = "#[arg(value_parser = super::a::parse)] pub struct B;"
        self.assertEqual(crate(files), [["a.rs", "b.rs"]])


def read(files: dict[str, str], name: str = "a") -> list[str]:
    """Returns the violations that `reading.py` finds in a crate of this name."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, name)
        write(str(folder), files)
        return reading.violations(folder)


class Reading(unittest.TestCase):
    def test_a_name_that_a_parent_passes_on_is_an_upward_import(self):
        files = {
            "lib.rs": "mod error; mod x; pub use error::Error; pub struct Own;",
            "error.rs": "pub struct Error;",
            "x.rs": "mod y; use crate::{Error, Own};",
            "x/y.rs": "use super::super::Error; use crate::error::Error as E; use crate::Own;",
        }
        self.assertEqual(read(files), ["upward a/x.rs: Error", "upward a/x/y.rs: Error"])

    def test_a_file_that_passes_a_name_on_is_part_of_the_circle(self):
        files = {
            "lib.rs": "mod a; mod wire;",
            "a.rs": "use crate::wire::Method; pub struct A;",
            "wire/mod.rs": "mod method; pub use method::Method;",
            "wire/method.rs": "use crate::a::A; pub struct Method;",
        }
        self.assertEqual(read(files), ["circle a: a.rs wire/method.rs wire/mod.rs"])
        # A name that the parent itself defines makes no circle between the parent and its child.
        files["wire/mod.rs"] = "mod method; pub struct Method;"
        self.assertEqual(read(files), [])

    def test_the_definition_that_a_use_leads_to_does_not_count(self):
        files = {
            "lib.rs": "mod a; mod b; mod c;",
            "a.rs": "use crate::b::C; pub struct A;",
            "b.rs": "pub use crate::c::C; use crate::a::A;",
            "c.rs": "pub struct C;",
        }
        self.assertEqual(read(files), ["circle a: a.rs b.rs"])

    def test_a_path_through_a_module_that_was_imported_by_name_counts(self):
        files = {
            "lib.rs": "mod a; mod b;",
            "a.rs": "use crate::b; pub struct A; fn f(_: b::B) {}",
            "b.rs": "use super::a::A; pub struct B;",
        }
        self.assertEqual(read(files), ["circle a: a.rs b.rs"])

    def test_an_import_from_a_room_above_is_found(self):
        files = {
            "lib.rs": "mod engine; mod download; mod plan;",
            "engine.rs": "use crate::download::D; pub struct E;",
            "download.rs": "use crate::plan::P; pub struct D;",
            "plan.rs": "pub struct P; fn f(_: crate::engine::E) {}",
        }
        found = read(files, "transfer")
        self.assertIn("room transfer/plan.rs: engine.rs", found)
        self.assertEqual([line for line in found if line.startswith("room")], ["room transfer/plan.rs: engine.rs"])


class Map(unittest.TestCase):
    def test_the_map_itself_has_no_circle(self):
        edges = {Path(one): {Path(other): None for other in others} for one, others in imports.MAY_IMPORT.items()}
        self.assertEqual(imports.components(edges), [])


class Door(unittest.TestCase):
    def found(self, name: str, text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            edge = str(Path(folder, name))
            write(edge, {"main.rs": "mod a;", "a.rs": text})
            return imports.past_the_client(Path(edge))

    def test_an_edge_that_makes_a_store_is_found_and_one_that_asks_the_client_is_not(self):
        [line] = self.found("cli", "use firstbyte_store::Store;\nfn f() { Store::new(o); }")
        self.assertIn("a.rs:2: Store::new reaches past", line)
        self.assertEqual(len(self.found("python", "fn f() { firstbyte_transfer::Engine::new(s, o); }")), 1)
        self.assertEqual(self.found("cli", "fn f() { Client::new(o)?.transfers(s); }"), [])
        self.assertEqual(self.found("cli", "#[cfg(test)]\nmod tests { fn f() { Store::new(o); } }"), [])
        self.assertEqual(self.found("serve", "fn f() { Store::new(o); }"), [])


class Ways(unittest.TestCase):
    def test_a_list_with_a_file_that_is_gone_or_entered_twice_or_too_long_is_found(self):
        text = "```\nfetch      request, attempt   why\nhydrate    fetch_queue\n           fetch_queue/receive\n```\n"
        [way] = ways.ways(text)
        self.assertEqual(way[-1], ("hydrate", "fetch_queue/receive"))
        self.assertEqual(ways.faults_of(way, "A.md"), [])
        [gone] = ways.faults_of([*way, ("hydrate", "workers")], "A.md")
        self.assertIn("there is no crates/hydrate/src/workers.rs", gone)
        [apart] = ways.faults_of([*way, ("hydrate", "cache/punch")], "A.md")
        self.assertIn("no other file of this list leads there", apart)
        [twice] = ways.faults_of([*way, ("mount", "reader"), way[0]], "A.md")
        self.assertIn("entered twice", twice)
        self.assertIn("files on the way", ways.faults_of([*way, *[("mount", "reader")] * 17], "A.md")[0])


class TestPrograms(unittest.TestCase):
    def test_a_file_of_tests_that_no_program_names_is_found(self):
        program = {"crates/a/tests/main.rs": "mod one;\n", "crates/a/tests/one.rs": ""}
        self.assertEqual(tidy.check_test_programs(program), [])
        [found] = tidy.check_test_programs(program | {"crates/a/tests/two.rs": "", "crates/a/tests/support/mod.rs": ""})
        self.assertIn("crates/a/tests/two.rs", found)


class Tests(unittest.TestCase):
    def test_a_test_without_a_body_is_found(self):
        text = "//! Tests.\n#[test]\nfn full() { f(); }\n\n#[test]\n#[cfg(unix)]\nfn hollow() {\n}\n"
        [found] = tidy.check_source("crates/a/tests/one.rs", text)
        self.assertTrue(found.startswith("crates/a/tests/one.rs:5: `hollow`"), found)


class Decisions(unittest.TestCase):
    def test_a_record_cites_tests_that_exist(self):
        record = {"docs/decisions/0001-x.md": "`a_cache_keeps_two_stores_apart` and `a_cache_tells_two_stores_apart`"}
        source = {"crates/a/tests/one.rs": "fn a_cache_keeps_two_stores_apart() {}"}
        [found] = tidy.check_named_tests(record | source)
        self.assertIn("`a_cache_tells_two_stores_apart`", found)


class Contributing(unittest.TestCase):
    def test_every_file_that_it_names_is_there(self):
        root = Path(__file__).resolve().parent.parent
        folders = "|".join(path.name for path in root.iterdir() if path.is_dir())
        named = re.findall(rf"`((?:{folders})/[^` ]+)`", (root / "CONTRIBUTING.md").read_text())
        self.assertGreater(len(named), 20)
        self.assertEqual([path for path in named if "NAME" not in path and not (root / path).exists()], [])


class TypeNames(unittest.TestCase):
    def test_a_public_name_of_two_types_is_found_and_a_private_one_is_not(self):
        sources = {
            "crates/a/src/one.rs": "pub struct State;\nstruct Own;\npub type Error = ();",
            "crates/a/src/two.rs": "    pub(super) enum State {}\npub(crate) struct Own;\npub enum Error {}",
            "crates/a/tests/three.rs": "pub struct Own;",
        }
        [found] = tidy.check_type_names(sources, {})
        self.assertIn("`State` is defined in a, a", found)

    def test_the_list_of_shared_names_only_shrinks(self):
        sources = {"crates/a/src/one.rs": "pub struct Run;", "crates/b/src/one.rs": "pub struct Run;"}
        self.assertEqual(tidy.check_type_names(sources, {"Run": "a b"}), [])
        [more] = tidy.check_type_names({**sources, "crates/b/src/two.rs": "pub trait Run {}"}, {"Run": "a b"})
        self.assertIn("defined in a, b, b", more)
        [fewer] = tidy.check_type_names({"crates/a/src/one.rs": "pub struct Run;"}, {"Run": "a b"})
        self.assertIn("tighten", fewer)


class Prose(unittest.TestCase):
    def test_phrases_are_found_in_comments_strings_and_names_with_their_lines(self):
        text = 'let nobody = 1;\n/// Work that was in\n/// vain.\nfn nobody_asks() {\n    error("he\\\n        tells") }\n'
        lines = [number for number, _ in prose.phrases(Path("a.rs"), text)]
        self.assertEqual(lines, [2, 4, 5, 6])
        text = 'nobody = None\n"""Returns what is here, unless\n  told."""\ndef f():\n    return None  # somebody\n'
        self.assertEqual([number for number, _ in prose.phrases(Path("a.py"), text)], [2, 5])

    def test_plain_sentences_pass(self):
        text = "/// There is none. Returns `None` if the store lists nothing. The header is valid.\n"
        self.assertEqual(prose.phrases(Path("a.rs"), text), [])

    def test_wide_comments_are_found_and_wide_code_is_not(self):
        wide = "x" * prose.WIDTH
        text = f'fn f() {{ "{wide}" }}\n// {wide}\n/// short\nf(); // {wide}\n// see\n// https://{wide}\n'
        self.assertEqual([number for number, _ in prose.wide_comments(Path("a.rs"), text)], [2, 4])
        text = f'"""{wide}"""\ntext = "{wide}"\n# {wide}\n'
        self.assertEqual([number for number, _ in prose.wide_comments(Path("a.py"), text)], [1, 3])


if __name__ == "__main__":
    unittest.main()
