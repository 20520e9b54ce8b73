//! Parses the links of an HTML directory page, for [`listing`](super::listing).
//!
//! Absolute and relative links are resolved as in a browser, against the page's URL or its
//! `<base>`. A name is listed if its link leads one level below the page, on the same server.

use std::collections::HashMap;

use firstbyte_location::{Entry, EntryKind, HttpUrl};
use html5gum::{DefaultEmitter, Token, Tokenizer};
use percent_encoding::percent_decode_str;

use crate::origin::Origin;

/// Beginnings of the titles of directory pages: the first is used by nginx, Apache and lighttpd,
/// the second by Python.
const DIRECTORY_TITLES: [&str; 2] = ["index of", "directory listing"];

/// The links of a page.
#[derive(Debug, Default)]
pub(super) struct LinkPage {
    /// The linked names. A link without a final slash is listed as a file.
    pub(super) entries: Vec<Entry>,
    /// True if the page is recognised as a directory page: by its title, or by a link to the parent
    /// or to the directory itself, such as a link that changes the sort order.
    pub(super) is_directory: bool,
}

impl LinkPage {
    /// Returns true if the page lists no names.
    pub(super) fn lists_no_names(&self) -> bool {
        self.entries.is_empty()
    }

    /// Parses the links of a page. `url` is the page's URL after redirects.
    pub(super) fn parse(text: &str, url: &HttpUrl) -> Self {
        let directory = directory_of(path_of(&url.target));
        let (mut page, mut base, mut places) = (Self::default(), url.target.clone(), HashMap::new());
        let mut in_title = false;
        let mut emitter = DefaultEmitter::default();
        // Skips the content of scripts, which has no links.
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(text, emitter).flatten() {
            match token {
                Token::StartTag(tag) => {
                    in_title = tag.name.as_slice() == b"title";
                    let href = tag.attributes.get(&b"href"[..]);
                    let Some(href) = href.and_then(|href| std::str::from_utf8(href).ok()) else { continue };
                    match tag.name.as_slice() {
                        b"base" => base = target(url, &base, href).unwrap_or(base),
                        b"a" => page.add_link(target(url, &base, href).as_deref(), directory, &mut places),
                        _ => {}
                    }
                }
                Token::String(text) if in_title => {
                    let text = text.trim_ascii_start().to_ascii_lowercase();
                    page.is_directory |=
                        DIRECTORY_TITLES.iter().any(|title| text.starts_with(title.as_bytes()));
                }
                Token::EndTag(_) => in_title = false,
                _ => {}
            }
        }
        page
    }

    /// Adds an entry for the path of a link, if the path is directly in the directory.
    fn add_link(&mut self, path: Option<&str>, directory: &str, places: &mut HashMap<Vec<u8>, usize>) {
        let Some(path) = path else { return };
        let decoded = |path: &str| percent_decode_str(path).collect::<Vec<u8>>();
        let without_slash = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let above = directory_of(directory.strip_suffix('/').unwrap_or(directory));
        let here = without_slash(&decoded(path));
        if here == without_slash(&decoded(directory)) || here == without_slash(&decoded(above)) {
            self.is_directory = true;
            return;
        }
        let Some(name) = below(path, directory) else { return };
        let (name, kind) = match name.strip_suffix('/') {
            Some(name) => (name, EntryKind::Directory),
            None => (name, EntryKind::File),
        };
        if name.is_empty() || name.contains('/') {
            return;
        }
        let name = decoded(name);
        // An encoded dot or slash would lead elsewhere, as a browser resolves it.
        if matches!(name.as_slice(), b"." | b"..") || name.contains(&b'/') {
            return;
        }
        match places.get(&name) {
            Some(place) if kind == EntryKind::Directory => self.entries[*place].kind = kind,
            Some(_) => {}
            None => {
                places.insert(name.clone(), self.entries.len());
                self.entries.push(Entry::named(name, kind));
            }
        }
    }
}

/// Returns the part of a target before its query or fragment.
fn path_of(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// Returns a path up to its last slash.
fn directory_of(path: &str) -> &str {
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

/// Returns the rest of a path after a directory, or `None` if the path is not below that directory.
/// Compares decoded components, because the two paths may be percent-encoded differently.
fn below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let mut rest = path;
    for part in directory.split_inclusive('/') {
        let end = rest.find('/')? + 1;
        if !percent_decode_str(&rest[..end]).eq(percent_decode_str(part)) {
            return None;
        }
        rest = &rest[end..];
    }
    Some(rest)
}

/// Returns the path of a link's target, or `None` if the target is on another server. A relative
/// link is resolved against `base`.
fn target(page: &HttpUrl, base: &str, link: &str) -> Option<String> {
    let link: String = link.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let link = link.trim_matches(|c: char| c <= ' ');
    let (scheme, rest) = match link.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme.to_ascii_lowercase()), rest),
        _ => (None, link),
    };
    let tls = match scheme.as_deref() {
        None => page.tls,
        Some("http") => false,
        Some("https") => true,
        Some(_) => return None,
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let host =
                |tls, authority: &str| Origin::parse(tls, authority.rsplit('@').next().unwrap_or_default());
            if host(tls, authority)? != host(page.tls, &page.authority)? {
                return None;
            }
            if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
        }
        None if scheme.is_some() => return None,
        None if rest.starts_with('/') => rest.to_owned(),
        // The link leads to the page itself, with another sort order.
        None if rest.starts_with('?') => path_of(base).to_owned(),
        None if path_of(rest).is_empty() => return None,
        None => format!("{}{rest}", directory_of(path_of(base))),
    };
    Some(resolve_dots(path_of(&path)))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn resolve_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for part in path.split('/').skip(1) {
        is_directory = matches!(part, "" | "." | "..");
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut whole = format!("/{}", parts.join("/"));
    if is_directory && !whole.ends_with('/') {
        whole.push('/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_location::Location;

    fn page(url: &str, text: &str) -> LinkPage {
        match Location::parse(url.as_ref()).unwrap() {
            Location::Http(url) => LinkPage::parse(text, &url),
            other => panic!("{other}"),
        }
    }

    fn names(url: &str, text: &str) -> Vec<String> {
        let name = |entry: Entry| {
            let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
            format!("{}{slash}", String::from_utf8(entry.name).unwrap())
        };
        page(url, text).entries.into_iter().map(name).collect()
    }

    #[test]
    fn a_link_is_found_however_it_is_written() {
        for link in [
            "<A HREF=\"a.txt\">a</A>",
            "<a href=a.txt>a</a>",
            "<a href = 'a.txt'>a</a>",
            "<a class=x\nhref=\"./a.txt\" title='b.txt'>a</a>",
            "<a href=\" a.txt \">a</a>",
            "<a href=\"http://h:80/d/a.txt\">a</a>",
            "<a href=\"HTTP://H/d/a.txt\">a</a>",
            "<a href=\"//h/d/a.txt\">a</a>",
            "<a href=\"/d/a.txt\">a</a>",
            "<a href=\"/%64/a%2Etxt\">a</a>",
            "<a href=\"../d/./a.txt\">a</a>",
            "<a href=\"a&#46;txt#top\">a</a>",
            "<base href=\"/d/\"><a href=\"a.txt\">a</a>",
            "<base href=\"/\"><a href=\"d/a.txt\">a</a>",
            "<!-- <a href=\"no\"> --><a href=\"a.txt\"><script>'<a href=\"no\">'</script>",
        ] {
            assert_eq!(names("http://h/d/", link), ["a.txt"], "{link}");
        }
    }

    #[test]
    fn links_that_lead_elsewhere_are_not_listed() {
        for link in [
            "<a href=\"https://h/d/a\">",
            "<a href=\"http://h:81/d/a\">",
            "<a href=\"//other/d/a\">",
            "<a href=\"/a\">",
            "<a href=\"/dd/a\">",
            "<a href=\"a/b\">",
            "<a href=\"..\">",
            "<a href=\"%2e%2e/\">",
            "<a href=\"%2e/\">",
            "<a href=\"a%2fb\">",
            "<a href=\"mailto:a\">",
            "<a href=\"javascript:a()\">",
            "<a href=\"#a\">",
            "<a href=\"?C=N;O=D\">",
            "<a href=\"\">",
            "<a>",
            "<link href=\"a.css\">",
            "<img src=\"a\">",
            "href=\"a\"",
            "<a href=\"http:a\">",
        ] {
            assert_eq!(names("http://h/d/", link), [""; 0], "{link}");
        }
    }

    #[test]
    fn directories_are_marked_by_a_slash_and_names_are_decoded_and_listed_once() {
        let text = "<a href=\"sub/\">sub</a><a href=\"sub\">icon</a><a href=\"x\">x</a><a href=\"x/\">x</a>\
            <a href='q&amp;r'>q</a><a href=\"a%20b?download\">a b</a>";
        assert_eq!(names("http://h/d/?C=M", text), ["sub/", "x/", "q&r", "a b"]);
    }

    #[test]
    fn a_directory_page_is_recognised_without_a_name_on_it() {
        for text in [
            "<title>Index of /d/</title>",
            "<TITLE>\n Directory listing for /d/</TITLE>",
            "<a href=\"../\">up</a>",
            "<a href=\"/\">Parent Directory</a>",
            "<a href=\"?C=N;O=D\">Name</a>",
            "<a href=\"..\">up</a>",
        ] {
            let page = page("http://h/d/", text);
            assert!(page.is_directory && page.lists_no_names(), "{text}");
        }
        let page = page("http://h/d/", "<title>Welcome</title><h1>Index of</h1><a href=\"https://o/\">o</a>");
        assert!(!page.is_directory && page.lists_no_names());
    }
}
