//! Models one key: a register with compare-and-set for conditional writes, checked for
//! linearizability.
//!
//! Events are read in the order in which they happened. The model keeps all states that any order
//! of the running operations could have reached. A response that fits no state is an error. An
//! operation that a kill interrupted took effect before the kill or never.

use std::collections::{BTreeMap, BTreeSet};

/// A condition of a write or a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    None,
    Absent,
    /// The key's current version must be the one of this write.
    Version(u64),
}

/// The effect of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Makes version `id`.
    Write {
        id: u64,
        bound: Bound,
    },
    /// Makes version `id` once, even if it is requested repeatedly.
    Complete {
        id: u64,
        bound: Bound,
    },
    Remove {
        bound: Bound,
    },
    Read,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The condition does not hold for the current version.
    Different,
    /// The condition requires a version, and none exists.
    Missing,
    /// The upload is unknown: it was completed before, and the object has changed since then.
    Unknown,
    /// [`Different`](Self::Different) or [`Missing`](Self::Missing).
    Failed,
    /// The operation changed nothing, for a reason that the model does not cover.
    Refused,
    Seen(Option<u64>),
    /// The server was killed.
    Cut,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Begin { operation: u64, action: Action },
    End { operation: u64, outcome: Outcome },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    version: Option<u64>,
    completed: BTreeSet<u64>,
    /// Running operations that have taken effect, with their required result.
    effected: BTreeMap<u64, Ending>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Done,
    Different,
    Missing,
    Unknown,
    Seen(Option<u64>),
}

impl State {
    fn judge(&self, bound: &Bound) -> Option<Ending> {
        match (bound, self.version) {
            (Bound::None, _) | (Bound::Absent, None) => None,
            (Bound::Absent, Some(_)) => Some(Ending::Different),
            (Bound::Version(_), None) => Some(Ending::Missing),
            (Bound::Version(wanted), Some(version)) if *wanted == version => None,
            (Bound::Version(_), Some(_)) => Some(Ending::Different),
        }
    }

    /// Returns the state after the last request for the completion `id`, whose record is no longer
    /// needed.
    fn without(mut self, id: u64) -> Self {
        self.completed.remove(&id);
        self
    }

    /// Returns the state after `operation` took effect.
    fn after(&self, operation: u64, action: &Action) -> Self {
        let mut next = self.clone();
        let ending = match action {
            Action::Read => Ending::Seen(self.version),
            Action::Write { id, bound } => self.judge(bound).unwrap_or_else(|| {
                next.version = Some(*id);
                Ending::Done
            }),
            Action::Remove { bound } => self.judge(bound).unwrap_or_else(|| {
                next.version = None;
                Ending::Done
            }),
            Action::Complete { id, .. } if self.completed.contains(id) => {
                if self.version == Some(*id) {
                    Ending::Done
                } else {
                    Ending::Unknown
                }
            }
            Action::Complete { id, bound } => self.judge(bound).unwrap_or_else(|| {
                next.version = Some(*id);
                next.completed.insert(*id);
                Ending::Done
            }),
        };
        next.effected.insert(operation, ending);
        next
    }
}

/// Checks the history of one key, which begins without a version.
///
/// # Errors
/// The event that no order of the operations explains.
pub(crate) fn check(key: &str, history: &[Event]) -> Result<(), String> {
    let mut states = BTreeSet::from([State::default()]);
    let mut running: BTreeMap<u64, Action> = BTreeMap::new();
    // The number of remaining requests for each completion. At zero, the record of the completion
    // is dropped.
    let mut asked: BTreeMap<u64, usize> = BTreeMap::new();
    for event in history {
        if let Event::Begin { action: Action::Complete { id, .. }, .. } = event {
            *asked.entry(*id).or_default() += 1;
        }
    }
    for (at, event) in history.iter().enumerate() {
        match event {
            Event::Begin { operation, action } => {
                running.insert(*operation, action.clone());
            }
            Event::End { operation, outcome } => {
                let reached = closure(states.clone(), &running);
                states = reached.into_iter().filter_map(|state| end(state, *operation, outcome)).collect();
                if let Some(Action::Complete { id, .. }) = running.remove(operation) {
                    let left = asked.entry(id).and_modify(|left| *left -= 1).or_default();
                    if *left == 0 {
                        states = states.into_iter().map(|state| state.without(id)).collect();
                    }
                }
                if states.is_empty() {
                    let from = at.saturating_sub(40);
                    return Err(format!(
                        "no order explains {key} up to its last event: {:#?}",
                        &history[from..=at]
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns all states that running operations can reach from `states`, including `states`
/// themselves.
fn closure(states: BTreeSet<State>, running: &BTreeMap<u64, Action>) -> BTreeSet<State> {
    let mut reached = states.clone();
    let mut fresh: Vec<State> = states.into_iter().collect();
    while let Some(state) = fresh.pop() {
        for (operation, action) in running {
            if !state.effected.contains_key(operation) {
                let next = state.after(*operation, action);
                if reached.insert(next.clone()) {
                    fresh.push(next);
                }
            }
        }
    }
    reached
}

/// Returns `state` without `operation`. `None` if the operation cannot have had this `outcome` in
/// this state.
fn end(mut state: State, operation: u64, outcome: &Outcome) -> Option<State> {
    let effected = state.effected.remove(&operation);
    let fits = match (outcome, effected) {
        // The operation took effect before the kill, or never.
        (Outcome::Cut, _) | (Outcome::Refused, None) => true,
        (Outcome::Done, Some(ending)) => ending == Ending::Done,
        (Outcome::Different, Some(ending)) => ending == Ending::Different,
        (Outcome::Missing, Some(ending)) => ending == Ending::Missing,
        (Outcome::Failed, Some(ending)) => matches!(ending, Ending::Different | Ending::Missing),
        (Outcome::Unknown, Some(ending)) => ending == Ending::Unknown,
        (Outcome::Seen(seen), Some(ending)) => ending == Ending::Seen(*seen),
        (_, None) | (Outcome::Refused, Some(_)) => false,
    };
    fits.then_some(state)
}

#[test]
fn a_lost_update_and_a_stale_read_are_found() {
    let write = |operation, id, bound| Event::Begin { operation, action: Action::Write { id, bound } };
    let done = |operation| Event::End { operation, outcome: Outcome::Done };
    let both = [
        write(1, 1, Bound::None),
        done(1),
        write(2, 2, Bound::Version(1)),
        write(3, 3, Bound::Version(1)),
        done(2),
        done(3),
    ];
    assert!(check("key", &both).is_err());
    assert!(check("key", &both[..5]).is_ok());
    let read = Event::Begin { operation: 4, action: Action::Read };
    let seen = |version| Event::End { operation: 4, outcome: Outcome::Seen(version) };
    let history = |seen| [write(1, 1, Bound::None), done(1), read.clone(), seen];
    assert!(check("key", &history(seen(None))).is_err());
    assert!(check("key", &history(seen(Some(1)))).is_ok());
}
