//! Parses directory pages of web servers. Each listed name lies directly below the page.
#![no_main]

#[allow(dead_code, reason = "only comparing is tested")]
#[path = "../../crates/store/src/origin.rs"]
mod origin;

#[path = "shims/page.rs"]
mod page;

use firstbyte_location::Location;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(Location::Http(url)) = Location::parse("http://host:81/a%20b/dir/".as_ref()) else {
        panic!("an address");
    };
    for name in page::names(&text, &url) {
        let inner = name.strip_suffix(b"/").unwrap_or(&name);
        assert!(!inner.is_empty() && inner != b"." && inner != b"..", "{name:?}");
        assert!(!inner.contains(&b'/'), "{name:?} leads elsewhere");
    }
});
