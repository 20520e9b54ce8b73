//! Defines the tolerated deviation from a cache state, the same for `bring` and `verdict`.

/// Returns the tolerated deviation of a state in bytes: 1 % of the content, but at least 64 KiB.
/// The kernel keeps pages that are mapped, dirty or part of a large folio, and protocols add
/// headers. For less than 640 KiB, a tenth of the content, so that a wholly cached small file never
/// counts as cold.
pub(super) fn tolerance(total: u64) -> u64 {
    const LEAST: u64 = 64 << 10;
    (total / 100).max(LEAST.min(total / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wholly_cached_file_exceeds_the_tolerance() {
        assert_eq!([0, 4096, 640 << 10, 1 << 30].map(tolerance), [0, 409, 64 << 10, (1 << 30) / 100]);
        assert!((1..1 << 24).step_by(777).all(|total| tolerance(total) < total));
    }
}
