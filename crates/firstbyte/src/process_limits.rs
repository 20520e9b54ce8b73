//! Limits that the system sets for this process: memory, descriptors and threads.
//!
//! Control groups confine all processes in them together, and each of their parents may confine
//! more: the tightest counts. Used by the environment and the options.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use firstbyte_location::to_usize;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a request at most: a socket, a pipe, and a partial file with its directory and
/// journal.
const DESCRIPTORS_EACH: u64 = 6;
/// Descriptors beside those of requests: standard streams, libraries, listings.
const OTHER_DESCRIPTORS: u64 = 24;
/// Threads beside those of requests: main, feeder, supervisors, listings.
const OTHER_THREADS: u64 = 20;
/// Descriptors that are enough for any number of requests that a machine sends.
const ENOUGH_DESCRIPTORS: u64 = 64 << 10;
/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Requests at once that this process has descriptors and threads for; at least one.
#[must_use]
pub fn most_requests() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let by_descriptors = descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_EACH;
    let by_threads = free_threads(&membership(), Path::new(GROUPS)).unwrap_or(u64::MAX);
    to_usize(by_descriptors.min(by_threads.saturating_sub(OTHER_THREADS)).max(1))
}

/// Raises the soft limit on descriptors towards the hard one, as programs do that use no `select`
/// (<https://0pointer.net/blog/file-descriptor-limits.html>, 2026-11-27).
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(ENOUGH_DESCRIPTORS);
    if limit.current.is_some_and(|current| current < wanted) {
        // Refused, fewer requests run at once.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// The memory of this machine, in bytes.
pub(crate) fn machine_memory() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(machine.mem_unit.into())
}

/// The lowest limit on the memory of this process's control groups, in bytes.
pub(crate) fn group_memory() -> Option<u64> {
    memory_of(&membership(), Path::new(GROUPS))
}

fn membership() -> String {
    read_to_string("/proc/self/cgroup").unwrap_or_default()
}

fn memory_of(membership: &str, root: &Path) -> Option<u64> {
    let file = |version| if version == Version::Two { "memory.max" } else { "memory.limit_in_bytes" };
    groups(membership, root, "memory").filter_map(|(group, version)| number(&group.join(file(version)))).min()
}

/// Threads that the groups allow beyond those that exist.
fn free_threads(membership: &str, root: &Path) -> Option<u64> {
    groups(membership, root, "pids")
        .filter_map(|(group, _)| {
            let most = number(&group.join("pids.max"))?;
            Some(most.saturating_sub(number(&group.join("pids.current")).unwrap_or(0)))
        })
        .min()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups that `membership` (the text of `/proc/self/cgroup`) names below `root` for a
/// controller, with all of their parents.
fn groups(membership: &str, root: &Path, controller: &str) -> impl Iterator<Item = (PathBuf, Version)> {
    let named = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, version) = match controllers {
            "" => (root.to_path_buf(), Version::Two),
            _ if controllers.split(',').any(|it| it == controller) => (root.join(controller), Version::One),
            _ => return None,
        };
        // Inside a container the path is often the host's, which is not mounted here: the
        // ancestors, up to the mount itself, are asked as well.
        let group = mount.join(path.trim_start_matches('/'));
        let above = group.ancestors().take_while(|it| it.starts_with(&mount)).map(Path::to_path_buf);
        Some(above.map(move |it| (it, version)).collect::<Vec<_>>())
    };
    membership.lines().filter_map(named).flatten().collect::<Vec<_>>().into_iter()
}

fn number(file: &Path) -> Option<u64> {
    // v1 writes "no limit" as the largest multiple of the page size, v2 as `max`.
    const UNLIMITED: u64 = 1 << 60;
    read_to_string(file).ok()?.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts_also_where_only_a_parent_has_a_limit() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("job/step")).unwrap();
        std::fs::write(root.path().join("job/memory.max"), "1048576\n").unwrap();
        std::fs::write(root.path().join("job/step/memory.max"), "max\n").unwrap();
        assert_eq!(memory_of("0::/job/step\n", root.path()), Some(1 << 20));
        assert_eq!(memory_of("0::/elsewhere\n", root.path()), None);
    }

    #[test]
    fn version_one_groups_are_read_where_they_are_mounted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("memory/job")).unwrap();
        std::fs::write(root.path().join("memory/memory.limit_in_bytes"), "9223372036854771712").unwrap();
        std::fs::write(root.path().join("memory/job/memory.limit_in_bytes"), "2097152").unwrap();
        assert_eq!(memory_of("4:memory:/job\n1:cpu:/job\n", root.path()), Some(2 << 20));
        assert_eq!(memory_of("4:memory:/docker/abc\n", root.path()), None);
    }

    #[test]
    fn threads_that_exist_are_not_free() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("job")).unwrap();
        std::fs::write(root.path().join("job/pids.max"), "50\n").unwrap();
        std::fs::write(root.path().join("job/pids.current"), "8\n").unwrap();
        assert_eq!(free_threads("0::/job\n", root.path()), Some(42));
        std::fs::write(root.path().join("job/pids.max"), "max\n").unwrap();
        assert_eq!(free_threads("0::/job\n", root.path()), None);
    }
}
