//! Parses a model, and refuses a newer format and contradictions: a burst below its rate, quantiles
//! out of order, or a figure without a source. Called by the catalogue.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::{FORMAT, Figure, FigureSource, Flow, Latency, MachineModel, ServiceModel};
use crate::file_error::FileError;
use crate::units::Rate;
use crate::usage::find_key;

/// Parses a file. Refuses a format that is newer than [`FORMAT`].
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    let format = toml::from_str::<toml::Table>(text).ok().and_then(|table| table.get("format")?.as_integer());
    if let Some(newer) = format.filter(|format| *format > i64::from(FORMAT)) {
        let what = format!("format {newer} is newer than {FORMAT}: update firstbyte");
        return Err(FileError::at(text, "format", what));
    }
    toml::from_str(text).map_err(|error| FileError::of_toml(text, &error))
}

/// Refuses a service whose figures contradict each other.
pub(super) fn service(text: &str, model: &ServiceModel) -> Result<(), FileError> {
    let check = CheckedFile { text, sources: &model.sources };
    let (latency, rates) = (&model.latency, &model.rates);
    for (name, value) in [
        ("ready", &latency.ready),
        ("first_byte", &latency.first_byte),
        ("direct", &latency.direct),
        ("open", &latency.open),
        ("list", &latency.list),
        ("stat", &latency.stat),
        ("create", &latency.create),
    ] {
        check.latency(&format!("latency.{name}"), value.as_ref())?;
    }
    for (name, value) in [
        ("connection", &rates.connection),
        ("client", &rates.client),
        ("total", &rates.total),
        ("disk", &rates.disk),
        ("hydration", &rates.hydration),
        ("hydration_file", &rates.hydration_file),
    ] {
        check.flow(&format!("rates.{name}"), value.as_ref())?;
    }
    let (operations, reading, capacity) = (&model.operations, &model.reading, &model.capacity);
    check.figure("operations.client", operations.client.as_ref(), |value| *value)?;
    check.figure("operations.total", operations.total.as_ref(), |value| *value)?;
    check.figure("operations.largest", operations.largest.as_ref(), |value| value.0)?;
    check.figure("reading.parallel", reading.parallel.as_ref(), |value| *value)?;
    check.figure("reading.block", reading.block.as_ref(), |value| value.0)?;
    check.figure("reading.read_ahead", reading.read_ahead.as_ref(), |value| value.0)?;
    check.figure("reading.trips_per_file", reading.trips_per_file.as_ref(), |value| *value)?;
    check.figure("reading.direct_from", reading.direct_from.as_ref(), |value| value.0)?;
    check.figure("reading.metered", reading.metered.as_ref(), |value| *value)?;
    check.figure("reading.least_read", reading.least_read.as_ref(), |value| value.0)?;
    check.figure("reading.least_name", reading.least_name.as_ref(), |value| value.0)?;
    check.figure("capacity.least", capacity.least.as_ref(), |value| value.0)?;
    check.figure("capacity.step", capacity.step.as_ref(), |value| value.0)?;
    check.figure("capacity.most", capacity.most.as_ref(), |value| value.0)?;
    check.figure("capacity.cache_per_tib", capacity.cache_per_tib.as_ref(), |value| value.0)?;
    check.figure("capacity.creation", capacity.creation.as_ref(), |value| value.0)?;
    if let (Some(least), Some(most)) = (&capacity.least, &capacity.most)
        && least.value > most.value
    {
        return Err(check.error("capacity.least", "larger than `most`"));
    }
    if let Some(here) = &model.here {
        check.machine("here", here)?;
    }
    match model.bills.iter().find(|bill| find_key(&bill.price).is_none()) {
        Some(bill) => Err(check.error("bills.price", &format!("no price `{}`", bill.price))),
        None => Ok(()),
    }
}

/// A file, and the sources that its figures can name.
pub(super) struct CheckedFile<'a> {
    pub(super) text: &'a str,
    pub(super) sources: &'a BTreeMap<String, FigureSource>,
}

impl CheckedFile<'_> {
    fn error(&self, field: &str, what: &str) -> FileError {
        FileError::at(self.text, field, what)
    }

    /// Refuses the name of a source that the file does not describe.
    pub(super) fn source(&self, field: &str, name: &str) -> Result<(), FileError> {
        if self.sources.contains_key(name) {
            return Ok(());
        }
        Err(self.error(field, &format!("no source `{name}` in [sources]")))
    }

    /// Refuses a value that is zero or negative.
    pub(super) fn above_zero(&self, field: &str, value: f64) -> Result<(), FileError> {
        if value > 0.0 && value.is_finite() { Ok(()) } else { Err(self.error(field, "must be above zero")) }
    }

    fn latency(&self, field: &str, value: Option<&Latency>) -> Result<(), FileError> {
        let Some(latency) = value else { return Ok(()) };
        self.source(field, &latency.source)?;
        self.above_zero(field, latency.p50.0)?;
        let p95 = latency.p95.unwrap_or(latency.p50);
        let ordered = latency.p50 <= p95 && p95 <= latency.p99.unwrap_or(p95);
        if ordered { Ok(()) } else { Err(self.error(field, "quantiles fall: write p50 <= p95 <= p99")) }
    }

    pub(super) fn machine(&self, field: &str, machine: &MachineModel) -> Result<(), FileError> {
        self.source(field, &machine.source)?;
        for value in [machine.vcpus, machine.memory.0, machine.network.0] {
            self.above_zero(field, value)?;
        }
        let volumes = machine.volumes.unwrap_or(Rate(0.0));
        if machine.burst.is_some_and(|burst| burst < machine.network)
            || machine.volumes_burst.is_some_and(|burst| burst < volumes)
        {
            return Err(self.error(field, "the burst is below the rate"));
        }
        let Some(store) = &machine.store else { return Ok(()) };
        self.source(field, &store.source)?;
        self.above_zero(field, store.size.0.min(store.read.0))
    }

    pub(super) fn flow(&self, field: &str, value: Option<&Flow>) -> Result<(), FileError> {
        let Some(flow) = value else { return Ok(()) };
        self.source(field, &flow.source)?;
        self.above_zero(field, flow.rate.0)?;
        if flow.burst.is_some_and(|burst| burst < flow.rate) {
            return Err(self.error(field, "the burst is below the rate"));
        }
        if flow.bucket.is_some() && flow.burst.or(flow.least_burst).is_none() {
            return Err(self.error(field, "a bucket without a burst"));
        }
        Ok(())
    }

    fn figure<T>(
        &self,
        field: &str,
        value: Option<&Figure<T>>,
        number: fn(&T) -> f64,
    ) -> Result<(), FileError> {
        let Some(figure) = value else { return Ok(()) };
        self.source(field, &figure.source)?;
        self.above_zero(field, number(&figure.value))
    }
}
