//! Writes, deletes and reads files of a layout while other machines convert the layout. Runs as one
//! of several clients of a network file system (`tests/guest`).
//!
//!     neighbour ROOT CLIENT CLIENTS FILES STOP
//!
//! The files `sample-0` to `sample-FILES` exist at the start. They form rows of 2 x CLIENTS files.
//! In each row, this client changes the file at position CLIENT, and reads the files that no client
//! changes. When the file STOP exists, the program prints the files that it changed, each with its
//! content if the file exists, and ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use firstbyte_layout::{Error, Layout};

/// Maximum time for which a dead client or a restarted server blocks others: some lease periods.
const MAX_OUTAGE: Duration = Duration::from_secs(60);

/// Random number generator with a seed: Knuth's linear congruential generator.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn name(number: u64) -> String {
    format!("sample-{number}")
}

/// Opens the layout as soon as it exists. `None` if STOP exists first.
fn open(root: &Path, stop: &Path) -> Option<Layout> {
    loop {
        match Layout::open(root) {
            Ok(layout) => return Some(layout),
            Err(Error::Missing { .. }) if !stop.exists() => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Error::Missing { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reports a broken rule. The exit code is the number of reports.
fn report_broken_rule(broken: &mut u8, what: &str) {
    eprintln!("{what}");
    *broken = broken.saturating_add(1);
}

/// Calls `work` again, for at most [`MAX_OUTAGE`], while it is blocked by the locks of a dead
/// client or by a restart of the server. Returns the last result, and whether an earlier call had
/// failed.
fn outlast<T>(what: &str, work: impl Fn() -> Result<T, Error>) -> (Result<T, Error>, bool) {
    let began = Instant::now();
    let mut has_failed = false;
    loop {
        match work() {
            Err(error) if began.elapsed() < MAX_OUTAGE => {
                eprintln!("{what} again: {error}");
                has_failed = true;
                std::thread::sleep(Duration::from_millis(100));
            }
            done => return (done, has_failed),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let (root, stop) = (Path::new(&words[1]), Path::new(&words[5]));
    let (client, clients, files) = (number(2), number(3), number(4));
    let Some(layout) = open(root, stop) else { return ExitCode::SUCCESS };
    let (mut draws, mut broken, mut steps) = (Draws(client), 0, 0_u64);
    let mut mine: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let row = 2 * clients;
    while !stop.exists() && broken < 20 {
        steps += 1;
        let own = row * draws.below(files / row) + client;
        let text = name(own);
        let is_there = mine.get(&own).is_none_or(Option::is_some);
        if draws.below(3) == 0 {
            match outlast(&format!("delete {text}"), || layout.delete(text.as_bytes())) {
                (Ok(deleted), _) if deleted == is_there => {}
                // The earlier call may have deleted the file before it failed.
                (Ok(_), true) => {}
                (found, _) => {
                    report_broken_rule(&mut broken, &format!("delete {text}, there {is_there}: {found:?}"))
                }
            }
            mine.insert(own, None);
        } else {
            let content = format!("{client}-{steps}");
            let put = || layout.put(text.as_bytes(), content.as_bytes());
            if let (Err(error), _) = outlast(&format!("put {text}"), put) {
                report_broken_rule(&mut broken, &format!("put {text}: {error}"));
            }
            match layout.get(text.as_bytes()) {
                Ok(found) if found == content.as_bytes() => {}
                found => report_broken_rule(&mut broken, &format!("get {text} after put: {found:?}")),
            }
            mine.insert(own, Some(content));
        }
        let still = name(row * draws.below(files / row) + clients + draws.below(clients));
        match layout.get(still.as_bytes()) {
            Ok(found) if found == still.as_bytes() => {}
            found => report_broken_rule(&mut broken, &format!("get {still}: {found:?}")),
        }
    }
    eprintln!("{steps} steps");
    for (number, content) in mine {
        println!("{} {}", name(number), content.unwrap_or_default());
    }
    ExitCode::from(broken)
}
