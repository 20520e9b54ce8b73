//! Chunked bodies, HTTP's own and `aws-chunked`: whatever comes, it is judged alike in whatever
//! pieces it arrives, and its end lies within what came.
#![no_main]

use firstbyte_serve::{ChunkDialect, decode_chunked};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    for dialect in [ChunkDialect::Http, ChunkDialect::Aws] {
        let whole = decode_chunked(dialect, bytes, usize::MAX).map_err(|error| error.kind());
        let cut = decode_chunked(dialect, bytes, usize::from(piece)).map_err(|error| error.kind());
        assert_eq!(whole, cut);
        let Ok(Some((content, length))) = whole else { continue };
        assert!(length <= bytes.len() && content.len() < length);
        // Bytes behind the end do not matter.
        let alone = decode_chunked(dialect, &bytes[..length], usize::MAX).map_err(|error| error.kind());
        assert_eq!(alone, Ok(Some((content, length))));
    }
});
