//! A control group for one run: limits memory and processors, and counts bytes read from devices.
//!
//! The kernel charges pages of files to the group that reads them first. A limit of memory
//! therefore includes the page cache, as the limit of a function does. A new group is below this
//! process's own group, or beside it if cgroup version 2 forbids that. Dropping a [`Group`] kills
//! its processes and removes it. Called by the engine for `--memory-limit`, `--cpus` and
//! `--function`.

mod parent;
pub(crate) mod places;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use places::{Hierarchies, Hierarchy, HierarchyVersion};

/// Limits of a run; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    /// Memory in bytes, page cache included, without swap.
    pub(crate) memory_bytes: Option<u64>,
    /// Number of processors. A fraction limits the time in each 100 ms.
    pub(crate) cpus: Option<f64>,
}

/// A control group. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub(crate) struct Group {
    /// The group's directories, one in each hierarchy. Each directory is here once, although
    /// several controllers may share it.
    directories: Vec<Directory>,
    /// The directory in which memory is counted.
    memory: Option<Directory>,
    /// The directory in which bytes read from devices are counted.
    io: Option<Directory>,
}

/// A directory of a group, and the version of its hierarchy.
type Directory = (PathBuf, HierarchyVersion);

/// Builder of a group: one directory in each hierarchy.
struct GroupBuilder<'a> {
    hierarchies: &'a Hierarchies,
    name: String,
    /// Controllers required for the limits.
    needed: &'a [&'a str],
    made: Vec<Directory>,
}

/// Period of processor quotas, in microseconds. The kernel's default is 100 ms.
const QUOTA_PERIOD_MICROSECONDS: u64 = 100_000;
/// Smallest quota that the kernel accepts, in microseconds.
const MIN_QUOTA_MICROSECONDS: u64 = 1_000;
/// Longest wait for killed processes to disappear.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Start of a group's name, before the id of the process that made the group.
const GROUP_PREFIX: &str = "firstbyte-bench-";

impl Group {
    /// Makes a group with these limits. Its name contains `name` (letters, digits, `-`, `_`).
    pub(crate) fn create(name: &str, limits: &Limits) -> Result<Self> {
        let hierarchies = Hierarchies::current().map_err(|error| {
            let what = "the control groups of this process cannot be read";
            Error::Limits(format!("{what}: {error}; limits need a kernel with cgroups"))
        })?;
        Self::create_in(&hierarchies, name, limits)
    }

    fn create_in(hierarchies: &Hierarchies, name: &str, limits: &Limits) -> Result<Self> {
        let quota = limits.cpus.map(quota).transpose()?;
        let mut needed = Vec::new();
        needed.extend(limits.memory_bytes.map(|_| "memory"));
        needed.extend(limits.cpus.map(|_| "cpu"));
        let mut maker =
            GroupBuilder { hierarchies, name: unique_name(name), needed: &needed, made: Vec::new() };
        let made = maker.make_all();
        // From here on, dropping the group removes its directories, also after an error.
        let mut group = Self { directories: maker.made, memory: None, io: None };
        let cpu;
        [group.memory, cpu, group.io] = made?;
        if let (Some(bytes), Some(hierarchy)) = (limits.memory_bytes, &group.memory) {
            limit_memory(hierarchy, bytes)?;
        }
        if let (Some(quota), Some(hierarchy)) = (quota, &cpu) {
            limit_cpus(hierarchy, quota)?;
        }
        group.count_reads();
        Ok(group)
    }

    /// Makes the kernel count bytes. Since Linux 6.10, version 1 counts the bytes of a device only
    /// if the device has a limit. Each disk therefore gets a limit that it cannot reach.
    fn count_reads(&self) {
        const UNREACHABLE: u64 = 1 << 44;
        let Some((group, HierarchyVersion::One)) = &self.io else { return };
        for disk in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let number = fs::read_to_string(disk.path().join("dev")).unwrap_or_default();
            let size = fs::read_to_string(disk.path().join("size")).unwrap_or_default();
            if size.trim() != "0" {
                let rule = format!("{} {UNREACHABLE}", number.trim());
                let _ = fs::write(group.join("blkio.throttle.read_bps_device"), rule);
            }
        }
    }

    /// Returns the files through which a process joins the group by writing `0` or its id: one in
    /// version 2, one for each hierarchy in version 1. Children start in the group of their parent.
    pub(crate) fn procs(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|(directory, _)| directory.join("cgroup.procs")).collect()
    }

    /// Returns the bytes that the group's processes have read from block devices. `None` if the
    /// kernel does not count them.
    pub(crate) fn read_bytes(&self) -> Option<u64> {
        self.io.as_ref().and_then(|(group, version)| read_bytes(group, *version))
    }

    /// True if the kernel killed processes because the group ran out of memory.
    pub(crate) fn is_exhausted(&self) -> bool {
        let kills = self.memory.as_ref().and_then(|(group, version)| {
            field(&group.join(version.of("memory.oom_control", "memory.events")), "oom_kill")
        });
        kills.is_some_and(|kills| kills > 0)
    }
}

impl GroupBuilder<'_> {
    /// Makes the directories for memory, processors and devices.
    fn make_all(&mut self) -> Result<[Option<Directory>; 3]> {
        let memory = self.make(&["memory"])?;
        let cpu = if self.needed.contains(&"cpu") { self.make(&["cpu"])? } else { None };
        Ok([memory, cpu, self.make(&["blkio", "io"])?])
    }

    /// Makes a directory for the first of these controllers that exists. If none exists, returns
    /// `None`, or an error if a limit needs it.
    fn make(&mut self, controllers: &[&str]) -> Result<Option<Directory>> {
        let is_needed = controllers.iter().any(|name| self.needed.contains(name));
        let Some(hierarchy) = controllers.iter().find_map(|name| self.hierarchies.of(name)) else {
            return if is_needed { Err(no_controller(controllers[0])) } else { Ok(None) };
        };
        match self.directory(hierarchy) {
            Err(error) if is_needed => Err(error),
            made => Ok(made.ok()),
        }
    }

    /// Returns the group's directory in a hierarchy. Makes it if no other controller has needed it
    /// before.
    fn directory(&mut self, hierarchy: &Hierarchy) -> Result<Directory> {
        let known = self.made.iter().find(|(directory, _)| directory.starts_with(&hierarchy.root));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let is_here = |name: &&&str| self.hierarchies.of(name) == Some(hierarchy);
        let needed: Vec<&str> = self.needed.iter().filter(is_here).copied().collect();
        let parent = parent::find(hierarchy, &needed)?;
        remove_stale_groups(&parent);
        let directory = parent.join(&self.name);
        fs::create_dir(&directory).map_err(|source| parent::forbidden("make a group in", &parent, source))?;
        self.made.push((directory, hierarchy.version));
        Ok(self.made[self.made.len() - 1].clone())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process in a hanging read keeps its group. The next run that makes a group here removes
        // it.
        let until = Instant::now() + REMOVAL_TIMEOUT;
        for (directory, _) in &self.directories {
            kill(directory);
            while fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
                kill(directory);
            }
        }
    }
}

/// Kills every process in a group.
fn kill(group: &Path) {
    // Version 2 has the file `cgroup.kill` since Linux 5.14.
    if fs::OpenOptions::new()
        .write(true)
        .open(group.join("cgroup.kill"))
        .is_ok_and(|mut file| file.write_all(b"1").is_ok())
    {
        return;
    }
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = rustix::process::getpid();
    for pid in text.lines().filter_map(|line| rustix::process::Pid::from_raw(line.trim().parse().ok()?)) {
        if pid != own {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Removes empty groups that a killed engine left.
fn remove_stale_groups(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(GROUP_PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // A group with processes stays, because the kernel refuses to remove it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns a name that no other group has.
fn unique_name(name: &str) -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || "-_".contains(symbol);
    let name: String = name.chars().map(|symbol| if is_plain(symbol) { symbol } else { '_' }).collect();
    format!("{GROUP_PREFIX}{}-{number}-{name}", std::process::id())
}

fn no_controller(name: &str) -> Error {
    Error::Limits(format!(
        "no control group limits `{name}` here: neither a mounted cgroup of version 1 nor cgroup.controllers of \
         version 2 has it; mount it, or run without that limit"
    ))
}

/// Returns the quota for this many processors, in microseconds of each period.
fn quota(cpus: f64) -> Result<u64> {
    let quota = (cpus * QUOTA_PERIOD_MICROSECONDS as f64).round();
    if !cpus.is_finite() || quota < MIN_QUOTA_MICROSECONDS as f64 {
        let least = MIN_QUOTA_MICROSECONDS as f64 / QUOTA_PERIOD_MICROSECONDS as f64;
        return Err(Error::Limits(format!("{cpus} processors cannot be shared out: the least is {least}")));
    }
    Ok(quota as u64)
}

fn limit_memory((group, version): &Directory, bytes: u64) -> Result<()> {
    let (file, swap, most_swap) = version.of(
        ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
        ("memory.max", "memory.swap.max", 0),
    );
    write(&group.join(file), &bytes.to_string())?;
    // Kernels without swap accounting have no such file, and no limit to set.
    let _ = fs::write(group.join(swap), most_swap.to_string());
    Ok(())
}

fn limit_cpus((group, version): &Directory, quota: u64) -> Result<()> {
    match version {
        HierarchyVersion::One => {
            write(&group.join("cpu.cfs_period_us"), &QUOTA_PERIOD_MICROSECONDS.to_string())?;
            write(&group.join("cpu.cfs_quota_us"), &quota.to_string())
        }
        HierarchyVersion::Two => {
            write(&group.join("cpu.max"), &format!("{quota} {QUOTA_PERIOD_MICROSECONDS}"))
        }
    }
}

fn write(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).map_err(|error| {
        let why = "a limit above that of the parent group is one reason";
        Error::Limits(format!("{}: the kernel refuses {value}: {error}; {why}", file.display()))
    })
}

/// Returns the number behind `name` in a file of lines `NAME NUMBER`.
fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Sums the bytes read over all devices. `None` if the kernel does not count them: version 1 then
/// lists neither a rule nor a device.
fn read_bytes(group: &Path, version: HierarchyVersion) -> Option<u64> {
    match version {
        HierarchyVersion::One => {
            let text = fs::read_to_string(group.join("blkio.throttle.io_service_bytes")).ok()?;
            let rules = fs::read_to_string(group.join("blkio.throttle.read_bps_device")).unwrap_or_default();
            let reads =
                text.lines().filter_map(|line| line.split_once(" Read ")?.1.trim().parse::<u64>().ok());
            let is_counted = !rules.trim().is_empty() || text.contains(" Read ");
            is_counted.then(|| reads.sum())
        }
        HierarchyVersion::Two => {
            // An empty file means that no bytes were read or written.
            let text = fs::read_to_string(group.join("io.stat")).ok()?;
            let words = text.split_whitespace();
            Some(words.filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok()).sum())
        }
    }
}
