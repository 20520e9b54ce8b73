//! Draws pseudo-random numbers, choices and mutations from a seed.

/// A generator (xorshift) that draws the same numbers for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(2);
        random
    }

    /// Draws a number less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    /// Draws true once in `times` draws on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Draws printable text, sometimes with invalid bytes.
    pub(crate) fn text(&mut self, most: usize) -> String {
        let length = self.below(most + 1);
        (0..length)
            .map(|_| match self.below(12) {
                0 => {
                    *self.of(&[&'%', &'&', &'=', &';', &',', &'"', &'\\', &'/', &'<', &'\u{e4}', &'\t', &' '])
                }
                _ => char::from(b'!' + self.below(94) as u8),
            })
            .collect()
    }

    /// Returns `bytes` with some bytes changed, removed, doubled or added.
    pub(crate) fn mutate(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return bytes;
            }
            let at = self.below(bytes.len());
            match self.below(7) {
                0 => bytes[at] = self.below(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *self.of(&[&b'\r', &b'\n', &0, &b' ', &b':', &b';', &0xff, &b'0'])),
                3 => bytes.truncate(at),
                4 => {
                    let end = (at + self.below(200)).min(bytes.len());
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                5 => {
                    let end = (at + self.below(60)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let other = self.below(bytes.len());
                    bytes.swap(at, other);
                }
            }
        }
        bytes
    }
}
