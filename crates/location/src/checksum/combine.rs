//! Computes the CRC of two adjacent pieces from the CRCs of both.
//!
//! A CRC is the remainder of a polynomial over GF(2), and `n` bytes that follow multiply it by
//! `x^8n`. This takes one product per bit set in `n`, with precomputed powers, as in zlib's
//! `crc32_combine`: about 1 us. The CRC library squares a matrix per bit instead, which takes 0.8
//! ms for 64 bits: a fifth of the CPU time of downloading 1 GiB in chunks of 8 MiB.
//!
//! Assumes a reflected CRC whose initial value equals its final mask, so that both cancel.

/// A CRC's polynomial, and the powers derived from it.
pub(super) struct Polynomial {
    width: u32,
    /// The polynomial without its highest power. Bit `width - 1` is the lowest power.
    reflected: u64,
    /// `x^8`, then repeated squares: element `i` stands for `2^i` bytes that follow.
    powers: [u64; u64::BITS as usize],
}

// Polynomials as in the catalogue of parametrised CRC algorithms (reveng.sourceforge.io),
// reflected.
pub(super) static CRC_64_NVME: Polynomial = Polynomial::new(64, 0x9a6c_9329_ac4b_c9b5);
pub(super) static CRC_32C: Polynomial = Polynomial::new(32, 0x82f6_3b78);
pub(super) static CRC_32: Polynomial = Polynomial::new(32, 0xedb8_8320);

impl Polynomial {
    const fn new(width: u32, reflected: u64) -> Self {
        let mut polynomial = Self { width, reflected, powers: [0; u64::BITS as usize] };
        // x^8: eight bits below the highest one, which is x^0.
        polynomial.powers[0] = 1 << (width - 1 - 8);
        let mut index = 1;
        while index < polynomial.powers.len() {
            let last = polynomial.powers[index - 1];
            polynomial.powers[index] = polynomial.product(last, last);
            index += 1;
        }
        polynomial
    }

    /// Computes the CRC of two adjacent pieces from their CRCs. The second has `next_len` bytes.
    pub(super) fn combine(&self, first: u64, next: u64, next_len: u64) -> u64 {
        let set = (0..self.powers.len()).filter(|bit| next_len >> bit & 1 == 1);
        set.fold(first, |crc, bit| self.product(self.powers[bit], crc)) ^ next
    }

    /// Multiplies two remainders, modulo the polynomial.
    const fn product(&self, one: u64, other: u64) -> u64 {
        let (mut product, mut shifted, mut power) = (0, other, 0);
        while power < self.width {
            let is_set = one >> (self.width - 1 - power) & 1;
            // Masks instead of branches: the bits are random, so half of all branches would be
            // mispredicted.
            product ^= shifted & is_set.wrapping_neg();
            shifted = shifted >> 1 ^ self.reflected & (shifted & 1).wrapping_neg();
            power += 1;
        }
        product
    }
}
