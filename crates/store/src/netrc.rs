//! Reads the users and passwords of web servers from `.netrc`, like curl
//! (<https://curl.se/docs/manpage.html#--netrc>, `lib/netrc.c` of curl 8).

use std::collections::VecDeque;
use std::path::Path;

/// The login for one machine. The entry `default` has the login for all other machines.
#[derive(Debug, Default, PartialEq, Eq)]
struct NetrcEntry {
    /// The host name; `None` for the entry `default`.
    machine: Option<String>,
    login: Option<String>,
    password: Option<String>,
}

/// The entries of the file, in order.
#[derive(Debug, Default)]
pub(crate) struct Netrc(Vec<NetrcEntry>);

impl Netrc {
    /// Reads the file. As in curl, an unreadable file counts as one without entries.
    pub(crate) fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut entries: Vec<NetrcEntry> = Vec::new();
        let mut words = words(text);
        while let Some(word) = words.pop_front() {
            match word.to_ascii_lowercase().as_str() {
                "machine" => {
                    entries.push(NetrcEntry { machine: words.pop_front(), ..NetrcEntry::default() });
                }
                "default" => entries.push(NetrcEntry::default()),
                "login" => set(&mut entries, words.pop_front(), |entry| &mut entry.login),
                "password" => set(&mut entries, words.pop_front(), |entry| &mut entry.password),
                "account" => drop(words.pop_front()),
                _ => {}
            }
        }
        Self(entries)
    }

    /// Returns the user and password for a host. If `user` is given, only an entry for this user
    /// applies.
    pub(crate) fn find(&self, host: &str, user: Option<&str>) -> Option<(String, String)> {
        self.0.iter().find_map(|entry| {
            let is_host = entry.machine.as_ref().is_none_or(|machine| machine.eq_ignore_ascii_case(host));
            let login = entry.login.as_deref().or(user).unwrap_or_default();
            let is_user = user.is_none_or(|user| user == login);
            let password = entry.password.clone().unwrap_or_default();
            (is_host && is_user && !(login.is_empty() && password.is_empty()))
                .then(|| (login.to_owned(), password))
        })
    }
}

fn set(entries: &mut [NetrcEntry], value: Option<String>, field: fn(&mut NetrcEntry) -> &mut Option<String>) {
    if let Some(entry) = entries.last_mut() {
        *field(entry) = value;
    }
}

/// Splits the file into words. Leaves out comments and macros. A quoted word may contain spaces and
/// the escapes `\"`, `\n`, `\r` and `\t`.
fn words(text: &str) -> VecDeque<String> {
    let mut words = VecDeque::new();
    let mut is_macro = false;
    for line in text.lines() {
        // A macro ends at an empty line.
        is_macro &= !line.trim().is_empty();
        let mut rest = line.trim_start();
        while !is_macro && !rest.is_empty() && !rest.starts_with('#') {
            let (word, behind) = match rest.strip_prefix('"') {
                Some(quoted) => unquoted(quoted),
                None => {
                    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                    (rest[..end].to_owned(), &rest[end..])
                }
            };
            is_macro = word == "macdef";
            if !is_macro {
                words.push_back(word);
            }
            rest = behind.trim_start();
        }
    }
    words
}

/// Returns a quoted word and the text after it. The opening quote has been consumed.
fn unquoted(text: &str) -> (String, &str) {
    let mut word = String::new();
    let mut symbols = text.char_indices();
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            '"' => return (word, &text[at + 1..]),
            '\\' => match symbols.next() {
                Some((_, 'n')) => word.push('\n'),
                Some((_, 'r')) => word.push('\r'),
                Some((_, 't')) => word.push('\t'),
                Some((_, other)) => word.push(other),
                None => {}
            },
            other => word.push(other),
        }
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_by_curl() {
        let text = "# comment\nmachine a.example login me password one account x\n\
                    machine b.example # comment\n  login \"two words\"\n  password \"q\\\"\\\\uote\"\n\
                    macdef init\nmachine c.example login no password no\n\n\
                    machine A.example login you password two\nodd default login anonymous password me@h";
        let netrc = Netrc::parse(text);
        let found = |host, user| netrc.find(host, user);
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(found("a.example", None), pair("me", "one"));
        assert_eq!(found("a.example", Some("you")), pair("you", "two"));
        assert_eq!(found("b.example", None), pair("two words", "q\"\\uote"));
        assert_eq!(found("c.example", None), pair("anonymous", "me@h"));
        assert_eq!(found("c.example", Some("me")), None);
        assert_eq!(Netrc::parse("machine h").find("h", None), None);
        assert_eq!(Netrc::parse("machine h password x").find("h", Some("u")), pair("u", "x"));
    }
}
