//! Numbers the paths of directories. Each path is stored only once, for any number of inodes in the
//! directory.

use std::collections::HashMap;
use std::sync::Arc;

/// Paths, each with the number of its users.
#[derive(Default)]
pub(crate) struct InodePaths {
    numbers: HashMap<Arc<[u8]>, u32>,
    /// For each number, its path and the number of users.
    slots: Vec<(Arc<[u8]>, u32)>,
    /// Numbers that no path has.
    free_numbers: Vec<u32>,
    /// The number that was looked up last. It is tried first, because the children of a directory
    /// are often looked up one after another.
    last: Option<u32>,
}

impl InodePaths {
    /// Returns the number of a path, if the path is in use.
    pub(crate) fn find(&mut self, path: &[u8]) -> Option<u32> {
        if let Some(last) = self.last
            && *self.slots[last as usize].0 == *path
        {
            return Some(last);
        }
        self.last = self.numbers.get(path).copied();
        self.last
    }

    /// Returns the number of a path, and counts one more user of it.
    pub(crate) fn enter(&mut self, path: &[u8]) -> u32 {
        let number = self.find(path).unwrap_or_else(|| {
            let path: Arc<[u8]> = path.into();
            let slot = (Arc::clone(&path), 0);
            let number = self.free_numbers.pop().unwrap_or(self.slots.len() as u32);
            if number as usize == self.slots.len() {
                self.slots.push(slot);
            } else {
                self.slots[number as usize] = slot;
            }
            self.numbers.insert(path, number);
            number
        });
        self.slots[number as usize].1 += 1;
        number
    }

    /// Removes one user of the path with this number. Frees the path if no user is left.
    pub(crate) fn leave(&mut self, number: u32) {
        let (path, users) = &mut self.slots[number as usize];
        *users -= 1;
        if *users == 0 {
            self.numbers.remove(&**path);
            *path = Arc::from([]);
            self.free_numbers.push(number);
            self.last = None;
        }
    }

    pub(crate) fn path(&self, number: u32) -> &[u8] {
        &self.slots[number as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number_as_long_as_it_is_used() {
        let mut paths = InodePaths::default();
        let (root, a) = (paths.enter(b""), paths.enter(b"a"));
        assert_ne!(root, a);
        assert_eq!((paths.enter(b"a"), paths.enter(b"")), (a, root));
        paths.leave(a);
        assert_eq!((paths.find(b"a"), paths.path(a)), (Some(a), &b"a"[..]));
        paths.leave(a);
        assert_eq!(paths.find(b"a"), None);
        assert_eq!(paths.enter(b"b"), a, "numbers are given again");
        assert_eq!((paths.path(a), paths.path(root)), (&b"b"[..], &b""[..]));
    }
}
