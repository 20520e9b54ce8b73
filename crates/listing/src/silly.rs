//! Recognises files that an NFS client keeps under another name, because they were removed or
//! replaced while a program had them open ("silly rename"). The client removes such a file when the
//! program closes it, and refuses to remove it earlier.

/// Prefix of the names of such files.
const NAME_PREFIX: &[u8] = b".nfs";
/// Number of hexadecimal digits after the prefix: 16 for the inode number, 8 for a counter
/// (`nfs_sillyrename` in Linux's `fs/nfs/unlink.c`).
const DIGIT_COUNT: usize = 24;

/// True for a name of the form that an NFS client gives to a file which is removed while it is
/// open.
#[must_use]
pub fn is_silly_name(name: &[u8]) -> bool {
    let digits = name.strip_prefix(NAME_PREFIX).unwrap_or_default();
    digits.len() == DIGIT_COUNT && digits.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silly_name_has_all_its_digits_and_nothing_else() {
        assert!(is_silly_name(b".nfs000000000006de0300000016"));
        for other in
            ["nfs000000000006de0300000016", ".nfs", ".nfs1", ".nfs000000000006de030000001g", ".nfs-mounts"]
        {
            assert!(!is_silly_name(other.as_bytes()), "{other}");
        }
    }
}
