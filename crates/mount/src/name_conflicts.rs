//! Resolves conflicts between a file and a directory of the same name. A store may contain both `a`
//! and `a/b`, but a directory can show only one `a`; the directory `a` is shown.
//!
//! In a listing by name, the object `a` comes before everything in `a/`, but `a-1` and `a.txt` come
//! in between. So an object is held back until a later name shows that there is no directory of its
//! name. Only names that are prefixes of each other are held back at the same time, and these are
//! at most as many as a name has bytes.

use std::collections::VecDeque;

use firstbyte_location::EntryKind;

use crate::child::Child;

/// An iterator that passes on the children of a listing by name, without the objects that a
/// directory hides.
pub(crate) struct NameConflicts<I> {
    children: I,
    /// Objects that a directory may still hide. Each name begins with the name before it.
    waiting: Vec<Child>,
    /// Children that no directory can hide any more, which are returned next.
    ready: VecDeque<Child>,
    /// Called with every object that is hidden.
    hidden: Box<dyn FnMut(&Child) + Send>,
}

impl<I> NameConflicts<I> {
    pub(crate) fn new(children: I, hidden: Box<dyn FnMut(&Child) + Send>) -> Self {
        Self { children, waiting: Vec::new(), ready: VecDeque::new(), hidden }
    }

    /// Releases the waiting objects that no directory can hide any more, because the listing has
    /// reached `next`. Drops the object that `next` hides. `next` is `None` at the end of the
    /// listing.
    fn release_before(&mut self, next: Option<&Child>) {
        while let Some(last) = self.waiting.last() {
            if next.is_some_and(|next| comes_before_directory(next, &last.name)) {
                break;
            }
            let Some(object) = self.waiting.pop() else { break };
            if next.is_some_and(|next| next.kind == EntryKind::Directory && next.name == object.name) {
                (self.hidden)(&object);
            } else {
                self.ready.push_back(object);
            }
        }
    }
}

/// Returns whether `next` comes before the directory `name` in a listing, so that the directory may
/// still follow. Called for every name, so it does not allocate.
fn comes_before_directory(next: &Child, name: &[u8]) -> bool {
    let Some(rest) = next.name.strip_prefix(name) else { return false };
    let end: &[u8] = if next.kind == EntryKind::Directory { b"/" } else { b"" };
    rest.first().or(end.first()).is_none_or(|byte| *byte < b'/')
}

impl<I: Iterator<Item = Result<Child, E>>, E> Iterator for NameConflicts<I> {
    type Item = Result<Child, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(child) = self.ready.pop_front() {
                return Some(Ok(child));
            }
            match self.children.next() {
                Some(Ok(child)) => {
                    self.release_before(Some(&child));
                    if child.kind == EntryKind::Directory {
                        self.ready.push_back(child);
                    } else {
                        self.waiting.push(child);
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.release_before(None);
                    return self.ready.pop_front().map(Ok);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    fn child(place: &str) -> Child {
        let (name, kind) =
            place.strip_suffix('/').map_or((place, EntryKind::File), |name| (name, EntryKind::Directory));
        Child { name: name.as_bytes().into(), kind, ..Child::directory(b"") }
    }

    /// Returns the bytes by which a child is sorted in a listing by name.
    fn sort_key(child: &Child) -> Vec<u8> {
        let slash: &[u8] = if child.kind == EntryKind::Directory { b"/" } else { b"" };
        [&child.name, slash].concat()
    }

    fn shown(places: &BTreeSet<String>) -> (BTreeSet<String>, usize) {
        let hidden = Arc::new(Mutex::new(0));
        let count = Arc::clone(&hidden);
        let children = places.iter().map(|place| Ok::<_, ()>(child(place)));
        let conflicts = NameConflicts::new(children, Box::new(move |_| *count.lock().unwrap() += 1));
        let shown = conflicts.map(|child| String::from_utf8(sort_key(&child.unwrap())).unwrap()).collect();
        let hidden = *hidden.lock().unwrap();
        (shown, hidden)
    }

    #[test]
    fn an_object_is_hidden_by_a_directory_that_comes_much_later() {
        let places: BTreeSet<String> = ["a", "a-1", "a-1/", "a.txt", "a/", "b"].map(String::from).into();
        let (shown, hidden) = shown(&places);
        assert_eq!(shown, ["a-1/", "a.txt", "a/", "b"].map(String::from).into());
        assert_eq!(hidden, 2);
    }

    proptest! {
        #[test]
        fn every_name_is_shown_once_and_a_directory_wins(places in proptest::collection::btree_set("[a!/0]{1,2}[!.0a]{0,2}/?", 0..40)) {
            let places: BTreeSet<String> =
                places.into_iter().filter(|place| !place.trim_end_matches('/').is_empty() && !place.trim_end_matches('/').contains('/') && !place.ends_with("//")).collect();
            let expected: BTreeSet<String> =
                places.iter().filter(|place| place.ends_with('/') || !places.contains(&format!("{place}/"))).cloned().collect();
            let (shown, hidden) = shown(&places);
            prop_assert_eq!(hidden, places.len() - expected.len());
            prop_assert_eq!(shown, expected);
        }
    }
}
