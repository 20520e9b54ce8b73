//! The accepted deviation from a cache state, one limit for `bring` and `verdict`.

/// Bytes by which a state may be missed: 1 %, at least 64 KiB, because the kernel keeps pages that
/// are mapped, dirty or part of a large folio, and protocols add headers. Below 640 KiB a tenth, so
/// that a small file that is wholly cached does not count as cold.
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
