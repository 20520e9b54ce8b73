//! Selects names of a tree with `--include` and `--exclude`. The command line and Python build a
//! filter; copies test each name with it.

use firstbyte_store::{NameTest, WalkBounds};

use crate::name_list::NameEnd;
use crate::pattern::Pattern;

/// The rules of `--include` and `--exclude`, in the order in which they were given. The last rule
/// that matches a name decides; a name that no rule matches is included. A pattern without `/` is
/// compared with the last component of a name. A pattern with `/` is compared with the whole name
/// below the source. `dir/` stands for everything below `dir`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    effect: RuleEffect,
    whole_name: bool,
    pattern: Pattern,
}

/// The effect of a rule on the names that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEffect {
    /// The names are included.
    Include,
    /// The names are excluded.
    Exclude,
}

/// Splits a list into patterns. In a list of lines, ignores comments (lines that begin with `#`)
/// and spaces at the end of lines.
pub fn patterns(list: &str, end: NameEnd) -> impl Iterator<Item = &str> {
    let (separator, lines) = match end {
        NameEnd::Line => ('\n', true),
        NameEnd::Zero => ('\0', false),
    };
    let patterns = list.split(separator).map(move |text| if lines { text.trim_end() } else { text });
    let is_comment = move |text: &str| lines && text.starts_with('#');
    patterns.filter(move |text| !text.is_empty() && !is_comment(text))
}

impl Filter {
    /// Adds a rule after all others.
    pub fn push(&mut self, effect: RuleEffect, text: &str) {
        let whole_name = text.contains('/');
        let mut text = text.trim_start_matches('/').to_owned();
        if text.ends_with('/') {
            text.push_str("**");
        }
        self.rules.push(Rule { effect, whole_name, pattern: Pattern::new(&text) });
    }

    /// Returns true if no pattern was given, so every name is included.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns true if `name`, which is relative to the source, is included.
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
        decisive.is_none_or(|rule| rule.effect == RuleEffect::Include)
    }
}

impl Filter {
    /// Returns false if no name below the directory `name`, relative to the source, is included.
    #[must_use]
    pub fn enters(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name);
        let decides = |rule: &&Rule| match (rule.effect, rule.whole_name) {
            (RuleEffect::Include, true) => rule.pattern.may_match_below(&name),
            (RuleEffect::Include, false) => true,
            (RuleEffect::Exclude, true) => rule.pattern.matches_all_below(&name),
            (RuleEffect::Exclude, false) => rule.pattern.matches_all_names(),
        };
        let decisive = self.rules.iter().rev().find(decides);
        decisive.is_none_or(|rule| rule.effect == RuleEffect::Include)
    }

    /// Returns the filter as bounds for listings of local directories.
    #[must_use]
    pub fn bounds(&self) -> WalkBounds {
        if self.is_empty() {
            return WalkBounds::default();
        }
        let (wanted, entered) = (self.clone(), self.clone());
        WalkBounds {
            wanted: Some(NameTest::new(move |name| wanted.takes(name))),
            entered: Some(NameTest::new(move |name| entered.enters(name))),
            ..WalkBounds::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_decides() {
        let mut filter = Filter::default();
        assert!(filter.takes(b"anything"));
        filter.push(RuleEffect::Exclude, "*");
        filter.push(RuleEffect::Include, "*.gz");
        filter.push(RuleEffect::Exclude, "{old,older}/");
        assert!(filter.takes(b"new/a.gz"));
        assert!(!filter.takes(b"new/a.txt"));
        assert!(!filter.takes(b"old/deep/a.gz") && !filter.takes(b"older/a.gz"));
    }

    #[test]
    fn a_directory_is_not_entered_if_all_names_below_it_are_excluded() {
        let mut filter = Filter::default();
        assert!(filter.enters(b"any"));
        for text in ["priv/", "{old,older}/**", "*.tmp", "bad", "a/*"] {
            filter.push(RuleEffect::Exclude, text);
        }
        for (name, entered) in [("priv", false), ("priv/deep", false), ("old", false), ("older/a", false)]
            .into_iter()
            .chain([("a", true), ("bad", true), ("x.tmp", true), ("private", true)])
        {
            assert_eq!(filter.enters(name.as_bytes()), entered, "{name}");
        }
        filter.push(RuleEffect::Include, "priv/keep/*");
        assert!(filter.enters(b"priv") && filter.enters(b"priv/keep") && !filter.enters(b"priv/other"));
        filter.push(RuleEffect::Exclude, "*");
        assert!(!filter.enters(b"a") && !filter.enters(b"priv"));
        filter.push(RuleEffect::Include, "*.gz");
        assert!(filter.enters(b"a"));
    }
}
