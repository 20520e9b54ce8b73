//! Matches patterns of names, as users write them. No pattern takes long. A pattern that matches a
//! name may match below each directory above it, and the name has the pattern's fixed beginning. A
//! name that ends in `/` is a directory, and has no name below itself.
#![no_main]

#[allow(dead_code, reason = "only matching is tested")]
#[path = "../../crates/firstbyte/src/pattern.rs"]
mod pattern;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, String)| {
    let (text, name) = input;
    if text.len() > 1_000 || name.len() > 1_000 {
        return;
    }
    let pattern = pattern::Pattern::new(&text);
    let matches = pattern.matches(&name);
    let _ = pattern.matches_within(&name);
    let _ = pattern.levels();
    if matches {
        for (at, _) in name.strip_suffix('/').unwrap_or(&name).match_indices('/') {
            assert!(pattern.may_match_below(&name[..at]), "{text:?} matches {name:?}, not below {:?}", &name[..at]);
        }
    }
    let beginning = pattern.beginning(name.matches('/').count());
    assert!(!matches || name.starts_with(&beginning), "{text:?} matches {name:?}, not from {beginning:?}");
});
