//! Tracks the progress of a copy in name order: the name up to which every object is done. Several
//! objects are in flight at once and end in any order.

use std::collections::{BTreeMap, HashMap};

use rustix_futex_sync::Mutex;

/// Names in the order in which their copies start. The feeder of a run calls `begin`, and the
/// workers of the run call `end`.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// The last name that was started and is valid UTF-8.
    last: Option<String>,
    begun: u64,
    /// For each object in flight, by number: the name that was started before it.
    before: BTreeMap<u64, Option<String>>,
    /// Numbers of the objects in flight, by source.
    numbers: HashMap<String, u64>,
}

impl Frontier {
    /// Creates the frontier of a run that continues after `name`, up to which an earlier call has
    /// copied everything.
    pub(crate) fn after(name: Option<String>) -> Self {
        Self(Mutex::new(Names { last: name, ..Names::default() }))
    }

    /// Records that the copy of the object `source` with this name starts. Must be called in the
    /// order of names.
    pub(crate) fn begin(&self, name: &[u8], source: &str) {
        let mut names = self.0.lock();
        let (number, before) = (names.begun, names.last.clone());
        names.begun += 1;
        names.before.insert(number, before);
        names.numbers.insert(source.to_owned(), number);
        // A call is continued after a name in UTF-8. A local name that is not UTF-8 is skipped
        // here, so the next call copies that object again.
        if let Ok(name) = std::str::from_utf8(name) {
            names.last = Some(name.to_owned());
        }
    }

    /// Records that the copy of the object `source` has ended, successfully or not.
    pub(crate) fn end(&self, source: &str) {
        let mut names = self.0.lock();
        if let Some(number) = names.numbers.remove(source) {
            names.before.remove(&number);
        }
    }

    /// Returns the name up to which all objects have ended.
    pub(crate) fn through(&self) -> Option<String> {
        let names = self.0.lock();
        names.before.values().next().cloned().unwrap_or_else(|| names.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_before_the_first_unfinished_name() {
        let frontier = Frontier::after(Some("a".into()));
        for name in ["b", "c", "d"] {
            frontier.begin(name.as_bytes(), name);
        }
        assert_eq!(frontier.through().as_deref(), Some("a"));
        frontier.end("c");
        assert_eq!(frontier.through().as_deref(), Some("a"));
        frontier.end("b");
        assert_eq!(frontier.through().as_deref(), Some("c"));
        frontier.end("d");
        frontier.end("unknown");
        assert_eq!(frontier.through().as_deref(), Some("d"));
        assert_eq!(Frontier::default().through(), None);
    }
}
