//! Recognises files that an NFS client keeps under another name because they were removed or
//! replaced while a program had them open ("silly rename"). The client removes them when they are
//! closed, and refuses to remove them earlier.

/// Prefix of such a name.
const START: &[u8] = b".nfs";
/// Number of hexadecimal digits after the prefix: 16 of the inode, 8 of a counter
/// (`nfs_sillyrename` in Linux's `fs/nfs/unlink.c`).
const DIGITS: usize = 24;

/// True for the kind of name that an NFS client gives to a file which is removed while it is open.
#[must_use]
pub fn is_silly_name(name: &[u8]) -> bool {
    let digits = name.strip_prefix(START).unwrap_or_default();
    digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
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
