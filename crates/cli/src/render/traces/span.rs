//! Spans and their OTLP JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>).

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// Kind of a span, with its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// Work within this process.
    Internal = 1,
    /// A request to a server.
    Client = 3,
}

/// A completed span.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) began: SystemTime,
    pub(super) ended: SystemTime,
    pub(super) attributes: Map<String, Value>,
    /// Error message, if it failed.
    pub(super) fault: Option<String>,
}

/// Ids of a span and its parent, in hexadecimal, as the protocol's JSON requires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids<'a> {
    pub(super) trace: &'a str,
    pub(super) span: &'a str,
    pub(super) parent: Option<&'a str>,
}

impl Span {
    pub(super) fn json(&self, ids: Ids<'_>) -> Value {
        let mut span = json!({
            "traceId": ids.trace,
            "spanId": ids.span,
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanoseconds(self.began),
            "endTimeUnixNano": nanoseconds(self.ended),
            "attributes": attributes(self.attributes.iter().map(|(name, value)| (name.as_str(), value))),
        });
        if let Some(parent) = ids.parent {
            span["parentSpanId"] = json!(parent);
        }
        if let Some(fault) = &self.fault {
            // 2 is STATUS_CODE_ERROR.
            span["status"] = json!({ "code": 2, "message": fault });
        }
        span
    }
}

/// Makes the body of a request that exports these spans.
pub(super) fn body(resource: &[(String, String)], spans: Vec<Value>) -> Value {
    let resource: Vec<(&str, Value)> =
        resource.iter().map(|(name, value)| (name.as_str(), json!(value))).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(resource.iter().map(|(name, value)| (*name, value))) },
        "scopeSpans": [{
            "scope": { "name": "firstbyte", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] })
}

fn attributes<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> Vec<Value> {
    pairs.map(|(name, value)| json!({ "key": name, "value": typed_value(value) })).collect()
}

/// Wraps a value with its type. The protocol's JSON writes 64-bit numbers as decimal text.
fn typed_value(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    }
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
