//! The content of all generated files: a stream of words that is a pure function of seed and
//! offset.
//!
//! A range of a file is made or compared without the bytes before it and without the original. The
//! generator is SplitMix64, whose words do not compress.

/// Bytes per word.
const WORD_BYTES: usize = 8;
/// Increment of the generator's state.
const STATE_INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns word `index` of the stream of `seed`. The state is a counter, which gives random access.
const fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STATE_INCREMENT));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the seed of the file `name` among the files of `seed`: FNV-1a of the name, mixed with
/// the seed.
#[must_use]
pub fn seed_of(seed: u64, name: &str) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    word(seed, name.as_bytes().iter().fold(0xCBF2_9CE4_8422_2325, fold))
}

/// Fills `buffer` with the bytes of the stream from `offset`.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let (head, rest) = buffer.split_at_mut(bytes_before_next_word(offset, buffer.len()));
    let begin = offset_in_word(offset);
    head.copy_from_slice(&word(seed, offset / WORD_BYTES as u64).to_le_bytes()[begin..begin + head.len()]);
    let mut index = (offset + head.len() as u64) / WORD_BYTES as u64;
    let (words, tail) = rest.as_chunks_mut::<WORD_BYTES>();
    for bytes in words {
        *bytes = word(seed, index).to_le_bytes();
        index += 1;
    }
    let length = tail.len();
    tail.copy_from_slice(&word(seed, index).to_le_bytes()[..length]);
}

/// Returns the offset of the first byte of `bytes` that differs from the stream. `offset` is the
/// position of `bytes` in the stream.
#[must_use]
pub fn first_difference(seed: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_at(bytes_before_next_word(offset, bytes.len()));
    let mut at = offset + head.len() as u64;
    if let Some(found) = difference_in_word(seed, offset, head) {
        return Some(found);
    }
    let (words, tail) = rest.as_chunks::<WORD_BYTES>();
    let mut index = at / WORD_BYTES as u64;
    // One comparison for each group of words, because the compiler then needs few instructions per
    // word.
    for group in words.chunks(64) {
        let mut differing = 0;
        for (step, bytes) in (0_u64..).zip(group) {
            differing |= u64::from_le_bytes(*bytes) ^ word(seed, index + step);
        }
        if differing != 0 {
            let found = (0_u64..).zip(group);
            return found
                .filter_map(|(step, bytes)| {
                    difference_in_word(seed, (index + step) * WORD_BYTES as u64, bytes)
                })
                .next();
        }
        index += group.len() as u64;
    }
    at += words.as_flattened().len() as u64;
    difference_in_word(seed, at, tail)
}

/// Finds the first difference among bytes that lie in one word.
fn difference_in_word(seed: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let wanted = word(seed, offset / WORD_BYTES as u64).to_le_bytes();
    let wanted = &wanted[offset_in_word(offset)..];
    (offset..).zip(bytes.iter().zip(wanted)).find(|(_, (is, wanted))| is != wanted).map(|(at, _)| at)
}

/// Returns the position of `offset` within its word.
const fn offset_in_word(offset: u64) -> usize {
    (offset % WORD_BYTES as u64) as usize
}

/// Returns the number of bytes up to the next word, at most `length`; 0 at a word's start.
fn bytes_before_next_word(offset: u64, length: usize) -> usize {
    ((WORD_BYTES - offset_in_word(offset)) % WORD_BYTES).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill(seed, offset, &mut bytes);
        bytes
    }

    #[test]
    fn a_range_filled_alone_equals_that_range_of_the_whole() {
        let whole = bytes(7, 0, 5000);
        for offset in [0, 1, 7, 8, 9, 511, 4096] {
            for length in [0, 1, 3, 8, 17, 600, 900] {
                let part = bytes(7, offset as u64, length);
                assert_eq!(part, whole[offset..][..length], "{offset} {length}");
                assert_eq!(first_difference(7, offset as u64, &part), None);
            }
        }
        assert_ne!(bytes(8, 0, 5000), whole);
        assert_ne!(seed_of(1, "a"), seed_of(1, "b"));
        assert_ne!(seed_of(1, "a"), seed_of(2, "a"));
    }

    #[test]
    fn the_first_wrong_byte_is_found_at_any_position() {
        let mut part = bytes(7, 3, 2000);
        for at in [0, 4, 5, 12, 13, 517, 1996, 1999] {
            part[at] ^= 1;
            assert_eq!(first_difference(7, 3, &part), Some(3 + at as u64));
            part[at] ^= 1;
        }
        assert_eq!(first_difference(7, 4, &part), Some(4));
    }
}
