use proptest::prelude::*;

use super::*;

/// Returns the bytes of a record as the kernel writes it, with `junk` in the padding.
fn written(inode: u64, next: i64, kind: u8, name: &[u8], junk: u8) -> Vec<u8> {
    let length = (HEAD_BYTES + name.len() + 1).next_multiple_of(8);
    let mut record = vec![junk; length];
    record[..8].copy_from_slice(&inode.to_ne_bytes());
    record[8..16].copy_from_slice(&next.to_ne_bytes());
    record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
    record[18] = kind;
    record[HEAD_BYTES..HEAD_BYTES + name.len()].copy_from_slice(name);
    record[HEAD_BYTES + name.len()] = 0;
    record
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1_u8.., 1..300)
}

proptest! {
    #[test]
    fn records_are_read_back_whatever_the_padding_contains(
        entries in prop::collection::vec((any::<u64>(), any::<i64>(), any::<u8>(), names()), 0..40),
        junk in any::<u8>(),
        before in 0_usize..64,
    ) {
        let mut bytes = vec![junk; before];
        for (inode, next, kind, name) in &entries {
            bytes.extend(written(*inode, *next, *kind, name, junk));
        }
        let read: Vec<_> = records(&bytes, before)
            .map(|raw| raw.unwrap())
            .map(|raw| (raw.inode, raw.next, raw.kind, bytes[raw.name..raw.name + raw.len].to_vec()))
            .collect();
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn arbitrary_bytes_give_records_within_them_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        for raw in records(&bytes, 0).flatten() {
            prop_assert!(raw.len > 0 || bytes[raw.name] == 0);
            prop_assert_eq!(bytes[raw.name + raw.len], 0);
        }
    }

    #[test]
    fn a_record_cut_short_is_an_error(name in names(), keep in 0.0..1.0_f64) {
        let record = written(7, 8, 9, &name, 0xFF);
        let keep = 1 + ((record.len() - 2) as f64 * keep) as usize;
        prop_assert_eq!(records(&record[..keep], 0).next(), Some(Err(Errno::IO)));
        prop_assert_eq!(records(&record[..keep], 0).count(), 1);
    }
}

#[test]
fn a_record_that_claims_no_length_does_not_go_on_for_ever() {
    let mut record = written(1, 2, 3, b"name", 0);
    record[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(records(&record, 0).collect::<Vec<_>>(), [Err(Errno::IO)]);
}
