//! Parses `Range` headers. An accepted range lies inside the file.
#![no_main]

use firstbyte_serve::{RangeAnswer, parse_range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &str)| {
    let (size, value) = input;
    if let RangeAnswer::Part(range) = parse_range(value, size) {
        assert!(range.start < range.end && range.end <= size, "{range} of {size}");
    }
});
