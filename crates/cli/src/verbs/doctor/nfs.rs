//! Reports how a directory on NFS is mounted: version, read size, connections, read-ahead.
//!
//! All facts come from the mount table and `/sys`, so a server that is unreachable cannot block
//! this check. Called by `location`.

use std::fs;
use std::path::Path;

use firstbyte::size::human;
use firstbyte_bench::mounts::{MountTableEntry, Mounts, real};

use super::DoctorFinding;

/// Mount options that are reported: the version of NFS, sizes of calls, connections, and local
/// locks.
const REPORTED_OPTIONS: [&str; 5] = ["vers", "rsize", "wsize", "nconnect", "local_lock"];

/// Returns findings about the mount of `path`; none if it is not NFS.
pub(super) fn look(path: &Path) -> Vec<DoctorFinding> {
    let Ok(mounts) = Mounts::current() else { return Vec::new() };
    let mount = mounts.of(&real(path)).filter(|mount| matches!(mount.kind.as_str(), "nfs" | "nfs4"));
    mount.map_or_else(Vec::new, |mount| {
        let setting = format!("/sys/class/bdi/{}/read_ahead_kb", mount.number);
        let kib = fs::read_to_string(&setting).ok().and_then(|text| text.trim().parse::<u64>().ok());
        findings(mount, kib.map(|kib| (setting, kib << 10)))
    })
}

/// Returns findings about a mount. `read_ahead` is the path of the mount's read-ahead setting, and
/// the read-ahead in bytes.
fn findings(mount: &MountTableEntry, read_ahead: Option<(String, u64)>) -> Vec<DoctorFinding> {
    let value = |key: &str| mount.options.split(',').find_map(|one| one.strip_prefix(key)?.strip_prefix('='));
    let reported: Vec<String> =
        REPORTED_OPTIONS.iter().filter_map(|key| Some(format!("{key}={}", value(key)?))).collect();
    let mut findings = vec![DoctorFinding::ok("mount", format!("{} ({})", mount.kind, reported.join(", ")))];
    let rsize = value("rsize").and_then(|text| text.parse().ok());
    if let (Some((setting, window)), Some(rsize)) = (read_ahead, rsize) {
        let found = format!("{} with reads of up to {} ({setting})", human(window), human(rsize));
        findings.push(match window < rsize {
            true => DoctorFinding::warn(
                "read-ahead",
                found,
                "copies here do not need more, but a program that reads a file from start to end waits for each piece: \
                 write 15 times rsize there, in KiB, or see nfsrahead(5)",
            ),
            false => DoctorFinding::ok("read-ahead", found),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    fn mounted() -> MountTableEntry {
        let line =
            b"36 35 0:45 / /mnt/a rw,noatime - nfs4 server:/ex rw,vers=4.2,rsize=1048576,nconnect=4,hard";
        Mounts::parse(line).at(Path::new("/mnt/a")).unwrap().clone()
    }

    #[test]
    fn a_read_ahead_of_less_than_one_read_is_a_warning() {
        let of = |bytes| findings(&mounted(), Some(("setting".into(), bytes))).pop().unwrap();
        assert_eq!((of(128 << 10).status, of(15 << 20).status), (CheckStatus::Warn, CheckStatus::Ok));
        assert!(of(128 << 10).found.contains("128 KiB"), "{}", of(128 << 10).found);
    }

    #[test]
    fn the_options_that_matter_are_reported() {
        let found = findings(&mounted(), None).pop().unwrap().found;
        assert_eq!(found, "nfs4 (vers=4.2, rsize=1048576, nconnect=4)");
    }

    #[test]
    fn a_local_directory_has_no_findings() {
        assert!(look(Path::new("/proc")).is_empty());
    }
}
