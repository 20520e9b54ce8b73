//! Compares receipts with golden files, for the fields that docs/stability.md promises.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use firstbyte::receipt::{FailedItem, Receipt, SCHEMA, VerifiedExtent};
use firstbyte::{Changed, ShardReceipt};
use firstbyte_store::{FailureKind, RequestCounts};
use serde_json::Value;

/// Returns a receipt with every field. No field takes a default, so none can be forgotten.
fn full_receipt() -> Receipt {
    Receipt {
        schema: SCHEMA,
        verb: Cow::Borrowed("cp"),
        source: "s3://bucket/a".into(),
        destination: Some("b".into()),
        objects: 1,
        bytes: 2,
        skipped: 3,
        deleted: Some(4),
        left_out: Some(5),
        differences: Some(6),
        seconds: 7.5,
        first_byte_seconds: Some(0.5),
        bytes_per_second: 0.25,
        requests: 8,
        requests_by_kind: Some(RequestCounts { get: 1, head: 2, list: 3, put: 4, delete: 5, other: 6 }),
        received_bytes: Some(15),
        sent_bytes: Some(16),
        usd: Some(0.5),
        predicted_seconds: Some(2.5),
        predicted_range: Some([1.5, 3.5]),
        retries: 9,
        hedged: 10,
        resumed_bytes: 11,
        reread_bytes: 12,
        verified: Some(VerifiedExtent::Full),
        version: Some("etag \"x\"".into()),
        peak_memory_bytes: 13,
        cpu_seconds: 0.125,
        failed: vec![FailedItem {
            location: "s3://bucket/a".into(),
            error: "s3://bucket/a: not found".into(),
            kind: FailureKind::NotFound,
            status: Some(404),
            request_id: Some("4442587FB7D0A2F9".into()),
            host_id: Some("vlR7PnpV".into()),
            attempts: Some(1),
            seconds: Some(0.5),
        }],
        bound_by: Some("link".into()),
        init_seconds: Some(0.5),
        remaining_seconds: Some(1.5),
        tmp_bytes: Some(14),
        shard: Some(ShardReceipt {
            manifest: "m".into(),
            index: 0,
            count: 2,
            objects: 3,
            done: "0-1".into(),
            changed: vec![Changed { location: "l".into(), expected: "e".into(), found: "f".into() }],
            firstbyte: "0.1.0".into(),
        }),
    }
}

/// Collects the types of all fields by their paths, such as `failed.0.kind`.
fn collect_types(value: &Value, path: &str, found: &mut BTreeMap<String, &'static str>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let kind = match value {
        Value::Object(fields) => {
            return fields.iter().for_each(|(name, inner)| collect_types(inner, &below(name), found));
        }
        Value::Array(items) => {
            return items
                .iter()
                .enumerate()
                .for_each(|(at, item)| collect_types(item, &below(&at.to_string()), found));
        }
        Value::String(_) => "text",
        Value::Number(number) if number.is_f64() => "fraction",
        Value::Number(_) => "whole number",
        Value::Bool(_) => "truth value",
        Value::Null => "nothing",
    };
    found.insert(path.to_owned(), kind);
}

fn golden(schema: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/receipt-{schema}.json"))
}

fn text(schema: u32) -> String {
    fs::read_to_string(golden(schema)).unwrap()
}

#[test]
fn a_receipt_has_the_fields_of_its_schema() {
    let (mut now, mut then) = (BTreeMap::new(), BTreeMap::new());
    collect_types(&serde_json::to_value(full_receipt()).unwrap(), "", &mut now);
    let kept: Value = serde_json::from_str(&text(SCHEMA)).unwrap();
    assert_eq!(kept["schema"], SCHEMA, "the number of the golden file");
    collect_types(&kept, "", &mut then);
    for (name, kind) in &then {
        assert_eq!(
            now.get(name),
            Some(kind),
            "`{name}` has gone or is of another type: raise SCHEMA in receipt.rs, write the next golden file, and say \
             so in docs/stability.md and CHANGELOG.md"
        );
    }
    for name in now.keys() {
        assert!(then.contains_key(name), "`{name}` is new: add it to {}", golden(SCHEMA).display());
    }
}

#[test]
fn receipts_of_every_schema_are_read() {
    for schema in 1..=SCHEMA {
        let read = Receipt::parse(&text(schema)).unwrap();
        assert_eq!((read.objects, read.failed.len(), read.schema), (1, 1, schema));
    }
    // A receipt from a time when receipts had no schema number and failures no kind.
    let old = r#"{"verb":"cp","source":"a","objects":1,"bytes":2,"skipped":0,"seconds":1.0,"bytes_per_second":2.0,
        "requests":0,"retries":0,"hedged":0,"resumed_bytes":0,"reread_bytes":0,"peak_memory_bytes":1,"cpu_seconds":0.1,
        "failed":[{"location":"a","error":"a: not found"}]}"#;
    let read = Receipt::parse(old).unwrap();
    assert_eq!((read.schema, read.failed[0].kind), (1, FailureKind::Failed));
    // A kind that a newer build has introduced counts as a general failure.
    let newer = old.replace("\"error\"", "\"kind\":\"eaten\",\"error\"");
    assert_eq!(Receipt::parse(&newer).unwrap().failed[0].kind, FailureKind::Failed);
}

#[test]
fn a_receipt_of_a_newer_schema_is_refused_by_its_number() {
    let newer = format!(r#"{{"schema":{},"objects":"many"}}"#, SCHEMA + 1);
    let why = Receipt::parse(&newer).unwrap_err().unwrap();
    assert!(why.contains(&format!("schema {}", SCHEMA + 1)), "{why}");
    assert_eq!(Receipt::parse("no receipt").unwrap_err(), None);
}

#[test]
fn every_field_and_the_number_are_documented() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let page = fs::read_to_string(format!("{root}/receipts.md")).unwrap();
    let value = serde_json::to_value(full_receipt()).unwrap();
    for name in value.as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{name}`")), "`{name}` is not in docs/receipts.md");
    }
    let promises = fs::read_to_string(format!("{root}/stability.md")).unwrap();
    assert!(
        promises.contains(&format!("| receipt | `schema` {SCHEMA} |")),
        "the number in docs/stability.md"
    );
}
