//! The progress of a copy in order: the name up to which every object is done, although several are
//! in flight and end in any order.

use std::collections::{BTreeMap, HashMap};

use rustix_futex_sync::Mutex;

/// Names in the order of their start. The feeder of a run starts them, its workers end them.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// The last name that was started and is valid UTF-8.
    last: Option<String>,
    begun: u64,
    /// The name before each object in flight, by the object's number.
    before: BTreeMap<u64, Option<String>>,
    /// The numbers of sources in flight.
    numbers: HashMap<String, u64>,
}

impl Frontier {
    /// Starts after `name`, up to which an earlier call has done everything.
    pub(crate) fn after(name: Option<String>) -> Self {
        Self(Mutex::new(Names { last: name, ..Names::default() }))
    }

    /// Records that the object `source` with this name starts. Names must come in order.
    pub(crate) fn begin(&self, name: &[u8], source: &str) {
        let mut names = self.0.lock();
        let (number, before) = (names.begun, names.last.clone());
        names.begun += 1;
        names.before.insert(number, before);
        names.numbers.insert(source.to_owned(), number);
        // A key is UTF-8. After any other name the next call repeats one more name.
        if let Ok(name) = std::str::from_utf8(name) {
            names.last = Some(name.to_owned());
        }
    }

    /// Records that the object `source` has ended, complete or failed.
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
    fn it_is_before_the_first_name_that_has_not_ended() {
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
