//! Finds the type of a mounted file system by its device, without a request to a server. `statfs`
//! of a network file system is a round trip, which would noticeably slow the listing of a small
//! directory.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// Returns the type of the mounted file system with this device, such as `nfs4`. `None` for a disk,
/// because its `statfs` is answered from memory. `None` also for a device without a mount, such as
/// a subvolume of btrfs, which has a device of its own.
pub(crate) fn type_of(device: u64) -> Option<String> {
    // File systems without a disk have the device major number 0.
    if rustix::fs::major(device) != 0 {
        return None;
    }
    let wanted = format!("0:{}", rustix::fs::minor(device));
    let mounts = BufReader::new(File::open("/proc/self/mountinfo").ok()?);
    mounts.split(b'\n').map_while(Result::ok).find_map(|line| type_in(&line, wanted.as_bytes()))
}

/// Returns the type in a line of `mountinfo` (`proc_pid_mountinfo(5)`) if the line has this device.
/// The device is the third field, the type the first field after a lone `-`.
fn type_in(line: &[u8], device: &[u8]) -> Option<String> {
    let mut fields = line.split(|byte| *byte == b' ');
    if fields.nth(2)? != device {
        return None;
    }
    fields.find(|field| *field == b"-")?;
    String::from_utf8(fields.next()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_mount_is_found_by_its_device() {
        let line = b"36 35 0:45 / /mnt/a\\040b rw,noatime shared:1 master:2 - nfs4 server:/ex - rw,vers=4.2";
        assert_eq!(type_in(line, b"0:45").as_deref(), Some("nfs4"));
        assert_eq!(type_in(line, b"0:4"), None);
        assert_eq!(type_in(b"", b"0:45"), None);
        assert_eq!(type_in(b"36 35 0:45 / /mnt", b"0:45"), None);
    }

    #[test]
    fn proc_is_found_and_a_disk_is_not_looked_for() {
        let device = rustix::fs::stat("/proc/self").unwrap().st_dev;
        assert_eq!(type_of(device).as_deref(), Some("proc"));
        assert_eq!(type_of(rustix::fs::makedev(8, 1)), None);
    }
}
