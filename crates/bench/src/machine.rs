//! Describes the measuring machine for results: processors, memory, kernel, and the file systems of
//! paths.
//!
//! A fact that cannot be read stays empty. The only error is a path on another file system than
//! expected. Called by the engine once for each results file.

mod metadata;

use std::fs;
use std::path::{Path, PathBuf};

use crate::result::Machine;
use firstbyte::environment;

use crate::cgroup::places::{self, Hierarchies};
use crate::mounts::{self, MountTableEntry, Mounts};

/// Describes this machine, and the file systems of `paths`. `env` looks up an environment variable.
/// On EC2, requests the instance's metadata, for at most 1 s.
#[must_use]
pub fn describe(paths: &[PathBuf], env: &dyn Fn(&str) -> Option<String>) -> Machine {
    let system = rustix::system::uname();
    let identity = metadata::identity(env);
    Machine {
        cpu: cpu_name(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        processors: processors(),
        memory_bytes: memory(env),
        kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
        architecture: system.machine().to_string_lossy().into_owned(),
        cgroup: cgroup_limits(),
        mounts: Mounts::current().map_or(Vec::new(), |mounts| lines(paths, &mounts)),
        versions: std::collections::BTreeMap::new(),
        region: identity.region,
        instance_type: identity.instance_type,
    }
}

/// Checks that `path` is on a file system of type `expected`, for example `lustre`. `nfs` includes
/// `nfs4`, and `fuse` every `fuse.NAME`.
///
/// # Errors
/// The path is on another file system. The message names it, and an expected one that it hides.
pub fn expect_file_system(path: &Path, expected: &str) -> Result<(), String> {
    let (real, mounts) = (mounts::real(path), Mounts::current().unwrap_or_default());
    let Some(mount) = mounts.of(&real) else {
        let why = "the file system that this is on is unknown; --expect-fs needs /proc/self/mountinfo";
        return Err(format!("{}: {why}", path.display()));
    };
    if is_kind(&mount.kind, expected) {
        return Ok(());
    }
    let shown =
        |mount: &MountTableEntry| format!("{} ({} at {})", mount.kind, mount.device, mount.at.display());
    // The expected file system may be mounted below the actual one.
    let hidden = mounts.iter().find(|one| is_kind(&one.kind, expected) && real.starts_with(&one.at));
    let hidden = hidden.map_or_else(String::new, |one| format!(", which hides {}", shown(one)));
    Err(format!(
        "{} is on {}{hidden}, not on {expected}: that file system is mounted elsewhere or not at all, or another one is \
         mounted over it; see /proc/self/mountinfo, or leave --expect-fs out",
        path.display(),
        shown(mount)
    ))
}

fn is_kind(kind: &str, expected: &str) -> bool {
    kind == expected
        || (expected == "nfs" && kind == "nfs4")
        || kind.split_once('.').is_some_and(|(family, _)| family == expected)
}

/// Returns `PATH: TYPE on DEVICE (OPTIONS)` for each path.
fn lines(paths: &[PathBuf], mounts: &Mounts) -> Vec<String> {
    let line = |path: &PathBuf| {
        let mount = mounts.of(&mounts::real(path))?;
        Some(format!("{}: {} on {} ({})", path.display(), mount.kind, mount.device, mount.options))
    };
    paths.iter().filter_map(line).collect()
}

/// Returns the name of the processor: `model name` on x86, `Model` or `CPU part` elsewhere.
fn cpu_name(text: &str) -> String {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let part = || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(|| value("Model")).or_else(part).unwrap_or_default()
}

/// Returns the number of processors that this process may use: the scheduler's set, limited by the
/// quota of its cgroup, rounded up.
pub(crate) fn processors() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    let quota =
        Hierarchies::current().ok().and_then(|hierarchies| hierarchies.least("cpu", places::cpu_limit));
    quota.map_or(allowed, |quota| allowed.min(quota.ceil() as usize)).max(1)
}

/// Returns the memory that this process may use, in bytes.
pub(crate) fn memory(env: &dyn Fn(&str) -> Option<String>) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        Some(kib.trim().parse::<u64>().ok()? << 10)
    });
    total.into_iter().chain(environment::memory_limit(env)).min().unwrap_or(0)
}

/// Returns the limits of this process's cgroups and of the groups above as words for the report:
/// the group, memory and cpus. Empty if nothing is limited.
fn cgroup_limits() -> Vec<String> {
    let Ok(hierarchies) = Hierarchies::current() else { return Vec::new() };
    let memory = hierarchies.least("memory", places::memory_limit).map(|bytes| format!("memory={bytes}"));
    let cpus = hierarchies.least("cpu", places::cpu_limit).map(|cpus| format!("cpus={cpus}"));
    let limits: Vec<String> = memory.into_iter().chain(cpus).collect();
    let group = hierarchies.of("memory").or_else(|| hierarchies.version_two());
    match group {
        Some(group) if !limits.is_empty() => {
            std::iter::once(format!("group={}", group.own.display())).chain(limits).collect()
        }
        _ => limits,
    }
}
