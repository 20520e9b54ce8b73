//! Converts the events of this library and the crates below it to JSON. Each event also gets the
//! fields of the spans around it. The command line writes the events as its log and as traces;
//! Python passes them to `logging`.

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Log target of the event that each request emits.
pub const REQUESTS: &str = "firstbyte_store::request";

/// Creates a layer that passes each event with its fields, including `message`, to `take`. Fields
/// of inner spans, and of the event itself, replace outer fields of the same name.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(
    take: impl Fn(&Metadata<'static>, Map<String, Value>) + Send + Sync + 'static,
) -> impl Layer<S> {
    Events(take)
}

struct Events<F>(F);

/// The fields of an event or a span.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }
}

impl<S, F> Layer<S> for Events<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&Metadata<'static>, Map<String, Value>) + Send + Sync + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            // The fields replace those that another layer may have stored.
            span.extensions_mut().replace(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.0.extend(outer.0.clone());
            }
        }
        event.record(&mut fields);
        (self.0)(event.metadata(), fields.0);
    }
}
