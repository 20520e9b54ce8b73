//! Finds the control groups of this process: version 1, version 2, or both (hybrid).
//!
//! A controller belongs to exactly one hierarchy. `/proc/self/cgroup` and the mount table list the
//! hierarchies. Called by `cgroup` to make groups, and by `machine` for the limits of this process.

use std::io;
use std::path::{Path, PathBuf};

use crate::mounts::Mounts;

/// The version of a hierarchy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HierarchyVersion {
    One,
    Two,
}

impl HierarchyVersion {
    /// Returns `one` for version 1 and `two` for version 2.
    pub(crate) fn of<T>(self, one: T, two: T) -> T {
        match self {
            Self::One => one,
            Self::Two => two,
        }
    }
}

/// A mounted hierarchy, and the group of this process in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hierarchy {
    pub(crate) version: HierarchyVersion,
    /// The mount point of the hierarchy.
    pub(crate) root: PathBuf,
    /// Directory of this process's own group, at or below `root`.
    pub(crate) own: PathBuf,
    /// Version 1: the controllers of this hierarchy. Version 2 lists them in files, so this is
    /// empty.
    controllers: Vec<String>,
}

/// All mounted hierarchies, each with the group of this process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Hierarchies(Vec<Hierarchy>);

impl Hierarchies {
    /// Reads the cgroups of this process.
    pub(crate) fn current() -> io::Result<Self> {
        let membership = std::fs::read_to_string("/proc/self/cgroup")?;
        Ok(Self::new(&membership, &Mounts::current()?))
    }

    /// Finds the cgroups from the text of `/proc/self/cgroup` and the mount table.
    pub(crate) fn new(membership: &str, mounts: &Mounts) -> Self {
        let hierarchies = membership.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, Path::new(parts.next()?));
            let version = if controllers.is_empty() { HierarchyVersion::Two } else { HierarchyVersion::One };
            let controllers: Vec<String> =
                controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let mount = mounts.iter().find(|mount| match version {
                HierarchyVersion::Two => mount.kind == "cgroup2",
                // The options of a mount list its controllers, including `name=systemd`.
                HierarchyVersion::One => {
                    mount.kind == "cgroup"
                        && controllers.iter().all(|name| mount.options.split(',').any(|one| one == name))
                }
            })?;
            // In a container, the path is often that of the host, and only a part of the hierarchy
            // is mounted.
            let inside = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/"));
            let own = inside.map(|inside| mount.at.join(inside)).unwrap_or_else(|_| mount.at.clone());
            let own = if own.is_dir() { own } else { mount.at.clone() };
            Some(Hierarchy { version, root: mount.at.clone(), own, controllers })
        });
        Self(hierarchies.collect())
    }

    /// Returns the hierarchy of `controller`.
    pub(crate) fn of(&self, controller: &str) -> Option<&Hierarchy> {
        let old = self.0.iter().find(|hierarchy| hierarchy.controllers.iter().any(|name| name == controller));
        old.or_else(|| {
            self.version_two()
                .filter(|hierarchy| control_file(&hierarchy.root, "cgroup.controllers").contains(controller))
        })
        .or_else(|| {
            self.version_two()
                .filter(|hierarchy| control_file(&hierarchy.own, "cgroup.controllers").contains(controller))
        })
    }

    /// Returns the hierarchy of version 2.
    pub(crate) fn version_two(&self) -> Option<&Hierarchy> {
        self.0.iter().find(|hierarchy| hierarchy.version == HierarchyVersion::Two)
    }

    /// Returns the smallest value over this process's group and the groups above. `parse` reads the
    /// value from `file`, and returns `None` for "no limit".
    pub(crate) fn least<T: PartialOrd>(
        &self,
        controller: &str,
        parse: impl Fn(&Path, HierarchyVersion) -> Option<T>,
    ) -> Option<T> {
        let hierarchy = self.of(controller)?;
        let mut least: Option<T> = None;
        for group in hierarchy.own.ancestors().take_while(|group| group.starts_with(&hierarchy.root)) {
            let found = parse(group, hierarchy.version);
            if let Some(found) = found
                && least.as_ref().is_none_or(|least| found < *least)
            {
                least = Some(found);
            }
        }
        least
    }
}

/// Text of a control file. Empty if the file cannot be read.
pub(crate) struct ControlFile(String);

impl ControlFile {
    pub(crate) fn contains(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|one| one == word)
    }
}

/// Reads a control file of a group.
pub(crate) fn control_file(group: &Path, file: &str) -> ControlFile {
    ControlFile(std::fs::read_to_string(group.join(file)).unwrap_or_default())
}

/// Returns the memory limit of `group` itself, in bytes.
pub(crate) fn memory_limit(group: &Path, version: HierarchyVersion) -> Option<u64> {
    // Version 1 writes "no limit" as the largest multiple of the page size, version 2 as `max`.
    const UNLIMITED: u64 = 1 << 60;
    let file = version.of("memory.limit_in_bytes", "memory.max");
    let text = std::fs::read_to_string(group.join(file)).ok()?;
    text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

/// Returns the number of processors that `group` itself may use, possibly a fraction.
pub(crate) fn cpu_limit(group: &Path, version: HierarchyVersion) -> Option<f64> {
    let read = |file: &str| std::fs::read_to_string(group.join(file)).ok();
    let (quota, period) = match version {
        HierarchyVersion::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        HierarchyVersion::Two => {
            let text = read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
    };
    // Without a quota, version 1 has -1, and version 2 has `max`.
    let quota: f64 = quota.trim().parse().ok().filter(|quota| *quota > 0.0)?;
    Some(quota / period.trim().parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A mount table with these hierarchies below `root`.
    fn table(root: &Path, lines: &[(&str, &str, &str)]) -> Mounts {
        let lines = lines.iter().map(|(at, kind, options)| {
            format!("1 1 0:1 / {} rw - {kind} {kind} rw,{options}\n", root.join(at).display())
        });
        Mounts::parse(lines.collect::<String>().as_bytes())
    }

    #[test]
    fn a_hybrid_machine_has_each_controller_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        for path in ["memory/job", "cpu", "systemd", "unified/job"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        fs::write(root.path().join("unified/cgroup.controllers"), "io hugetlb\n").unwrap();
        let mounts = table(
            root.path(),
            &[
                ("memory", "cgroup", "memory"),
                ("cpu", "cgroup", "cpu,cpuacct"),
                ("systemd", "cgroup", "name=systemd"),
                ("unified", "cgroup2", ""),
            ],
        );
        let hierarchies =
            Hierarchies::new("4:memory:/job\n3:cpu,cpuacct:/\n2:name=systemd:/\n0::/job\n", &mounts);
        let own =
            |name: &str| hierarchies.of(name).map(|hierarchy| (hierarchy.version, hierarchy.own.clone()));
        assert_eq!(own("memory"), Some((HierarchyVersion::One, root.path().join("memory/job"))));
        assert_eq!(own("cpuacct"), Some((HierarchyVersion::One, root.path().join("cpu"))));
        assert_eq!(own("io"), Some((HierarchyVersion::Two, root.path().join("unified/job"))));
        assert_eq!(own("pids"), None);
    }

    #[test]
    fn the_smallest_limit_of_a_group_and_its_parents_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("all/job/step");
        fs::create_dir_all(&group).unwrap();
        fs::write(root.path().join("all/cgroup.controllers"), "cpu memory").unwrap();
        fs::write(root.path().join("all/job/memory.max"), "1048576\n").unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("all/job/cpu.max"), "max 100000\n").unwrap();
        fs::write(group.join("cpu.max"), "150000 100000\n").unwrap();
        let hierarchies = Hierarchies::new("0::/job/step\n", &table(root.path(), &[("all", "cgroup2", "")]));
        assert_eq!(hierarchies.least("memory", memory_limit), Some(1 << 20));
        assert_eq!(hierarchies.least("cpu", cpu_limit), Some(1.5));
    }

    #[test]
    fn a_path_of_the_host_is_resolved_below_the_mounted_part() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("memory/step")).unwrap();
        let at = root.path().join("memory");
        let line = format!("1 1 0:1 /docker/abc {} rw - cgroup cgroup rw,memory\n", at.display());
        let mounts = Mounts::parse(line.as_bytes());
        let own = |membership: &str| Hierarchies::new(membership, &mounts).of("memory").unwrap().own.clone();
        assert_eq!(own("4:memory:/docker/abc/step\n"), at.join("step"));
        assert_eq!(own("4:memory:/docker/abc\n"), at);
        assert_eq!(own("4:memory:/elsewhere\n"), at);
    }
}
