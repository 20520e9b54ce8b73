//! States where an error in a TOML file is, by line and field: `line 3: data.read: ...`. An error
//! about an unknown field names the nearest known field. Called by the readers of models and
//! workloads.

use crate::nearest::nearest;

/// A mistake in a file, or in command-line options that are parsed like a file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{what}", place(*.line, .field))]
pub struct FileError {
    /// Line number, from 1; 0 if the mistake belongs to no line.
    pub line: usize,
    /// The field and its section, such as `data.read`; empty if the text is not TOML.
    pub field: String,
    /// The mistake, and the correct form.
    pub what: String,
}

fn place(line: usize, field: &str) -> String {
    match (line, field.is_empty()) {
        (0, true) => String::new(),
        (0, false) => format!("{field}: "),
        (line, true) => format!("line {line}: "),
        (line, false) => format!("line {line}: {field}: "),
    }
}

impl FileError {
    /// Makes an error about `field` in `text`. The line is that of the field.
    #[must_use]
    pub fn at(text: &str, field: &str, what: impl Into<String>) -> Self {
        Self { line: line_of(text, field).unwrap_or(0), field: field.to_owned(), what: what.into() }
    }

    /// Converts an error of the TOML parser.
    pub(crate) fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().lines().next().unwrap_or("not TOML");
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text[..start].matches('\n').count();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let what = match (message.split_once(' ').map(|(first, _)| first), quoted.split_first()) {
            (Some("unknown"), Some((name, known))) if message.starts_with("unknown field") => {
                match nearest(name, known.iter().copied()).first() {
                    Some(near) => format!("unknown field; similar: {near}"),
                    None => format!("unknown field; known here: {}", known.join(", ")),
                }
            }
            (Some("missing"), Some((name, _))) => format!("`{name}` is missing"),
            _ => message.to_owned(),
        };
        let field = if what.ends_with("is missing") { String::new() } else { field_of(text, line) };
        Self { line, field, what }
    }
}

/// Returns the field that a line sets, with its section.
fn field_of(text: &str, line: usize) -> String {
    let mut section = "";
    for (number, content) in text.lines().enumerate() {
        let content = content.trim();
        if let Some(name) = content.strip_prefix('[') {
            section = name.trim_start_matches('[').split(']').next().unwrap_or("").trim();
        }
        if number + 1 == line {
            let key = content.split_once('=').map_or("", |(key, _)| key.trim().trim_matches('"'));
            return [section, key].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
        }
    }
    String::new()
}

/// Finds the line that sets a field, counted from 1.
fn line_of(text: &str, field: &str) -> Option<usize> {
    (1..=text.lines().count()).find(|line| field_of(text, *line) == field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_line_and_field() {
        let text = "a = 1\n[data]\n# note\nsize = \"5\"\n";
        let error = FileError::at(text, "data.size", "no unit");
        assert_eq!(error.to_string(), "line 4: data.size: no unit");
        assert_eq!(FileError::at(text, "data.read", "missing").to_string(), "data.read: missing");
        let broken = toml::from_str::<toml::Table>("a = 1\nb = = 2\n").unwrap_err();
        assert!(FileError::of_toml("a = 1\nb = = 2\n", &broken).to_string().starts_with("line 2: b: "));
    }
}
