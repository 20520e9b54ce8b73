//! Replaces placeholders such as `{name}` in the words of commands. A literal brace is written
//! twice.

use std::collections::BTreeMap;

/// Escapes the braces of `text`, so that filling returns it unchanged.
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// The values of placeholders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words(BTreeMap<String, String>);

impl Words {
    /// Sets a value, replacing an earlier one.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.insert(name.into(), value.to_string());
    }

    /// Returns `text` with every placeholder replaced. Values may contain placeholders themselves.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_within(text, 0)
    }

    /// Returns the words of a command with all placeholders replaced.
    pub(crate) fn fill_all(&self, words: &[String]) -> Result<Vec<String>, String> {
        words.iter().map(|word| self.fill(word)).collect()
    }

    fn fill_within(&self, text: &str, depth: u32) -> Result<String, String> {
        // Limits the depth, because values may refer to each other in a circle.
        if depth > 8 {
            return Err(format!("{text:?}: placeholders name each other"));
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                filled.push_str(brace);
                rest = after;
                continue;
            }
            let Some((name, after)) = rest.split_once('}').filter(|_| brace == "{") else {
                return Err(format!("{text:?}: a brace without its partner; write it twice to mean itself"));
            };
            let Some(value) = self.0.get(name) else {
                return Err(format!("{text:?}: {{{name}}} has no value; there are: {}", self.names()));
            };
            filled.push_str(&self.fill_within(value, depth + 1)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let mut words = Words::default();
        words.set("out", "/tmp/out");
        words.set("minio.url", "http://127.0.0.1:{minio.port}");
        words.set("minio.port", 9000);
        words
    }

    #[test]
    fn a_literal_text_keeps_its_braces() {
        let text = "/{out}/{}}{ {missing}";
        assert_eq!(words().fill(&literal(text)).unwrap(), text);
    }

    #[test]
    fn placeholders_are_replaced_also_within_values() {
        assert_eq!(words().fill("{minio.url}/b to {out}/").unwrap(), "http://127.0.0.1:9000/b to /tmp/out/");
    }

    #[test]
    fn doubled_braces_are_literal_ones() {
        assert_eq!(words().fill("{{\"a\": 1}}").unwrap(), "{\"a\": 1}");
    }

    #[test]
    fn unknown_names_and_lone_braces_are_errors() {
        for text in ["{nothing}", "{out", "out}", "{}"] {
            assert!(words().fill(text).is_err(), "{text}");
        }
        let mut circle = Words::default();
        circle.set("a", "{b}");
        circle.set("b", "{a}");
        assert!(circle.fill("{a}").is_err());
    }
}
