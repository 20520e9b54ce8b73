//! Reads the standard environment variables of OpenTelemetry for traces. Called by the parent
//! module. <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>,
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

use std::num::NonZeroU64;
use std::time::Duration;

use firstbyte::environment::VariableLookup;
use firstbyte_location::{HttpUrl, Location, redacted_operand};

/// Default timeout of a request to the collector, from the specification.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The collector, and the attributes and parent of the spans.
#[derive(Clone, Debug)]
pub(super) struct TraceSettings {
    pub(super) url: HttpUrl,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    /// Attributes of this program: its name and version, and those of `OTEL_RESOURCE_ATTRIBUTES`.
    pub(super) resource: Vec<(String, String)>,
    /// Trace id, and span id of the caller, from `TRACEPARENT`.
    pub(super) parent: Option<(String, String)>,
}

impl TraceSettings {
    /// Reads the variables. Returns `None` if no variable names a collector, or if one disables
    /// traces.
    ///
    /// # Errors
    /// The variable that is unusable, and the reason.
    pub(super) fn find(lookup: VariableLookup<'_>) -> Result<Option<Self>, String> {
        let own = |name: &str| {
            let of_traces = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let of_all = format!("OTEL_EXPORTER_OTLP_{name}");
            lookup(&of_traces)
                .map(|value| (of_traces, value))
                .or_else(|| Some((of_all.clone(), lookup(&of_all)?)))
        };
        let is_off = lookup("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporters = lookup("OTEL_TRACES_EXPORTER").unwrap_or_else(|| "otlp".to_owned());
        if is_off || exporters.split(',').all(|exporter| exporter.trim() != "otlp") {
            return Ok(None);
        }
        let Some((name, endpoint)) = own("ENDPOINT") else { return Ok(None) };
        let parent = lookup("TRACEPARENT").and_then(|text| traceparent(&text));
        if parent.as_ref().is_some_and(|(.., sampled)| !sampled) {
            return Ok(None);
        }
        if let Some((name, protocol)) = own("PROTOCOL").filter(|(_, protocol)| protocol == "grpc") {
            return Err(format!("{name} is {protocol}; set it to http/json, and name the port for HTTP"));
        }
        let url = match name.contains("_TRACES_") {
            true => endpoint.clone(),
            false => format!("{}/v1/traces", endpoint.trim_end_matches('/')),
        };
        let Ok(Location::Http(url)) = Location::parse(url.as_ref()) else {
            let endpoint = redacted_operand(&endpoint);
            return Err(format!("{name} is {endpoint}; write http(s)://HOST[:PORT]"));
        };
        let timeout = match own("TIMEOUT") {
            None => DEFAULT_TIMEOUT,
            Some((name, text)) => {
                let wrong = || format!("{name} is {text}; write milliseconds, at least 1");
                Duration::from_millis(text.parse::<NonZeroU64>().map_err(|_| wrong())?.get())
            }
        };
        let mut resource = pairs(&lookup("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        let service = lookup("OTEL_SERVICE_NAME");
        if service.is_some() || resource.iter().all(|(name, _)| name != "service.name") {
            resource.retain(|(name, _)| name != "service.name");
            resource.push(("service.name".to_owned(), service.unwrap_or_else(|| "firstbyte".to_owned())));
        }
        resource.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        let headers = own("HEADERS").map(|(_, text)| pairs(&text)).unwrap_or_default();
        let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let parent = parent.map(|(trace, span, _)| (trace, span));
        Ok(Some(Self { url, headers, timeout, resource, parent }))
    }
}

/// Parses `NAME=VALUE,...` with percent-encoded values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decode(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

/// Decodes `%XX` in a text if the result is UTF-8.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| hex::decode(code).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.extend(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Parses a W3C trace context: trace id, parent span id, and whether the trace is sampled
/// (<https://www.w3.org/TR/trace-context/#traceparent-header>).
fn traceparent(text: &str) -> Option<(String, String, bool)> {
    let parts: Vec<&str> = text.trim().split('-').collect();
    let [version, trace, span, flags, ..] = parts[..] else { return None };
    let id = |text: &str, length| {
        text.len() == length
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && text.bytes().any(|byte| byte != b'0')
    };
    if version == "ff" || !id(trace, 32) || !id(span, 16) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((trace.to_owned(), span.to_owned(), flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pairs: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        TraceSettings::find(&|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");

    #[test]
    fn the_variable_of_traces_counts_more_and_is_the_whole_url() {
        assert_eq!(find(&[ALL]).unwrap().unwrap().url.to_string(), "http://h:4318/v1/traces");
        let both = [ALL, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/in")];
        assert_eq!(find(&both).unwrap().unwrap().url.to_string(), "https://c/in");
        assert!(find(&[]).unwrap().is_none());
    }

    #[test]
    fn headers_and_resource_are_decoded_and_the_service_has_a_name() {
        let settings = find(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_HEADERS", "API-Key=a%20b, x=50%"),
            ("OTEL_RESOURCE_ATTRIBUTES", "host.name=n,service.name=other"),
            ("OTEL_SERVICE_NAME", "mine"),
        ]);
        let settings = settings.unwrap().unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("api-key", "a b"), pair("x", "50%")]);
        assert_eq!(settings.resource[..2], [pair("host.name", "n"), pair("service.name", "mine")]);
        let named = find(&[ALL, ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other")]).unwrap().unwrap();
        assert!(named.resource.contains(&pair("service.name", "other")));
        assert!(find(&[ALL]).unwrap().unwrap().resource.contains(&pair("service.name", "firstbyte")));
    }

    #[test]
    fn a_run_that_is_not_sampled_or_disabled_has_no_traces_and_a_wrong_variable_is_named() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
        let sampled = find(&[ALL, ("TRACEPARENT", &format!("{parent}01"))]).unwrap().unwrap();
        assert_eq!(sampled.parent.unwrap().1, "00f067aa0ba902b7");
        for off in [
            ("TRACEPARENT", format!("{parent}00").as_str()),
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert!(find(&[ALL, off]).unwrap().is_none(), "{off:?}");
        }
        assert!(find(&[ALL, ("TRACEPARENT", "00-00-00-01")]).unwrap().unwrap().parent.is_none());
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "h:4317"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ] {
            assert!(find(&[ALL, (name, value)]).unwrap_err().starts_with(name));
        }
    }
}
