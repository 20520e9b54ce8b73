//! Includes the parser of links in HTML pages.

#[allow(dead_code, reason = "only the names are tested")]
#[path = "../../../crates/store/src/http/page.rs"]
mod links;

/// Returns the names that a page lists.
pub fn names(text: &str, url: &firstbyte_location::HttpUrl) -> Vec<Vec<u8>> {
    links::LinkPage::parse(text, url).entries.into_iter().map(|entry| entry.name).collect()
}
