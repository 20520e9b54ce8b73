//! Shell patterns over names: in sources (`s3://b/*.gz`) and in `--include` and `--exclude`.
//!
//! `*` and `?` match anything but `/`, `**` matches `/` too, `[a-z]` and `[!a-z]` one of a set, and
//! `\` takes the next character as it is. Matching keeps the set of pattern positions reached so
//! far, so the time is bounded by pattern times name, whatever was written.

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `[...]`
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `*`
    Star,
    /// `**`
    StarStar,
    /// `**/`: any number of whole directories, none included.
    Directories,
}

impl Pattern {
    /// Parses a pattern; every string is one (an unclosed `[` stands for itself).
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (token, length) = match c {
                '*' if rest.starts_with("**/") => (Token::Directories, 3),
                '*' if rest.starts_with("**") => (Token::StarStar, 2),
                '*' => (Token::Star, 1),
                '?' => (Token::One, 1),
                '[' => set(rest).unwrap_or((Token::Char('['), 1)),
                '\\' => rest[1..]
                    .chars()
                    .next()
                    .map_or((Token::Char('\\'), 1), |c| (Token::Char(c), 1 + c.len_utf8())),
                _ => (Token::Char(c), c.len_utf8()),
            };
            tokens.push(token);
            rest = &rest[length..];
        }
        Self { tokens }
    }

    /// Whether it matches the whole of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.reached(name)[self.tokens.len()]
    }

    /// Whether a name below the directory `name` can match.
    #[must_use]
    pub fn may_match_below(&self, name: &str) -> bool {
        self.reached(&format!("{name}/"))[..self.tokens.len()].contains(&true)
    }

    /// What the part of a match begins with that stands behind its first `slashes` slashes, as far
    /// as that is certain.
    #[must_use]
    pub fn beginning(&self, slashes: usize) -> String {
        let mut parts = self.tokens.split(|token| *token == Token::Char('/'));
        let crosses = |token: &Token| matches!(token, Token::StarStar | Token::Directories);
        if parts.by_ref().take(slashes).flatten().any(crosses) {
            return String::new();
        }
        let literal = |token: &Token| if let Token::Char(c) = token { Some(*c) } else { None };
        parts.next().into_iter().flatten().map_while(literal).collect()
    }

    /// The positions in the pattern that can be reached by `name`.
    fn reached(&self, name: &str) -> Vec<bool> {
        let mut states = vec![false; self.tokens.len() + 1];
        states[0] = true;
        self.skip_empty(&mut states, true);
        for c in name.chars() {
            let mut next = vec![false; states.len()];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| states[*at]) {
                match token {
                    Token::StarStar | Token::Directories => next[at] = true,
                    Token::Star => next[at] |= c != '/',
                    Token::Char(wanted) => next[at + 1] |= c == *wanted,
                    Token::One => next[at + 1] |= c != '/',
                    Token::Set { negated, ranges } => {
                        let within = ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                        next[at + 1] |= c != '/' && within != *negated;
                    }
                }
            }
            self.skip_empty(&mut next, c == '/');
            states = next;
        }
        states
    }

    /// Whether it matches `name` or a directory that `name` lies in.
    #[must_use]
    pub fn matches_within(&self, name: &str) -> bool {
        let parents = name.match_indices('/').map(|(at, _)| &name[..at]);
        self.matches(name) || parents.into_iter().any(|parent| self.matches(parent))
    }

    /// Steps over the tokens that may match nothing; `boundary`: here a directory begins.
    fn skip_empty(&self, states: &mut [bool], boundary: bool) {
        for (at, token) in self.tokens.iter().enumerate() {
            let may_end = match token {
                Token::Star | Token::StarStar => true,
                Token::Directories => boundary,
                _ => false,
            };
            states[at + 1] |= states[at] && may_end;
        }
    }
}

/// Parses a `[...]` at the start of `text`.
fn set(text: &str) -> Option<(Token, usize)> {
    let inner = &text[1..];
    let (negated, body) = inner.strip_prefix(['!', '^']).map_or((false, inner), |body| (true, body));
    // A `]` right at the start is a member, as in every shell.
    let end = body.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(at, _)| at)?;
    let members: Vec<char> = body[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            ranges.push((members[at], members[at + 2]));
            at += 3;
        } else {
            ranges.push((members[at], members[at]));
            at += 1;
        }
    }
    Some((Token::Set { negated, ranges }, text.len() - body.len() + end + 1))
}

/// Splits a source into the part to list (up to the last `/` before the first wildcard) and the
/// pattern for the names below it. `None`: no wildcard in it.
pub(crate) fn split_glob(text: &str) -> Option<(&str, Pattern)> {
    let wildcard = text.find(['*', '?', '['])?;
    let cut = text[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    Some((&text[..cut], Pattern::new(&text[cut..])))
}

/// `--include` and `--exclude` in the order they were given: the last one that matches decides, and
/// what none matches is included. A pattern without `/` is matched against the last part of a name,
/// one with `/` against the whole name below the source; `dir/` stands for everything below `dir`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    verdict: Verdict,
    whole_name: bool,
    pattern: Pattern,
}

/// What a rule does with the names it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Takes them.
    Include,
    /// Leaves them.
    Exclude,
}

impl Filter {
    /// Adds a rule behind the others.
    pub fn push(&mut self, verdict: Verdict, text: &str) {
        let whole_name = text.contains('/');
        let mut text = text.trim_start_matches('/').to_owned();
        if text.ends_with('/') {
            text.push_str("**");
        }
        self.rules.push(Rule { verdict, whole_name, pattern: Pattern::new(&text) });
    }

    /// Whether `name`, relative to the source, is taken.
    #[must_use]
    pub fn takes(&self, name: &[u8]) -> bool {
        if self.rules.is_empty() {
            return true;
        }
        let name = String::from_utf8_lossy(name);
        let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(&name);
        let decisive = self
            .rules
            .iter()
            .rev()
            .find(|rule| rule.pattern.matches(if rule.whole_name { &name } else { last }));
        decisive.is_none_or(|rule| rule.verdict == Verdict::Include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_a_directory_and_two_stars_do_not() {
        for (pattern, yes, no) in [
            ("*.gz", "a.gz", "d/a.gz"),
            ("**.gz", "d/e/a.gz", "a.gzip"),
            ("a/**/b", "a/b", "ab"),
            ("a/**/b", "a/x/y/b", "a/xb"),
            ("**/b", "b", "cb"),
            ("[a-c]?[!0-9]", "bxy", "bx7"),
            ("\\*", "*", "x"),
            ("[]x]", "]", "y"),
            ("[", "[", "x"),
            ("ü?", "üé", "ü"),
        ] {
            assert!(Pattern::new(pattern).matches(yes), "{pattern} should match {yes}");
            assert!(!Pattern::new(pattern).matches(no), "{pattern} should not match {no}");
        }
    }

    #[test]
    fn the_examples_in_the_reference_of_patterns_are_true() {
        let rows =
            include_str!("../../../docs/patterns.md").lines().filter(|line| line.contains("` matches `"));
        let mut examples = 0;
        for example in rows.filter_map(|line| line.strip_prefix("| ")?.rsplit(" | ").next()) {
            let (_, pattern_and_names) = example.split_once('`').unwrap();
            let mut parts = pattern_and_names.split('`');
            let pattern = parts.next().unwrap();
            while let (Some(relation), Some(name)) = (parts.next(), parts.next()) {
                assert_eq!(
                    Pattern::new(pattern).matches(name),
                    !relation.contains("not"),
                    "{pattern} {name}"
                );
                examples += 1;
            }
        }
        assert!(examples > 20, "{examples} examples found");
    }

    #[test]
    fn a_directory_is_entered_if_a_name_below_it_can_match() {
        for (pattern, directory, may) in [
            ("2026-*/*.gz", "2026-01", true),
            ("2026-*/*.gz", "2025-01", false),
            ("2026-*/*.gz", "2026-01/deeper", false),
            ("a*", "ab", false),
            ("*/b/c", "x/b", true),
            ("*/b/c", "x/c", false),
            ("**/b", "any/where", true),
            ("a/**", "a/b", true),
            ("a/**", "b", false),
        ] {
            assert_eq!(Pattern::new(pattern).may_match_below(directory), may, "{pattern} below {directory}");
        }
    }

    #[test]
    fn what_names_begin_with_is_known_part_by_part_until_any_directories_may_come_between() {
        for (pattern, beginnings) in [
            ("2026-*/chr[12].gz", ["2026-", "chr", ""]),
            ("**/b", ["", "", ""]),
            ("a/**/b", ["a", "", ""]),
            ("\\*x/y?/z", ["*x", "y", "z"]),
            ("plain**", ["plain", "", ""]),
        ] {
            let pattern = Pattern::new(pattern);
            assert_eq!([0, 1, 2].map(|slashes| pattern.beginning(slashes)), beginnings, "{pattern:?}");
        }
    }

    #[test]
    fn a_malicious_pattern_takes_no_exponential_time() {
        assert!(!Pattern::new(&"*a".repeat(60)).matches(&"a".repeat(59)));
    }

    #[test]
    fn a_source_is_cut_before_its_first_wildcard() {
        let (base, pattern) = split_glob("s3://b/dir/2024-*/x.gz").unwrap();
        assert_eq!(base, "s3://b/dir/");
        assert!(pattern.matches("2024-05/x.gz"));
        assert_eq!(split_glob("*.gz").unwrap().0, "");
        assert!(split_glob("s3://b/plain").is_none());
    }

    #[test]
    fn the_last_matching_rule_decides() {
        let mut filter = Filter::default();
        assert!(filter.takes(b"anything"));
        filter.push(Verdict::Exclude, "*");
        filter.push(Verdict::Include, "*.gz");
        filter.push(Verdict::Exclude, "old/");
        assert!(filter.takes(b"new/a.gz"));
        assert!(!filter.takes(b"new/a.txt"));
        assert!(!filter.takes(b"old/deep/a.gz"));
    }
}
