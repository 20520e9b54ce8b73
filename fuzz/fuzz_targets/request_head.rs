//! Parses request heads. Parsing does not panic, claims no more bytes than there are, and accepts
//! no line that could end elsewhere for another parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(head)) = firstbyte_serve::parse_head(bytes) {
        assert!(head.length <= bytes.len());
        assert!(head.path.starts_with('/') || head.path == "*");
        let taken = &bytes[..head.length];
        assert!(taken.ends_with(b"\r\n\r\n"));
        let feeds = taken.iter().filter(|byte| **byte == b'\n').count();
        let returns = taken.iter().filter(|byte| **byte == b'\r').count();
        let ends = taken.windows(2).filter(|pair| *pair == b"\r\n").count();
        assert_eq!((feeds, returns), (ends, ends));
        let lengths = head.headers.get_all("content-length").iter().count();
        let codings = head.headers.get_all("transfer-encoding").iter().count();
        assert!(lengths + codings <= 1);
    }
});
