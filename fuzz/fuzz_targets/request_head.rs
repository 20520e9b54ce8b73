//! Request heads: whatever comes, parsing neither panics nor claims more bytes than there are.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(head)) = firstbyte_serve::parse_head(bytes) {
        assert!(head.length <= bytes.len());
        assert!(head.path.starts_with('/') || head.path == "*");
    }
});
