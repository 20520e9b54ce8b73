//! The deviation from a cache state that is accepted. `bring` and `verdict` share it, so that both
//! apply the same limit.

/// Bytes by which a state may be missed. The kernel keeps pages that are mapped, dirty or part of a
/// large folio, and protocols add heads, so 1 %, or 64 KiB where that is more. Of less than 640 KiB
/// a tenth, else a small file could be wholly cached and count as cold.
pub(super) fn tolerance(total: u64) -> u64 {
    const LEAST: u64 = 64 << 10;
    (total / 100).max(LEAST.min(total / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_can_be_cached_wholly_and_be_within_the_tolerance() {
        assert_eq!([0, 4096, 640 << 10, 1 << 30].map(tolerance), [0, 409, 64 << 10, (1 << 30) / 100]);
        assert!((1..1 << 24).step_by(777).all(|total| tolerance(total) < total));
    }
}
