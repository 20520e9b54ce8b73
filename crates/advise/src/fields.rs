//! Reads TOML tables so that every error names the field and its line.
//!
//! A reader takes fields by name; [`Fields::finish`] then refuses each field that was not taken and
//! names the nearest known field. Fields may also come from options of a command line. Called by
//! the readers of workload files and models.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::units::{self, UnitError};

/// The place of a field in its source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum At {
    /// In a file: the line, from 1, and the field with the sections around it, `data.read`.
    Line(usize, String),
    /// On a command line: `--read`.
    Option(String),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line, field) if field.is_empty() => write!(f, "line {line}"),
            Self::Line(line, field) => write!(f, "line {line}: {field}"),
            Self::Option(name) => f.write_str(name),
        }
    }
}

/// A wrong field: its place and the mistake.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct FieldError {
    /// The place of the field.
    pub at: At,
    /// The mistake, and what to write instead.
    pub what: String,
}

/// A value of TOML. Dates are read as text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// In quotes, or a date.
    Text(String),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// In brackets.
    List(Vec<Field>),
    /// In braces, or a section.
    Table(Fields),
}

/// A field: its place and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name without the sections around it.
    pub name: String,
    /// The place of the field.
    pub at: At,
    /// Its value.
    pub value: Value,
}

/// The fields of a table that have not been taken yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    at: At,
    left: Vec<Field>,
    asked: Vec<String>,
}

impl Fields {
    /// Reads a TOML text.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let table = DeTable::parse(text).map_err(|error| FieldError {
            at: At::Line(error.span().map_or(1, |span| line_of(text, span.start)), String::new()),
            what: error.message().lines().next().unwrap_or("not TOML").to_owned(),
        })?;
        let start = At::Line(1, String::new());
        Self::of_table(text, start, "", table.get_ref())
    }

    /// Makes fields from options of a command line: `("data", "--data", "5 GB")`, by section.
    #[must_use]
    pub fn of_options(options: Vec<(String, String, Value)>) -> Self {
        let left =
            options.into_iter().map(|(name, option, value)| Field { name, at: At::Option(option), value });
        Self { at: At::Option("options".to_owned()), left: left.collect(), asked: Vec::new() }
    }

    fn of_table(text: &str, at: At, path: &str, table: &DeTable<'_>) -> Result<Self, FieldError> {
        let field = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            field_of(text, name, path, value)
        };
        Ok(Self { at, left: table.iter().map(field).collect::<Result<_, _>>()?, asked: Vec::new() })
    }

    /// Takes a field, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Field> {
        self.asked.push(name.to_owned());
        let index = self.left.iter().position(|field| field.name == name)?;
        Some(self.left.swap_remove(index))
    }

    /// Takes a field that must be there.
    ///
    /// # Errors
    /// It is missing.
    pub fn require(&mut self, name: &str) -> Result<Field, FieldError> {
        let what = format!("`{name}` is missing");
        let at = self.at.clone();
        self.take(name).ok_or(FieldError { at, what })
    }

    /// Takes a section. Returns an empty one if it is absent.
    ///
    /// # Errors
    /// The field is no section.
    pub fn section(&mut self, name: &str) -> Result<Self, FieldError> {
        match self.take(name) {
            Some(field) => field.table(),
            None => Ok(Self { at: self.at.clone(), left: Vec::new(), asked: Vec::new() }),
        }
    }

    /// All fields that are left, as a table with free names has them.
    pub fn rest(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.left)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// A field was never asked for: it is unknown.
    pub fn finish(mut self) -> Result<(), FieldError> {
        self.left.sort_by_key(|field| match &field.at {
            At::Line(line, _) => *line,
            At::Option(_) => 0,
        });
        let Some(unknown) = self.left.first() else { return Ok(()) };
        let hint = match nearest(&unknown.name, self.asked.iter().map(String::as_str)) {
            Some(near) => format!("unknown field; did you mean `{near}`?"),
            None => format!("unknown field; known here: {}", self.asked.join(", ")),
        };
        Err(unknown.error(hint))
    }
}

fn field_of(text: &str, name: &str, path: String, value: &Spanned<DeValue<'_>>) -> Result<Field, FieldError> {
    let at = At::Line(line_of(text, value.span().start), path.clone());
    let error = |what: &str| FieldError { at: at.clone(), what: what.to_owned() };
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix());
            Value::Number(whole.map_err(|_| error("not a number that fits"))? as f64)
        }
        DeValue::Float(number) => {
            let number: f64 = number.as_str().parse().map_err(|_| error("not a number"))?;
            Value::Number(Some(number).filter(|n| n.is_finite()).ok_or_else(|| error("not a finite number"))?)
        }
        DeValue::Array(items) => {
            let item = |(index, item)| field_of(text, name, format!("{path}[{index}]"), item);
            Value::List(items.iter().enumerate().map(item).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(Fields::of_table(text, at.clone(), &path, table)?),
    };
    Ok(Field { name: name.to_owned(), at, value })
}

/// The line of an offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

impl Field {
    /// An error at this field.
    #[must_use]
    pub fn error(&self, what: impl Into<String>) -> FieldError {
        FieldError { at: self.at.clone(), what: what.into() }
    }

    /// The text of the field.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self) -> Result<&str, FieldError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.error("write a text in quotes")),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&self) -> Result<bool, FieldError> {
        match self.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(self.error("write true or false")),
        }
    }

    /// A count: a number from `least` on, which has no unit.
    ///
    /// # Errors
    /// It is something else, or less.
    pub fn count(&self, least: f64) -> Result<f64, FieldError> {
        match self.value {
            Value::Number(number) if number >= least => Ok(number),
            Value::Number(number) => Err(self.error(format!("{number} is less than {least}"))),
            _ => Err(self.error("write a number without quotes")),
        }
    }

    /// The table of the field.
    ///
    /// # Errors
    /// It is something else.
    pub fn table(self) -> Result<Fields, FieldError> {
        match self.value {
            Value::Table(table) => Ok(table),
            _ => Err(FieldError { at: self.at, what: "write a section, with fields below it".to_owned() }),
        }
    }

    /// The items of the field.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(self) -> Result<Vec<Field>, FieldError> {
        match self.value {
            Value::List(items) => Ok(items),
            _ => Err(FieldError { at: self.at, what: "write a list in brackets".to_owned() }),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// It is no size with a unit.
    pub fn bytes(&self) -> Result<f64, FieldError> {
        self.quantity(|text| units::bytes(text).map(|size| size.0))
    }

    /// Seconds.
    ///
    /// # Errors
    /// It is no duration with a unit.
    pub fn seconds(&self) -> Result<f64, FieldError> {
        self.quantity(|text| units::seconds(text).map(|time| time.0))
    }

    /// Dollars per hour.
    ///
    /// # Errors
    /// It is no price of an hour.
    pub fn money_per_hour(&self) -> Result<f64, FieldError> {
        self.quantity(|text| units::money_per_hour(text).map(|money| money.0))
    }

    /// A number with a unit, by a function of [`units`].
    ///
    /// # Errors
    /// It is a number alone, or of another unit.
    pub fn quantity(&self, read: fn(&str) -> Result<f64, UnitError>) -> Result<f64, FieldError> {
        let text = match &self.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(self.error("write a number and its unit in quotes")),
        };
        read(&text).map_err(|error| self.error(error.to_string()))
    }

    /// One of some words.
    ///
    /// # Errors
    /// It is not one of them.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, FieldError> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.error(format!("`{text}` is not one of {}", known.join(", ")))
        })
    }
}

/// The known name that is most like `name`; `None` if none is near.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let best = known.map(|other| (distance(name, other), other)).min_by_key(|(distance, _)| *distance)?;
    (best.0 <= (name.chars().count() / 2).max(1)).then_some(best.1)
}

/// Edits between two words: insertions, deletions and replacements.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_line_and_field() {
        let mut fields = Fields::parse("[data]\n# note\nread = 5\nsiez = \"5 GB\"\n").unwrap();
        let mut data = fields.section("data").unwrap();
        let read = data.take("read").unwrap().bytes().unwrap_err();
        assert_eq!(read.to_string(), "line 3: data.read: `5` has no unit; write for example \"254 GiB\"");
        data.take("size");
        let unknown = data.finish().unwrap_err();
        assert_eq!(unknown.to_string(), "line 4: data.siez: unknown field; did you mean `size`?");
        assert!(fields.finish().is_ok());
    }

    #[test]
    fn text_that_is_no_toml_is_an_error_with_its_line() {
        let error = Fields::parse("a = 1\nb = = 2\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
        assert!(Fields::parse("a = nan").unwrap_err().to_string().contains("finite"));
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        assert_eq!(nearest("r6i.24xlrage", ["m5.large", "r6i.24xlarge"].into_iter()), Some("r6i.24xlarge"));
        assert_eq!(nearest("x", ["passes", "files"].into_iter()), None);
    }
}
