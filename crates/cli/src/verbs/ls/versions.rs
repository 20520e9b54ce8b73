//! `ls --versions`: a row for each version of each object.

use firstbyte_store::{ListOptions, ObjectVersion, Store};

use super::remote::name_of;
use super::{Depth, KIND, MODIFIED, NAME, SIZE, View};
use crate::render::error::Result;
use crate::render::rows::{ColumnType, Printer, RowColumn, Schema, Value, time_of};

/// Columns of a version. The ids of AWS and MinIO have at most 36 characters.
pub(super) const SCHEMA: Schema = &[
    NAME,
    RowColumn { width: Some(0), ..KIND },
    RowColumn { width: Some(12), ..SIZE },
    RowColumn { width: Some(20), ..MODIFIED },
    RowColumn { name: "version_id", holds: ColumnType::Text, width: Some(36) },
    RowColumn { name: "state", holds: ColumnType::Text, width: Some(7) },
];

/// Lists one operand.
///
/// # Errors
/// The location is not in S3, cannot be listed, or does not exist.
pub(super) fn list(store: &Store, view: &View<'_>, printer: &Printer<'_>) -> Result<()> {
    let root = &view.operand.root;
    let recursive = view.depth != Depth::Levels(1);
    let options = ListOptions { recursive, ..ListOptions::default() };
    let mut page = printer.page();
    for version in store.list_versions(root, &options)? {
        let version = match version {
            Ok(version) => version,
            Err(error) => {
                view.failures.add(root.to_string(), error.into());
                continue;
            }
        };
        let entry = &version.entry;
        let name = name_of(b"", entry);
        if !view.takes(b"", &name) {
            continue;
        }
        let row = [
            Value::Name(&view.label, &name),
            Value::Kind(entry.kind),
            Value::Number(entry.size),
            Value::Time(entry.modified.and_then(time_of)),
            Value::Text(version.id.as_deref()),
            Value::Text(state(&version)),
        ];
        page.push(&row, entry.size.unwrap_or(0));
        if page.is_full() && !page.flush() {
            return Ok(());
        }
    }
    page.flush();
    view.check_matched()
}

/// Returns how a version affects reads without a version id. A read returns the `latest` version. A
/// delete marker that hides the object now is `deleted`; one that hid it before is a `marker`.
fn state(version: &ObjectVersion) -> Option<&'static str> {
    match (version.is_delete_marker, version.is_latest) {
        (true, true) => Some("deleted"),
        (true, false) => Some("marker"),
        (false, true) => Some("latest"),
        (false, false) => None,
    }
}
