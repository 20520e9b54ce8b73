//! How far a copy in order has come: the name up to which every object is done, although several
//! are in flight and end in any order.

use std::collections::{BTreeMap, HashMap};

use rustix_futex_sync::Mutex;

/// Names that were started in order. The feeder of a run begins them, its workers end them.
#[derive(Debug, Default)]
pub(crate) struct Frontier(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// The name that was begun last, of those that are text.
    last: Option<String>,
    begun: u64,
    /// For each object in flight, by its number: the last name before it.
    before: BTreeMap<u64, Option<String>>,
    /// The numbers of sources in flight.
    numbers: HashMap<String, u64>,
}

impl Frontier {
    /// Everything up to `name` was done by an earlier call.
    pub(crate) fn after(name: Option<String>) -> Self {
        Self(Mutex::new(Names { last: name, ..Names::default() }))
    }

    /// The object `source` of this name begins. Names come in order.
    pub(crate) fn begin(&self, name: &[u8], source: &str) {
        let mut names = self.0.lock();
        let (number, before) = (names.begun, names.last.clone());
        names.begun += 1;
        names.before.insert(number, before);
        names.numbers.insert(source.to_owned(), number);
        // A key is text. After any other name the next call looks at one name more.
        if let Ok(name) = std::str::from_utf8(name) {
            names.last = Some(name.to_owned());
        }
    }

    /// It has ended, complete or failed.
    pub(crate) fn end(&self, source: &str) {
        let mut names = self.0.lock();
        if let Some(number) = names.numbers.remove(source) {
            names.before.remove(&number);
        }
    }

    /// The name up to which all have ended.
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
