//! Decodes chunked bodies, HTTP's own and `aws-chunked`. The result does not depend on the pieces
//! in which the bytes arrive, and the end of a body lies within the bytes that arrived.
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
        // Bytes after the end do not change the result.
        let alone = decode_chunked(dialect, &bytes[..length], usize::MAX).map_err(|error| error.kind());
        assert_eq!(alone, Ok(Some((content, length))));
    }
});
