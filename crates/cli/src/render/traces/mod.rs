//! Traces: a span for this run and one for each of its requests, sent by OTLP/HTTP to an
//! OpenTelemetry collector if the standard environment variables name one. `main` starts and ends
//! them.
//!
//! No request waits for the collector. Requests put their spans into a queue, and spans that do not
//! fit into the queue are dropped. Only the end of the run waits, briefly, for the last batch.

mod export;
mod settings;
mod span;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use firstbyte::events;
use firstbyte::receipt::Receipt;
use firstbyte_location::redacted;
use serde_json::{Map, Value, json};
use tracing::Level;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;

use super::log::BoxedLayer;
use crate::render::error::{Error, Exit};

use export::Exporter;
use settings::TraceSettings;
use span::{Span, SpanKind};

static EXPORTER: OnceLock<Arc<Exporter>> = OnceLock::new();

/// Makes the layer that records a span per request; `None` if no variable requests traces. If a
/// variable has an unusable value, the run continues without traces, and says so unless it is
/// quiet.
pub fn begin(quiet: bool) -> Option<BoxedLayer> {
    let settings = match TraceSettings::find(&firstbyte::environment::variable) {
        Ok(settings) => settings?,
        Err(why) => {
            export::warn(quiet, &why);
            return None;
        }
    };
    let exporter = Arc::new(Exporter::new(settings, quiet));
    let requests = Targets::new().with_target(events::REQUESTS, Level::DEBUG);
    let to = Arc::clone(&exporter);
    let layer = events::layer::<Registry>(move |_, fields| {
        if fields.get("message").and_then(Value::as_str) == Some("request") {
            to.push(request(fields, SystemTime::now()));
        }
    });
    EXPORTER.set(exporter).ok().map(|()| layer.with_filter(requests).boxed())
}

/// Adds the fields of a receipt to the span of the run.
pub fn describe(receipt: &Receipt) {
    if let Some(exporter) = EXPORTER.get()
        && let Value::Object(fields) = json!(receipt)
    {
        let plain = fields.into_iter().filter(|(_, value)| !value.is_object() && !value.is_array());
        exporter.describe(plain.map(|(name, value)| (format!("firstbyte.{name}"), value)).collect());
    }
}

/// Ends the span of the run and sends the remaining spans.
pub fn end(verb: &str, exit: Exit, error: Option<&Error>) {
    let Some(exporter) = EXPORTER.get() else { return };
    let fault = error.map(|error| redacted(&error.to_string()).into_owned());
    let mut attributes = Map::new();
    attributes.insert("firstbyte.exit_code".to_owned(), json!(exit as u8));
    if let Some(error) = error {
        attributes.insert("error.type".to_owned(), json!(error.kind.name()));
    }
    exporter.end(format!("firstbyte {verb}"), attributes, fault);
}

/// Fields that have a name in OpenTelemetry's conventions for HTTP clients
/// (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>). The names of other fields get
/// the prefix `firstbyte.`.
const FIELD_NAMES: [(&str, &str); 5] = [
    ("method", "http.request.method"),
    ("status", "http.response.status_code"),
    ("bytes", "http.response.body.size"),
    ("sent", "http.request.body.size"),
    ("kind", "error.type"),
];

/// Makes the span of a request that ended at `now`.
fn request(mut fields: Map<String, Value>, now: SystemTime) -> Span {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    fields.remove("message");
    let took = fields.remove("milliseconds").and_then(|value| value.as_f64()).unwrap_or_default();
    let took = Duration::try_from_secs_f64(took / 1e3).unwrap_or_default();
    let attempt = fields.remove("attempt").and_then(|value| value.as_u64()).unwrap_or(1);
    let status = fields.get("status").and_then(Value::as_u64);
    let refused = status.filter(|status| *status >= 400).map(|status| status.to_string());
    let fault = text(fields.remove("error").as_ref()).or_else(|| refused.clone());
    let name = text(fields.get("operation")).or_else(|| text(fields.get("method"))).unwrap_or_default();
    let mut attributes: Map<String, Value> = fields
        .into_iter()
        .map(|(field, value)| {
            let known = FIELD_NAMES.iter().find(|(known, _)| *known == field);
            let name = known.map_or_else(|| format!("firstbyte.{field}"), |(_, name)| (*name).to_owned());
            let value = value.as_str().map_or(value.clone(), |text| json!(redacted(text)));
            (name, value)
        })
        .collect();
    if attempt > 1 {
        attributes.insert("http.request.resend_count".to_owned(), json!(attempt - 1));
    }
    if let Some(status) = refused {
        attributes.entry("error.type").or_insert_with(|| json!(status));
    }
    Span {
        name,
        kind: SpanKind::Client,
        began: now.checked_sub(took).unwrap_or(now),
        ended: now,
        attributes,
        fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_a_span_with_the_names_of_the_conventions() {
        let fields = json!({
            "message": "request", "method": "GET", "operation": "GetObject", "location": "s3://b/k", "status": 503,
            "bytes": 0, "milliseconds": 1500.0, "attempt": 3, "request_id": "ID",
        });
        let Value::Object(fields) = fields else { unreachable!() };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        let span = request(fields, now);
        assert_eq!((span.name.as_str(), span.fault.as_deref()), ("GetObject", Some("503")));
        assert_eq!(now.duration_since(span.began).unwrap(), Duration::from_millis(1500));
        let expected = json!({
            "http.request.method": "GET", "http.response.status_code": 503, "http.response.body.size": 0,
            "http.request.resend_count": 2, "error.type": "503", "firstbyte.operation": "GetObject",
            "firstbyte.location": "s3://b/k", "firstbyte.request_id": "ID",
        });
        assert_eq!(Value::Object(span.attributes), expected);
    }
}
