//! Checks the requirements of mounting: the FUSE device; the right to mount, or else the helper
//! program; and passthrough of hydrated files. Called by `doctor`.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use super::DoctorFinding;

/// First Linux version that can pass reads of a FUSE file through to a local file.
const PASSTHROUGH_SINCE: (u32, u32) = (6, 9);

/// Number of the bit of CAP_SYS_ADMIN in the capability masks of `/proc/self/status`
/// (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn look() -> Vec<DoctorFinding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let admin = has_capability(&status, CAP_SYS_ADMIN);
    vec![device(), mounting(admin, find_helper()), passthrough(admin)]
}

/// Reports whether this process can mount: with CAP_SYS_ADMIN, or with fusermount3.
fn mounting(admin: bool, helper: Option<PathBuf>) -> DoctorFinding {
    const WHAT: &str = "mounting";
    match helper {
        _ if admin => DoctorFinding::ok(WHAT, "this process may mount (CAP_SYS_ADMIN)"),
        Some(helper) => DoctorFinding::ok(WHAT, format!("by {}", helper.display())),
        None => DoctorFinding::warn(
            WHAT,
            "needs CAP_SYS_ADMIN or fusermount3, and neither is here",
            "run as root, install fuse3, or in a container give --cap-add SYS_ADMIN; else open files with the Python package or firstbyte cp",
        ),
    }
}

/// Finds fusermount3, the helper program that mounts for unprivileged users.
fn find_helper() -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&places)
        .flat_map(|place| [place.join("fusermount3"), place.join("fusermount")]);
    candidates.into_iter().find(|path| path.is_file())
}

fn device() -> DoctorFinding {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => DoctorFinding::ok("FUSE", "/dev/fuse can be opened"),
        Err(error) => DoctorFinding::warn(
            "FUSE",
            format!("/dev/fuse: {error}"),
            "mounting will not work: load the fuse module; in a container, --device /dev/fuse --cap-add SYS_ADMIN",
        ),
    }
}

fn passthrough(admin: bool) -> DoctorFinding {
    const WHAT: &str = "FUSE passthrough";
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if version(&release).is_none_or(|version| version < PASSTHROUGH_SINCE) {
        return DoctorFinding::warn(
            WHAT,
            format!("not in kernel {release}"),
            "Linux 6.9 or newer reads hydrated files at native speed",
        );
    }
    if admin {
        DoctorFinding::ok(WHAT, format!("kernel {release} has it, and this process may use it"))
    } else {
        DoctorFinding::warn(
            WHAT,
            "needs CAP_SYS_ADMIN",
            "mount as root, or hydrated files are read through the page cache instead",
        )
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn has_capability(status: &str, capability: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> capability & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::CheckStatus;

    #[test]
    fn kernel_versions_compare_by_number() {
        assert_eq!(version("6.10.3-arch1"), Some((6, 10)));
        assert!(version("6.10.3").unwrap() > PASSTHROUGH_SINCE);
        assert!(version("5.15.0-91-generic").unwrap() < PASSTHROUGH_SINCE);
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn an_unprivileged_user_needs_the_mount_helper() {
        assert_eq!(mounting(true, None).status, CheckStatus::Ok);
        let helped = mounting(false, Some("/usr/bin/fusermount3".into()));
        assert!(helped.status == CheckStatus::Ok && helped.found.contains("/usr/bin/fusermount3"));
        assert_eq!(mounting(false, None).status, CheckStatus::Warn);
    }

    #[test]
    fn capabilities_are_bits_of_the_effective_mask() {
        assert!(has_capability("Name:\tx\nCapEff:\t000001ffffffffff\n", CAP_SYS_ADMIN));
        assert!(!has_capability("Name:\tx\nCapEff:\t00000000a80425fb\n", CAP_SYS_ADMIN));
        assert!(!has_capability("", CAP_SYS_ADMIN));
    }
}
