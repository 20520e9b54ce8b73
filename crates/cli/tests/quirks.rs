//! Every verb, against a store with every quirk. Either the result is right, or the verb reports a
//! failure and nothing is lost. The test checks the table of results in `docs/reference/quirks.md`;
//! with `FIRSTBYTE_WRITE_QUIRKS=1` it writes the table.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use firstbyte::{Client, ClientOptions};
use firstbyte_store::{Signing, SigningKeys};
use firstbyte_testkit::{Quirk, QuirkStore, bytes};
use support::place::Place;
use support::{Ran, World, names_below};

/// The table in the document is between these markers.
const TABLE_BEGIN: &str = "<!-- results: begin -->";
const TABLE_END: &str = "<!-- results: end -->";
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/quirks.md");

/// Keys whose order, encoding or length some stores get wrong, with the lengths of the objects. The
/// keys need more than one page of a listing.
const KEYS: [(&str, usize); 10] = [
    ("a+b", 11),
    ("a-b", 12),
    ("a.txt", 13),
    ("a/x", 14),
    ("a/y z", 15),
    ("b/deep/k", 16),
    ("empty", 0),
    // `large` has three blocks in the cache.
    ("large", 300_000),
    ("m", 30_000),
    ("z", 17),
];
/// Length of an object that is uploaded in more than two parts.
const LARGE_OBJECT_BYTES: usize = 17 << 20;

type Tree = BTreeMap<String, Vec<u8>>;

/// A column of the table: the name of a verb, and the function that runs the verb.
type Verb = (&'static str, fn(&Case) -> Outcome);

const VERBS: [Verb; 11] = [
    ("cp -r from", copy_from),
    ("cp -r to", copy_to),
    ("cp to, in parts", copy_large),
    ("sync --delete from", sync_from),
    ("sync --delete to", sync_to),
    ("mv -r from", move_from),
    ("mv -r to", move_to),
    ("rm -r", remove),
    ("check", check),
    ("mount", mount),
    ("open", open),
];

/// Cells that may differ between runs. With `repeats-keys`, a key that is listed twice is moved
/// twice, or is gone the second time. With `cut-bodies`, reading the large object takes up to
/// thirty requests, which may exceed the deadline. With `wrong-ranges`, the outcome depends on
/// whether the object is read by one request from its beginning or by several.
const RACY_CELLS: [(&str, &str); 3] =
    [("repeats-keys", "mv -r from"), ("cut-bodies", "mount"), ("wrong-ranges", "mount")];

/// The outcome of a verb.
enum Outcome {
    Right,
    /// The verb failed and nothing was lost. Contains the reported reasons.
    Refused(BTreeSet<String>),
    /// The verb succeeded with a wrong result, or something was lost.
    Wrong(String),
}

/// A run of one verb against a store that has one quirk.
struct Case {
    world: World,
    store: QuirkStore,
    quirk: Quirk,
}

impl Case {
    fn new(quirk: Quirk) -> Self {
        let store = QuirkStore::start(&[]);
        let mut world = World::new();
        world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
        world.set("AWS_ACCESS_KEY_ID", "key");
        world.set("AWS_SECRET_ACCESS_KEY", "secret");
        world.set("AWS_REGION", "us-east-1");
        world.set("FIRSTBYTE_READ_TIMEOUT", "4s");
        Self { world, store, quirk }
    }

    /// Makes the store have the quirk.
    fn begin(&self) {
        self.store.set_quirks(&[self.quirk]);
    }

    /// Puts the tree into the bucket. The objects get a time one hour ago, which is clearly before
    /// that of the local files.
    fn plant_objects(&self) -> Tree {
        let tree = contents(1);
        let modified = SystemTime::now() - Duration::from_secs(3600);
        tree.iter().for_each(|(key, content)| self.store.insert_at(&format!("t/{key}"), content, modified));
        tree
    }

    fn plant_files(&self, directory: &str) -> Tree {
        let tree = contents(1);
        tree.iter().for_each(|(key, content)| drop(self.world.write(&format!("{directory}/{key}"), content)));
        tree
    }

    /// Returns the objects that are below `t/` in the bucket.
    fn objects(&self) -> Tree {
        let all = self.store.objects().into_iter();
        all.filter_map(|(key, content)| Some((key.strip_prefix("t/")?.to_owned(), content))).collect()
    }

    fn files(&self, directory: &str) -> Tree {
        read_below(&self.world.path(directory))
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.begin();
        let ran = self.world.run(args);
        self.store.set_quirks(&[]);
        ran
    }
}

/// Returns the tree that belongs to a seed.
fn contents(seed: u64) -> Tree {
    KEYS.iter().map(|(key, length)| ((*key).to_owned(), bytes(seed, *length))).collect()
}

/// Returns the files below a directory, except unfinished copies.
fn read_below(root: &Path) -> Tree {
    let names = names_below(root).into_iter().filter(|name| !name.contains(".firstbyte"));
    names.map(|name| (name.clone(), fs::read(root.join(name)).unwrap())).collect()
}

/// Returns the outcome of a run. `right` is whether the result is right, and `lost` describes what
/// was lost, if anything.
fn outcome(ran: &Ran, right: bool, lost: Option<String>) -> Outcome {
    match (ran.code, lost) {
        (_, Some(lost)) => Outcome::Wrong(format!("{lost}: {ran:?}")),
        (Some(0), None) if right => Outcome::Right,
        (Some(1 | 3), None) => Outcome::Refused(reasons(&ran.stderr)),
        (_, None) => Outcome::Wrong(format!("not the right result: {ran:?}")),
    }
}

/// Returns the reasons in error messages, without the parts that vary: locations, times and
/// addresses.
fn reasons(stderr: &str) -> BTreeSet<String> {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("error: "));
    let reasons = lines.filter(|line| !line.contains(" failed:") && !line.ends_with("failed"));
    let reasons: BTreeSet<String> = reasons.map(reason).filter(|reason| !reason.is_empty()).collect();
    if reasons.is_empty() { stderr.lines().last().map(str::to_owned).into_iter().collect() } else { reasons }
}

fn reason(line: &str) -> String {
    let is_place = |part: &str| part.contains('/') || ["copy", "moved", "tree", "large"].contains(&part);
    let text = line.split(": ").find(|part| !is_place(part)).unwrap_or(line);
    let end = text.find([';', '(', ',', '[']).unwrap_or(text.len());
    let mut reason = String::new();
    for symbol in text[..end].trim().chars() {
        match symbol.is_ascii_digit() && !text.starts_with("server answered") {
            true if reason.ends_with('N') => {}
            true => reason.push('N'),
            false => reason.push(symbol),
        }
    }
    reason
}

fn copy_from(case: &Case) -> Outcome {
    let tree = case.plant_objects();
    let ran = case.run(&["cp", "-r", "s3://bucket/t/", "copy"]);
    let copied = case.files("copy");
    let lost = find_torn(&copied, &tree);
    outcome(&ran, copied == tree, lost)
}

fn copy_to(case: &Case) -> Outcome {
    let tree = case.plant_files("tree");
    let ran = case.run(&["cp", "-r", "tree/", "s3://bucket/t/"]);
    let lost = find_torn(&case.objects(), &tree);
    outcome(&ran, case.objects() == tree, lost)
}

fn copy_large(case: &Case) -> Outcome {
    let content = bytes(5, LARGE_OBJECT_BYTES);
    case.world.write("large", &content);
    let ran = case.run(&["cp", "large", "s3://bucket/t/large"]);
    let right = case.objects().get("large") == Some(&content);
    let lost = (!right && case.objects().contains_key("large")).then(|| "a torn object".to_owned());
    outcome(&ran, right, lost)
}

fn sync_from(case: &Case) -> Outcome {
    let tree = case.plant_objects();
    case.plant_files("copy");
    let old: Tree = [("a.txt".to_owned(), b"old".to_vec()), ("extra".to_owned(), b"x".to_vec())].into();
    old.iter().for_each(|(name, content)| drop(case.world.write(&format!("copy/{name}"), content)));
    let ran = case.run(&["sync", "--delete", "s3://bucket/t/", "copy"]);
    let found = case.files("copy");
    let lost = tree.keys().find(|name| !found.contains_key(*name)).map(|name| format!("{name} was deleted"));
    outcome(&ran, found == tree, lost.or_else(|| find_torn(&found, &with(&tree, &old))))
}

fn sync_to(case: &Case) -> Outcome {
    let tree = case.plant_files("tree");
    case.plant_objects();
    case.store.insert_at("t/a.txt", b"old", SystemTime::UNIX_EPOCH);
    case.store.insert_at("t/extra", b"x", SystemTime::UNIX_EPOCH);
    let ran = case.run(&["sync", "--delete", "tree/", "s3://bucket/t/"]);
    let found = case.objects();
    let lost = tree.keys().find(|name| !found.contains_key(*name)).map(|name| format!("{name} was deleted"));
    outcome(&ran, found == tree, lost)
}

fn move_from(case: &Case) -> Outcome {
    let tree = case.plant_objects();
    let ran = case.run(&["mv", "-r", "s3://bucket/t/", "moved"]);
    let (here, there) = (case.files("moved"), case.objects());
    outcome(&ran, here == tree && there.is_empty(), find_lost(&tree, &here, &there))
}

fn move_to(case: &Case) -> Outcome {
    let tree = case.plant_files("tree");
    let ran = case.run(&["mv", "-r", "tree/", "s3://bucket/t/"]);
    let (here, there) = (case.files("tree"), case.objects());
    outcome(&ran, there == tree && here.is_empty(), find_lost(&tree, &here, &there))
}

fn remove(case: &Case) -> Outcome {
    case.plant_objects();
    case.store.insert("kept", b"kept");
    let ran = case.run(&["rm", "-r", "--yes", "s3://bucket/t/"]);
    let lost = (!case.store.objects().contains_key("kept")).then(|| "another object was deleted".to_owned());
    outcome(&ran, case.objects().is_empty(), lost)
}

/// Runs `check` on equal trees and on unequal ones.
fn check(case: &Case) -> Outcome {
    case.plant_objects();
    case.plant_files("tree");
    let equal = case.run(&["check", "--content", "s3://bucket/t/", "tree"]);
    case.world.write("tree/a.txt", &bytes(9, 13));
    let other = case.run(&["check", "--content", "s3://bucket/t/", "tree"]);
    let found = String::from_utf8_lossy(&other.stdout).contains("a.txt");
    match (equal.code, other.code) {
        (Some(0), Some(1)) if found => Outcome::Right,
        (_, Some(0)) => Outcome::Wrong(format!("no difference found: {other:?}")),
        (Some(0), _) => Outcome::Refused(reasons(&other.stderr)),
        // A failure is a line on standard error. A difference is a row on standard output.
        (_, _) if equal.stderr.contains("error: ") => Outcome::Refused(reasons(&equal.stderr)),
        // If the listing states wrong lengths, `check` correctly reports different sizes.
        (_, _) if !String::from_utf8_lossy(&equal.stdout).contains("only in") => {
            Outcome::Refused(["size differs".to_owned()].into())
        }
        _ => Outcome::Wrong(format!("differences that do not exist: {equal:?}")),
    }
}

fn mount(case: &Case) -> Outcome {
    let tree = case.plant_objects();
    let mut world = World::new();
    for name in ["FIRSTBYTE_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        world.set(name, if name == "FIRSTBYTE_ENDPOINT_URL" { case.store.url() } else { "x" });
    }
    world.set("AWS_REGION", "us-east-1");
    world.set("FIRSTBYTE_READ_TIMEOUT", "4s");
    world.set("FIRSTBYTE_READ_DEADLINE", "8s");
    let place = Place::new(world);
    case.begin();
    let mounted = place.world.run(&["mount", "s3://bucket/t/", "mnt"]);
    if mounted.code != Some(0) {
        return outcome(&mounted, false, None);
    }
    let mut failed = BTreeSet::new();
    let mut wrong = None;
    match list_below(&place.directory) {
        Ok(names) if names == tree.keys().cloned().collect() => {}
        Ok(names) => wrong = Some(format!("names: {names:?}")),
        Err(error) => drop(failed.insert(reason(&error.to_string()))),
    }
    for (name, content) in &tree {
        match place.read(name) {
            Ok(found) if found == *content => {}
            Ok(found) => wrong = Some(format!("{name}: {} bytes of {}", found.len(), content.len())),
            Err(error) => drop(failed.insert(reason(&error.to_string()))),
        }
    }
    place.unmount();
    case.store.set_quirks(&[]);
    match wrong {
        Some(wrong) => Outcome::Wrong(wrong),
        None if failed.is_empty() => Outcome::Right,
        None => Outcome::Refused(failed),
    }
}

/// Returns the names of the files below a directory, as a mount lists them.
fn list_below(root: &Path) -> std::io::Result<BTreeSet<String>> {
    let (mut names, mut pending) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                names.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    Ok(names)
}

/// Reads with the library's `open`, which the Python package also uses.
fn open(case: &Case) -> Outcome {
    let tree = case.plant_objects();
    let mut options = ClientOptions::default();
    options.store.endpoint_url = Some(case.store.url().to_owned());
    options.store.region = Some("us-east-1".to_owned());
    options.set_deadline(Duration::from_secs(8));
    options.store.signing = Signing::Keys(SigningKeys {
        access_key_id: "key".to_owned(),
        secret_access_key: "secret".to_owned(),
        session_token: None,
    });
    let client = Client::new(options).unwrap();
    case.begin();
    let mut failed = BTreeSet::new();
    for (name, content) in &tree {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = client.open(format!("s3://bucket/t/{name}")).map_err(std::io::Error::from)?;
            let mut found = Vec::new();
            file.read_to_end(&mut found)?;
            Ok(found)
        };
        match read() {
            Ok(found) if found == *content => {}
            Ok(found) => {
                return Outcome::Wrong(format!("{name}: {} bytes of {}", found.len(), content.len()));
            }
            Err(error) => drop(failed.insert(reason(&error.to_string()))),
        }
    }
    case.store.set_quirks(&[]);
    if failed.is_empty() { Outcome::Right } else { Outcome::Refused(failed) }
}

fn with(tree: &Tree, other: &Tree) -> Tree {
    tree.iter().chain(other).map(|(name, content)| (name.clone(), content.clone())).collect()
}

/// Returns an error text for a file whose content is neither that of `contents(1)` nor that of the
/// same name in `allowed`. Returns `None` if there is no such file.
fn find_torn(found: &Tree, allowed: &Tree) -> Option<String> {
    let right = contents(1);
    found.iter().find_map(|(name, content)| {
        let known = [right.get(name), allowed.get(name)].into_iter().flatten().any(|known| known == content);
        (!known).then(|| format!("{name} has another content"))
    })
}

/// Returns an error text for a name whose content is neither at the source nor at the destination
/// of a move, if there is one.
fn find_lost(tree: &Tree, here: &Tree, there: &Tree) -> Option<String> {
    tree.iter().find_map(|(name, content)| {
        let kept = [here, there].iter().any(|end| end.get(name) == Some(content));
        (!kept).then(|| format!("{name} is lost"))
    })
}

/// Runs all cases and returns their outcomes.
fn run_all() -> BTreeMap<(Quirk, usize), Outcome> {
    let cases: Vec<(Quirk, usize)> =
        Quirk::ALL.iter().flat_map(|quirk| (0..VERBS.len()).map(|verb| (*quirk, verb))).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((quirk, verb)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = VERBS[*verb].1(&Case::new(*quirk));
                    results.lock().unwrap().insert((*quirk, *verb), result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Formats the tables of the document.
fn table(results: &BTreeMap<(Quirk, usize), Outcome>) -> String {
    let names: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| quirk | {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len() + 1));
    let mut legend = String::from("\n| quirk | the server | reasons given |\n| --- | --- | --- |\n");
    for quirk in Quirk::ALL {
        text.push_str(&format!("| {} |", quirk.name()));
        let mut given = BTreeSet::new();
        for verb in 0..VERBS.len() {
            text.push_str(match &results[&(quirk, verb)] {
                Outcome::Right | Outcome::Refused(_)
                    if RACY_CELLS.contains(&(quirk.name(), VERBS[verb].0)) =>
                {
                    " ok or refused |"
                }
                Outcome::Right => " ok |",
                Outcome::Refused(reasons) => {
                    given.extend(reasons.iter().map(|reason| format!("`{reason}`")));
                    " refused |"
                }
                Outcome::Wrong(_) => " wrong |",
            });
        }
        text.push('\n');
        let given: Vec<String> = given.into_iter().collect();
        legend.push_str(&format!("| {} | {} | {} |\n", quirk.name(), quirk.description(), given.join(", ")));
    }
    text + &legend
}

#[test]
fn no_verb_succeeds_with_a_wrong_result_whatever_the_store() {
    let results = run_all();
    let mut wrong = Vec::new();
    for ((quirk, verb), outcome) in &results {
        if let Outcome::Wrong(why) = outcome {
            wrong.push(format!("{} under {}: {why}", VERBS[*verb].0, quirk.name()));
        }
    }
    let found = table(&results);
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(TABLE_BEGIN).unwrap();
    let (listed, after) = rest.split_once(TABLE_END).unwrap();
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quirks.md");
    fs::write(&written, &found).unwrap();
    if std::env::var_os("FIRSTBYTE_WRITE_QUIRKS").is_some() {
        return fs::write(DOCUMENT, format!("{before}{TABLE_BEGIN}\n{found}{TABLE_END}{after}")).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let cells = |text: &str| text.trim().split("\n\n").next().unwrap_or_default().trim().to_owned();
    assert_eq!(cells(&found), cells(listed), "docs/reference/quirks.md differs from {}", written.display());
}
