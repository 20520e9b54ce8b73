//! Parses the event of an invocation from JSON.
//!
//! An unknown field is an error, because a misspelt `continue` would start a download again.

use firstbyte_location::{ByteRange, units};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{InvocationFailure, Result};

/// Fields that the events of all actions have.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct CommonFields {
    /// The S3 endpoint. `None`: the endpoint in the environment variables.
    pub(crate) endpoint_url: Option<String>,
    /// True if files that are made below the function's directory are kept after the answer.
    #[serde(default)]
    pub(crate) keep: bool,
    /// True if the event continues an earlier call.
    #[serde(skip)]
    pub(crate) continues: bool,
}

/// The action of an event, with its fields.
#[derive(Debug)]
pub(crate) enum EventAction {
    Download(DownloadAction),
    Open(OpenAction),
    CopyMany(CopyManyAction),
    List(ListAction),
    Mounted(MountedAction),
}

/// Copies one object to a file or another store.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadAction {
    pub(crate) source: String,
    pub(crate) destination: Option<String>,
    pub(crate) r#continue: Option<String>,
}

/// Opens an object and reads a part of it, without writing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenAction {
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) read: ReadRange,
    pub(crate) r#continue: Option<String>,
}

/// Copies all objects below a location.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyManyAction {
    pub(crate) source: String,
    pub(crate) destination: Option<String>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) r#continue: Option<String>,
}

/// Counts the objects below a location.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAction {
    pub(crate) source: String,
    pub(crate) r#continue: Option<String>,
}

/// Checks that a directory exists, and reads a file in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountedAction {
    pub(crate) directory: String,
    pub(crate) file: Option<String>,
    #[serde(default)]
    pub(crate) read: ReadRange,
    /// The required type of the file system, such as `nfs4`.
    pub(crate) filesystem: Option<String>,
}

/// The part of an object to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "ReadText")]
pub enum ReadRange {
    /// The whole object.
    #[default]
    All,
    /// A percentage of the object, from its start.
    Percent(f64),
    /// A number of bytes, from the start of the object.
    Bytes(u64),
    /// A range of the object.
    Range(ByteRange),
}

/// The two forms of `read` in JSON: a string or an object.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`read` is `all`, a share, a size, or an object of `offset` and `length`")]
enum ReadText {
    Text(String),
    Range { offset: u64, length: u64 },
}

impl TryFrom<ReadText> for ReadRange {
    type Error = String;

    fn try_from(text: ReadText) -> std::result::Result<Self, String> {
        match text {
            ReadText::Range { offset, length } => Ok(Self::Range(ByteRange::at(offset, length))),
            ReadText::Text(text) => Self::parse(&text),
        }
    }
}

impl ReadRange {
    /// Parses `all`, a share such as `1%`, or a size such as `180MB`.
    ///
    /// # Errors
    /// The reason why the text is not valid.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(number) = text.strip_suffix('%') {
            let share = number.trim().parse().ok().filter(|share| (0.0..=100.0).contains(share));
            return share.map(Self::Percent).ok_or_else(|| format!("`{text}` is no share from 0% to 100%"));
        }
        let size = units::parse_size(text).map(Self::Bytes);
        size.map_err(|_| format!("`{text}` is not `all`, a share such as `1%` or a size such as `180MB`"))
    }

    /// Returns the part as a byte range of an object of `size` bytes.
    ///
    /// # Errors
    /// The range begins past the end of the object.
    pub fn of(self, size: u64) -> Result<ByteRange> {
        let whole = ByteRange::new(0, size);
        match self {
            Self::All => Ok(whole),
            Self::Percent(percent) => Ok(ByteRange::new(0, percent_of(size, percent))),
            Self::Bytes(bytes) => Ok(ByteRange::new(0, bytes.min(size))),
            Self::Range(range) if range.start > 0 && range.start >= size => Err(InvocationFailure::event(
                format!("the range begins at byte {}, past the end: there are {size} bytes", range.start),
            )),
            Self::Range(range) => Ok(range.intersect(whole)),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of at most the whole; exact for objects below 8 PiB"
)]
fn percent_of(size: u64, percent: f64) -> u64 {
    ((size as f64 * percent / 100.0).ceil() as u64).min(size)
}

pub(crate) fn parse(event: Value) -> Result<(EventAction, CommonFields)> {
    let Value::Object(mut fields) = event else {
        return Err(InvocationFailure::event(
            "the event must be a JSON object; write {\"action\": ..., \"source\": ...}",
        ));
    };
    // Clients with typed events write null for a field that is not given.
    fields.retain(|_, value| !value.is_null());
    let action = fields.remove("action").unwrap_or_default();
    let action = action.as_str().unwrap_or_default();
    let mut common = Map::new();
    for name in ["endpoint_url", "keep"] {
        common.extend(fields.remove(name).map(|value| (name.to_owned(), value)));
    }
    let continues = fields.get("continue").is_some_and(|token| !token.is_null());
    let common = CommonFields { continues, ..read(action, common)? };
    let parsed = match action {
        "download" => EventAction::Download(read(action, fields)?),
        "open" => EventAction::Open(read(action, fields)?),
        "copy-many" => EventAction::CopyMany(read(action, fields)?),
        "list" => EventAction::List(read(action, fields)?),
        "mounted" => EventAction::Mounted(read(action, fields)?),
        "" => return Err(unknown("the event names no action".into())),
        other => return Err(unknown(format!("`{other}` is no action"))),
    };
    Ok((parsed, common))
}

fn unknown(why: String) -> InvocationFailure {
    InvocationFailure::event(format!("{why}; the actions are download, open, copy-many, list and mounted"))
}

fn read<T: for<'de> Deserialize<'de>>(action: &str, fields: Map<String, Value>) -> Result<T> {
    let parsed = serde_json::from_value(Value::Object(fields));
    parsed.map_err(|error| {
        InvocationFailure::event(format!(
            "the event of action `{action}`: {error}; see docs/reference/functions.md"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use firstbyte_store::FailureKind;

    #[test]
    fn a_read_range_has_four_forms() {
        let read = |value: Value| serde_json::from_value::<ReadRange>(value);
        let of = |value: Value, size: u64| read(value).unwrap().of(size).map_err(|failure| failure.message);
        assert_eq!(of(json!("all"), 1000), Ok(ByteRange::new(0, 1000)));
        assert_eq!(of(json!("1.5%"), 1000), Ok(ByteRange::new(0, 15)));
        assert_eq!(of(json!("0.01%"), 1000), Ok(ByteRange::new(0, 1)));
        assert_eq!(of(json!("2KB"), 1000), Ok(ByteRange::new(0, 1000)));
        assert_eq!(of(json!({"offset": 990, "length": 20}), 1000), Ok(ByteRange::new(990, 1000)));
        assert_eq!(of(json!({"offset": 0, "length": 20}), 0), Ok(ByteRange::new(0, 0)));
        let beyond = of(json!({"offset": 1000, "length": 20}), 1000).unwrap_err();
        assert!(beyond.contains("begins at byte 1000, past the end: there are 1000 bytes"), "{beyond}");
        for wrong in [json!("101%"), json!("some"), json!("-1%"), json!(7), json!({"offset": 1})] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_event_continues_a_call_only_with_a_token() {
        for (token, continues) in [(json!("x"), true), (Value::Null, false)] {
            let event = json!({"action": "download", "source": "s3://b/k", "continue": token});
            assert_eq!(parse(event).unwrap().1.continues, continues);
        }
    }

    #[test]
    fn a_field_that_is_null_is_not_given() {
        let event =
            json!({"action": "open", "source": "s3://b/k", "read": null, "keep": null, "endpoint_url": null});
        let (action, common) = parse(event).unwrap();
        assert!(matches!(action, EventAction::Open(OpenAction { read: ReadRange::All, .. })), "{action:?}");
        assert!(!common.keep && common.endpoint_url.is_none());
        assert!(
            parse(json!({"action": "open", "source": null})).unwrap_err().message.contains("missing field")
        );
    }

    #[test]
    fn an_unknown_event_is_refused_with_what_it_lacks() {
        for (event, part) in [
            (json!([]), "must be a JSON object"),
            (json!({}), "names no action"),
            (json!({"action": "upload"}), "`upload` is no action; the actions are download"),
            (json!({"action": "download"}), "missing field `source`"),
            (json!({"action": "open", "source": "s3://b/k", "raed": "all"}), "unknown field `raed`"),
            (json!({"action": "open", "source": "s3://b/k", "read": "most"}), "`most` is not `all`"),
            (json!({"action": "list", "source": "s3://b", "keep": "no"}), "expected a boolean"),
        ] {
            let failure = parse(event).unwrap_err();
            assert!(failure.kind == FailureKind::BadInput && failure.message.contains(part), "{failure}");
        }
    }
}
