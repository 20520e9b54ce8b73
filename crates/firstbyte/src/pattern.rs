//! Matches shell patterns with names: in sources (`s3://b/*.gz`), and in `--include` and
//! `--exclude` ([`Filter`](crate::filter::Filter)).
//!
//! `*` matches any characters but `/`, `?` matches one such character, and `**` also matches `/`.
//! `[a-z]` matches one character of a set, and `[!a-z]` one that is not in the set; neither matches
//! `/`. `{a,b}` matches one of several alternatives, and `\` makes the next character an ordinary
//! one. Matching keeps the set of positions in the pattern that were reached so far, so the time is
//! at most proportional to the length of the pattern times the length of the name.

use std::collections::BTreeSet;

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
    /// `**/`: any number of directories, including none.
    Directories,
    /// The `{` of `{a,b}`: continues at each of these positions. Matches no character itself.
    Either(Vec<usize>),
    /// The end of an alternative: continues at this position, after the `}`. Matches no character
    /// itself.
    Behind(usize),
}

impl Pattern {
    /// Parses a pattern. Every string is a pattern: an unclosed `[` stands for itself, and so do
    /// braces without a partner or without a comma between them.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let braces = braces(text);
        let mut tokens = Vec::new();
        let mut open: Vec<Vec<usize>> = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (token, length) = match c {
                _ if braces.contains(&(text.len() - rest.len())) => {
                    add_alternation(c, &mut tokens, &mut open);
                    rest = &rest[1..];
                    continue;
                }
                '*' if rest.starts_with("**/") => (Token::Directories, 3),
                '*' if rest.starts_with("**") => (Token::StarStar, 2),
                '*' => (Token::Star, 1),
                '?' => (Token::One, 1),
                '[' => parse_set(rest).unwrap_or((Token::Char('['), 1)),
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

    /// Returns true if the pattern matches the whole `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.reachable_positions(name)[self.tokens.len()]
    }

    /// Returns true if the pattern can match a name below the directory `name`.
    #[must_use]
    pub fn may_match_below(&self, name: &str) -> bool {
        let reached = self.reachable_positions(&format!("{name}/"));
        let consumes = |token: &Token| !matches!(token, Token::Either(_) | Token::Behind(_));
        self.tokens.iter().zip(reached).any(|(token, reached)| reached && consumes(token))
    }

    /// Returns true if the pattern matches every name below the directory `name`.
    #[must_use]
    pub fn matches_all_below(&self, name: &str) -> bool {
        let reached = self.reachable_positions(&format!("{name}/"));
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.last() == Some(&Token::StarStar) && reached[last]
    }

    /// Returns true if the pattern matches every name without a `/`.
    #[must_use]
    pub fn matches_all_names(&self) -> bool {
        matches!(self.tokens[..], [Token::Star | Token::StarStar])
    }

    /// Returns the number of levels of directories that may contain a match. `None` if it is
    /// unlimited.
    #[must_use]
    pub fn levels(&self) -> Option<u32> {
        let mut levels = vec![0; self.tokens.len() + 1];
        levels[0] = 1;
        for (at, token) in self.tokens.iter().enumerate() {
            if matches!(token, Token::StarStar | Token::Directories) {
                return None;
            }
            let level = levels[at] + u32::from(*token == Token::Char('/'));
            token.following_positions(at).for_each(|next| levels[next] = level.max(levels[next]));
        }
        levels.pop()
    }

    /// Returns the text with which every match continues after its first `slashes` slashes, at most
    /// up to the next slash. It is empty if no text is certain.
    #[must_use]
    pub fn beginning(&self, slashes: usize) -> String {
        let mut states = BTreeSet::from([0]);
        for _ in 0..slashes {
            match self.behind_slash(states) {
                Some(behind) => states = behind,
                None => return String::new(),
            }
        }
        let mut beginning = String::new();
        while let Some(c) = self.only_character(&mut states).filter(|c| *c != '/') {
            beginning.push(c);
            states = states.into_iter().map(|at| at + 1).collect();
        }
        beginning
    }

    /// Returns the positions after the next `/`, starting from the positions `states`. Returns
    /// `None` if any number of directories may come before them.
    fn behind_slash(&self, mut states: BTreeSet<usize>) -> Option<BTreeSet<usize>> {
        let mut behind = BTreeSet::new();
        while let Some(at) = states.pop_first() {
            match self.tokens.get(at) {
                None => {}
                Some(Token::StarStar | Token::Directories) => return None,
                Some(Token::Char('/')) => _ = behind.insert(at + 1),
                Some(token) => states.extend(token.following_positions(at)),
            }
        }
        Some(behind)
    }

    /// Returns the only character that can come next from the positions `states`, and replaces
    /// these positions by those of the tokens that match it. Returns `None` if several characters,
    /// or none, can come next.
    fn only_character(&self, states: &mut BTreeSet<usize>) -> Option<char> {
        let mut found = BTreeSet::new();
        while let Some(at) = states.pop_first() {
            match self.tokens.get(at)? {
                token @ (Token::Either(_) | Token::Behind(_)) => states.extend(token.following_positions(at)),
                Token::Char(_) => _ = found.insert(at),
                _ => return None,
            }
        }
        *states = found;
        let mut characters = states.iter().map(|at| &self.tokens[*at]);
        let first = characters.next()?;
        let Token::Char(c) = first else { return None };
        characters.all(|other| other == first).then_some(*c)
    }

    /// Returns for each position in the pattern whether `name` can reach it.
    fn reachable_positions(&self, name: &str) -> Vec<bool> {
        let mut states = vec![false; self.tokens.len() + 1];
        states[0] = true;
        self.skip_empty(&mut states, true);
        for c in name.chars() {
            let mut next = vec![false; states.len()];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| states[*at]) {
                match token {
                    Token::StarStar | Token::Directories => next[at] = true,
                    Token::Star => next[at] |= c != '/',
                    Token::Either(_) | Token::Behind(_) => {}
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

    /// Returns true if the pattern matches `name` or a directory that contains `name`.
    #[must_use]
    pub fn matches_within(&self, name: &str) -> bool {
        let parents = name.match_indices('/').map(|(at, _)| &name[..at]);
        self.matches(name) || parents.into_iter().any(|parent| self.matches(parent))
    }

    /// Skips tokens that may match nothing. `boundary` is true at the start of a directory's name.
    fn skip_empty(&self, states: &mut [bool], boundary: bool) {
        for (at, token) in self.tokens.iter().enumerate() {
            let may_end = match token {
                Token::Star | Token::StarStar | Token::Either(_) | Token::Behind(_) => true,
                Token::Directories => boundary,
                _ => false,
            };
            if states[at] && may_end {
                token.following_positions(at).for_each(|next| states[next] = true);
            }
        }
    }
}

impl Token {
    /// Returns the positions that may follow this token, which is at position `at`. All of them are
    /// greater than `at`.
    fn following_positions(&self, at: usize) -> impl Iterator<Item = usize> {
        let (several, one) = match self {
            Self::Either(begins) => (begins.as_slice(), None),
            Self::Behind(end) => (&[][..], Some(*end)),
            _ => (&[][..], Some(at + 1)),
        };
        several.iter().copied().chain(one)
    }
}

/// Adds the brace or comma `c` of an alternation. For each alternation that is open, `open`
/// contains the positions of its tokens: one for the `{`, and one for each comma.
fn add_alternation(c: char, tokens: &mut Vec<Token>, open: &mut Vec<Vec<usize>>) {
    let at = tokens.len();
    match c {
        '{' => {
            open.push(vec![at]);
            tokens.push(Token::Either(Vec::new()));
        }
        ',' => {
            open.last_mut().into_iter().for_each(|opened| opened.push(at));
            tokens.push(Token::Behind(0));
        }
        _ => {
            let opened = open.pop().unwrap_or_default();
            for comma in &opened[1..] {
                tokens[*comma] = Token::Behind(at);
            }
            tokens[opened[0]] = Token::Either(opened.iter().map(|token| token + 1).collect());
        }
    }
}

/// Returns the offsets in `text` of the braces and commas that form alternations. Braces without a
/// partner, and pairs without a comma between them, are ordinary characters, as in bash.
fn braces(text: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    // For each open brace, the offsets of the brace and of its commas.
    let mut open: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let length = match c {
            '\\' => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            '[' => parse_set(&text[at..]).map_or(1, |(_, length)| length),
            _ => c.len_utf8(),
        };
        match c {
            '{' => open.push(vec![at]),
            ',' => open.last_mut().into_iter().for_each(|opened| opened.push(at)),
            '}' => {
                let opened = open.pop().filter(|opened| opened.len() > 1);
                found.extend(opened.into_iter().flat_map(|opened| opened.into_iter().chain([at])));
            }
            _ => {}
        }
        at += length;
    }
    found
}

/// Parses a `[...]` at the start of `text`. Returns the token and its length in bytes.
fn parse_set(text: &str) -> Option<(Token, usize)> {
    let inner = &text[1..];
    let (negated, body) = inner.strip_prefix(['!', '^']).map_or((false, inner), |body| (true, body));
    // A `]` directly at the start belongs to the set, as in every shell.
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

/// Splits a source into the part to list, which ends with the last `/` before the first wildcard,
/// and the pattern for the names below that part. Returns `None` if there is no wildcard.
pub(crate) fn split_glob(text: &str) -> Option<(&str, Pattern)> {
    let braces = [braces(text).first().copied(), text.find("\\{")];
    let wildcard = braces.into_iter().chain([text.find(['*', '?', '['])]).flatten().min()?;
    let cut = text[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    Some((&text[..cut], Pattern::new(&text[cut..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

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
            ("{a,b}.gz", "b.gz", "{a,b}.gz"),
            ("x{,.{gz,b?}}", "x.bz", "x."),
            ("{[,],x}a\\,", ",a,", "a,"),
            ("\\{a,b}", "{a,b}", "a"),
            ("{a\\,b,c\\}}", "c}", "a"),
            ("ü?", "üé", "ü"),
        ] {
            assert!(Pattern::new(pattern).matches(yes), "{pattern} should match {yes}");
            assert!(!Pattern::new(pattern).matches(no), "{pattern} should not match {no}");
        }
    }

    #[test]
    fn the_examples_in_the_reference_of_patterns_are_true() {
        let rows = include_str!("../../../docs/reference/patterns.md")
            .lines()
            .filter(|line| line.contains("` matches `"));
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
            ("{a/b,c}/d", "a", true),
            ("{a/b,c}/d", "c/b", false),
            ("{a/,b}", "a", false),
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
            ("{2025,2026-0[1-3]}/{aa,ab*}/c", ["202", "a", "c"]),
            ("{a/b,c}/bd", ["", "b", "bd"]),
            ("{a,**}/b", ["", "", ""]),
        ] {
            let pattern = Pattern::new(pattern);
            assert_eq!([0, 1, 2].map(|slashes| pattern.beginning(slashes)), beginnings, "{pattern:?}");
        }
    }

    proptest! {
        #[test]
        fn braces_match_what_the_patterns_written_out_match(
            pieces in vec(select(&["a", "b", "/", "?", "[ab,]", "a*b", "b**a", "/**/", "\\{", "\\,", "{", "{", ",", ",", "}", "}"]), 0..16),
            names in vec("[ab/{},]{0,7}", 8),
        ) {
            let text = pieces.concat();
            let (pattern, written_out) = (Pattern::new(&text), written_out(&text));
            let written_out: Vec<_> = written_out.iter().map(|text| Pattern::new(text)).collect();
            let any = |holds: &dyn Fn(&Pattern) -> bool| written_out.iter().any(holds);
            for name in &names {
                prop_assert_eq!(pattern.matches(name), any(&|one| one.matches(name)), "{} {}", &text, name);
                let below = any(&|one| one.may_match_below(name));
                prop_assert_eq!(pattern.may_match_below(name), below, "{} below {}", &text, name);
            }
            let levels = written_out.iter().map(Pattern::levels).max_by_key(|levels| levels.unwrap_or(u32::MAX));
            prop_assert_eq!(Some(pattern.levels()), levels, "{}", &text);
            for slashes in 0..3 {
                let beginning = pattern.beginning(slashes);
                let begins = |one: &Pattern| slashes as u32 >= one.levels().unwrap_or(0)
                    || one.beginning(slashes).starts_with(&beginning);
                prop_assert!(written_out.iter().all(begins), "{} {} {}", &text, slashes, beginning);
            }
        }
    }

    /// Expands a pattern into patterns without braces. While there are braces, replaces the first
    /// pair with a comma of its own by each of its alternatives.
    fn written_out(text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        // Marks characters that stand for themselves, because they are after a backslash or in a
        // set.
        let mut plain = vec![false; chars.len()];
        let (mut at, mut in_set) = (0, false);
        while at < chars.len() {
            in_set = (in_set && chars[at] != ']') || chars[at] == '[';
            plain[at] = in_set || chars[at] == '\\';
            if chars[at] == '\\' && at + 1 < chars.len() {
                at += 1;
                plain[at] = true;
            }
            at += 1;
        }
        for start in (0..chars.len()).filter(|at| chars[*at] == '{' && !plain[*at]) {
            let (mut depth, mut cuts) = (0, vec![start]);
            for at in (start..chars.len()).filter(|at| !plain[*at]) {
                depth += i32::from(chars[at] == '{') - i32::from(chars[at] == '}');
                if (depth == 1 && chars[at] == ',') || (depth == 0 && chars[at] == '}') {
                    cuts.push(at);
                }
                if depth == 0 {
                    break;
                }
            }
            let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
            if depth == 0 && cuts.len() > 2 {
                let alternatives = cuts.windows(2).map(|cut| part(cut[0] + 1, cut[1]));
                let (before, behind) = (part(0, start), part(cuts[cuts.len() - 1] + 1, chars.len()));
                return alternatives
                    .flat_map(|alternative| written_out(&format!("{before}{alternative}{behind}")))
                    .collect();
            }
        }
        vec![text.to_owned()]
    }

    #[test]
    fn a_malicious_pattern_takes_no_exponential_time() {
        assert!(!Pattern::new(&"*a".repeat(60)).matches(&"a".repeat(59)));
        assert!(!Pattern::new(&"{a,a}".repeat(60)).matches(&"a".repeat(59)));
        let nested = format!("{}{}", "{a,".repeat(5_000), "}".repeat(5_000));
        assert!(Pattern::new(&nested).matches("a") && !Pattern::new(&nested).matches("b"));
    }

    #[test]
    fn a_source_is_cut_before_its_first_wildcard() {
        let (base, pattern) = split_glob("s3://b/dir/2024-*/x.gz").unwrap();
        assert_eq!(base, "s3://b/dir/");
        assert!(pattern.matches("2024-05/x.gz"));
        assert_eq!(split_glob("*.gz").unwrap().0, "");
        assert!(split_glob("s3://b/plain").is_none());
        assert_eq!(split_glob("s3://b/{x}/d{1,2}/a*").unwrap().0, "s3://b/{x}/");
        assert!(split_glob("s3://b/{x}/{y").is_none());
        assert!(split_glob("s3://b/\\{x,y}").unwrap().1.matches("{x,y}"));
    }
}
