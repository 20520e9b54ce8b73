//! Encodes rows as bytes: until they are sorted, or until a Parquet row group is full. Called by
//! the printer, the sorter, the sums and the Parquet writer.
//!
//! A record consists of its length and then each value, as a tag and its content, in native byte
//! order. Records do not leave the process, except for temporary files that only this process
//! opens.

use firstbyte_listing::Time;
use firstbyte_location::EntryKind;

use super::{Schema, Value};

/// Length in bytes of a record's length field.
pub(super) const LENGTH_FIELD_BYTES: usize = 4;

/// Writes a row as a record.
pub(super) fn push(row: &[Value<'_>], out: &mut Vec<u8>) {
    let head = out.len();
    out.extend_from_slice(&[0; LENGTH_FIELD_BYTES]);
    for value in row {
        match *value {
            Value::Name(directory, name) => push_bytes(&[directory, name], out),
            Value::Kind(kind) => out.push(kind as u8),
            Value::Number(number) => {
                out.push(u8::from(number.is_some()));
                out.extend_from_slice(&number.unwrap_or_default().to_ne_bytes());
            }
            Value::Time(time) => {
                out.push(u8::from(time.is_some()));
                let time = time.unwrap_or_default();
                out.extend_from_slice(&time.seconds.to_ne_bytes());
                out.extend_from_slice(&time.nanoseconds.to_ne_bytes());
            }
            Value::Text(text) => {
                out.push(u8::from(text.is_some()));
                push_bytes(&[text.unwrap_or_default().as_bytes()], out);
            }
        }
    }
    let length = (out.len() - head - LENGTH_FIELD_BYTES) as u32;
    out[head..head + LENGTH_FIELD_BYTES].copy_from_slice(&length.to_ne_bytes());
}

fn push_bytes(parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&(length as u32).to_ne_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Iterates over the records in `bytes`, without their length fields.
pub(super) fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<LENGTH_FIELD_BYTES>()?;
        let (record, rest) = rest.split_at_checked(u32::from_ne_bytes(*head) as usize)?;
        bytes = rest;
        Some(record)
    })
}

/// Iterates over the values of a record, in the order of `schema`. Ends early only if the record is
/// incomplete, which does not happen.
pub(super) fn values(schema: Schema, record: &[u8]) -> impl Iterator<Item = Value<'_>> {
    let mut rest = RecordRest(record);
    schema.iter().map_while(move |column| rest.value(column.holds))
}

struct RecordRest<'a>(&'a [u8]);

impl<'a> RecordRest<'a> {
    fn value(&mut self, holds: super::ColumnType) -> Option<Value<'a>> {
        use super::ColumnType;
        Some(match holds {
            ColumnType::Name => Value::Name(b"", self.bytes()?),
            ColumnType::Kind => Value::Kind(match self.array()? {
                [0] => EntryKind::File,
                [1] => EntryKind::Directory,
                [2] => EntryKind::Symlink,
                _ => EntryKind::Other,
            }),
            ColumnType::Number | ColumnType::Size => {
                let there = self.array()? == [1];
                Value::Number(Some(u64::from_ne_bytes(self.array()?)).filter(|_| there))
            }
            ColumnType::Time => {
                let there = self.array()? == [1];
                let seconds = i64::from_ne_bytes(self.array()?);
                let time = Time { seconds, nanoseconds: u32::from_ne_bytes(self.array()?) };
                Value::Time(Some(time).filter(|_| there))
            }
            ColumnType::Text => {
                let there = self.array()? == [1];
                let text = std::str::from_utf8(self.bytes()?).ok();
                Value::Text(text.filter(|_| there))
            }
        })
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_ne_bytes(self.array()?) as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::rows::{ColumnType, RowColumn};

    const SCHEMA: Schema = &[
        RowColumn { name: "name", holds: ColumnType::Name, width: None },
        RowColumn { name: "kind", holds: ColumnType::Kind, width: None },
        RowColumn { name: "size", holds: ColumnType::Number, width: None },
        RowColumn { name: "modified", holds: ColumnType::Time, width: None },
        RowColumn { name: "etag", holds: ColumnType::Text, width: None },
    ];

    #[test]
    fn records_are_read_back_as_written() {
        let time = Time { seconds: -5, nanoseconds: 7 };
        let mut bytes = Vec::new();
        for kind in [EntryKind::File, EntryKind::Directory, EntryKind::Symlink, EntryKind::Other] {
            push(
                &[
                    Value::Name(b"d/", b"\xff"),
                    Value::Kind(kind),
                    Value::Number(Some(u64::MAX)),
                    Value::Time(Some(time)),
                    Value::Text(Some("e")),
                ],
                &mut bytes,
            );
            push(
                &[
                    Value::Name(b"", b""),
                    Value::Kind(kind),
                    Value::Number(None),
                    Value::Time(None),
                    Value::Text(None),
                ],
                &mut bytes,
            );
        }
        let rows: Vec<Vec<Value<'_>>> =
            records(&bytes).map(|record| values(SCHEMA, record).collect()).collect();
        assert_eq!(rows.len(), 8);
        assert_eq!(
            rows[2],
            [
                Value::Name(b"", b"d/\xff"),
                Value::Kind(EntryKind::Directory),
                Value::Number(Some(u64::MAX)),
                Value::Time(Some(time)),
                Value::Text(Some("e"))
            ]
        );
        assert_eq!(
            rows[7],
            [
                Value::Name(b"", b""),
                Value::Kind(EntryKind::Other),
                Value::Number(None),
                Value::Time(None),
                Value::Text(None)
            ]
        );
    }
}
