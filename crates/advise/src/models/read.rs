//! Reads models from TOML. A number without a source is an error, and so is a source without its
//! day.

use std::collections::BTreeMap;

use super::{Bill, Billed, Catalogue, Client, Kind, Machine, Model, Number, Source};
use crate::fields::{Field, FieldError, Fields, Value};
use crate::units;

/// A unit of numbers.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Rate,
    Bytes,
    Count,
}

/// Every number that a model may have, with its unit.
const NUMBERS: [(&str, Unit); 32] = [
    ("mount", Unit::Seconds),
    ("first_byte", Unit::Seconds),
    ("direct_first_byte", Unit::Seconds),
    ("direct_from", Unit::Bytes),
    ("direct_memory", Unit::Bytes),
    ("flow_rate", Unit::Rate),
    ("parallel", Unit::Count),
    ("block", Unit::Bytes),
    ("client_rate", Unit::Rate),
    ("client_requests", Unit::Count),
    ("total_rate", Unit::Rate),
    ("total_burst", Unit::Rate),
    ("total_requests", Unit::Count),
    ("round_trips_per_file", Unit::Count),
    ("network_per_tib", Unit::Rate),
    ("network_burst_per_tib", Unit::Rate),
    ("network_burst_least", Unit::Rate),
    ("burst_credit", Unit::Bytes),
    ("disk_per_tib", Unit::Rate),
    ("cache_per_tib", Unit::Bytes),
    ("capacity_least", Unit::Bytes),
    ("capacity_step", Unit::Bytes),
    ("hydrates_files", Unit::Count),
    ("hydration_rate", Unit::Rate),
    ("cpu_per_gb", Unit::Seconds),
    ("cpu_per_request", Unit::Seconds),
    ("processors", Unit::Count),
    ("burst_time", Unit::Seconds),
    ("payload", Unit::Count),
    ("network", Unit::Rate),
    ("memory_per_processor", Unit::Bytes),
    ("local_bytes", Unit::Bytes),
];

const KINDS: [(&str, Kind); 4] = [
    ("object", Kind::Object),
    ("file-system", Kind::FileSystem),
    ("volume", Kind::Volume),
    ("local-disk", Kind::LocalDisk),
];

const BILLED: [(&str, Billed); 12] = [
    ("stored", Billed::Stored),
    ("stored-per-client", Billed::StoredPerClient),
    ("stored-during-job", Billed::StoredDuringJob),
    ("stored-small", Billed::StoredSmall),
    ("read", Billed::Read),
    ("read-small", Billed::ReadSmall),
    ("requests", Billed::Requests),
    ("direct-requests", Billed::DirectRequests),
    ("hydration-requests", Billed::HydrationRequests),
    ("capacity", Billed::Capacity),
    ("provisioned-rate", Billed::ProvisionedRate),
    ("volume-rate", Billed::VolumeRate),
];

/// The content of a user's file.
pub(super) enum Added {
    Service(Box<Model>),
    Machines(BTreeMap<String, Machine>, BTreeMap<String, Source>),
}

/// A file of machines has a section of that name, any other describes a service.
pub(super) fn added(text: &str) -> Result<Added, FieldError> {
    let mut root = Fields::parse(text)?;
    let Some(found) = root.take("machines") else { return Ok(Added::Service(Box::new(model(text)?))) };
    let sources = sources(&mut root)?;
    let machines = machines_of(found.table()?, &sources)?;
    root.finish()?;
    Ok(Added::Machines(machines, sources))
}

/// A service from the text of its file.
pub(super) fn model(text: &str) -> Result<Model, FieldError> {
    let mut root = Fields::parse(text)?;
    let mut text_of = |name: &str| root.require(name).and_then(|field| Ok(field.text()?.to_owned()));
    let [name, title, leaves_out] = [text_of("name")?, text_of("title")?, text_of("leaves_out")?];
    let sources = sources(&mut root)?;
    let bills = root.take("bills").map_or(Ok(Vec::new()), bills)?;
    let model = Model {
        name,
        title,
        kind: root.require("kind")?.one_of(&KINDS)?,
        shared: root.require("shared")?.flag()?,
        durable: root.require("durable")?.flag()?,
        leaves_out,
        numbers: numbers(root.section("numbers")?, &sources)?,
        sources,
        bills,
        measured: None,
    };
    root.finish()?;
    Ok(model)
}

/// All embedded files.
pub(super) fn catalogue(services: &[&str], clients: &str, machines: &str) -> Result<Catalogue, FieldError> {
    let mut programs = Fields::parse(clients)?;
    let client_sources = sources(&mut programs)?;
    let client = |field: Field| {
        let name = field.name.clone();
        let mut numbers = numbers(field.table()?, &client_sources)?;
        let mut number =
            |name: &str| numbers.remove(name).ok_or_else(|| missing(format!("a client without `{name}`")));
        let client = Client {
            cpu_per_gb: number("cpu_per_gb")?,
            cpu_per_request: number("cpu_per_request")?,
            processors: number("processors")?,
        };
        Ok((name, client))
    };
    let clients =
        programs.section("clients")?.rest().into_iter().map(client).collect::<Result<_, FieldError>>()?;
    programs.finish()?;
    let mut types = Fields::parse(machines)?;
    let machine_sources = sources(&mut types)?;
    let types_of_machines = machines_of(types.section("machines")?, &machine_sources)?;
    let [common, lambda] = [types.section("common")?, types.section("lambda")?];
    types.finish()?;
    Ok(Catalogue {
        services: services.iter().map(|text| model(text)).collect::<Result<_, _>>()?,
        clients,
        client_sources,
        machines: types_of_machines,
        common: numbers(common, &machine_sources)?,
        lambda: numbers(lambda, &machine_sources)?,
        machine_sources,
    })
}

fn missing(what: String) -> FieldError {
    FieldError { at: crate::fields::At::Line(1, String::new()), what }
}

fn sources(root: &mut Fields) -> Result<BTreeMap<String, Source>, FieldError> {
    let source = |field: Field| {
        let name = field.name.clone();
        let mut fields = field.table()?;
        let what = fields.require("what")?.text()?.to_owned();
        let day = fields.require("read")?;
        let read = day.text()?.to_owned();
        read.parse::<crate::prices::Day>().map_err(|error| day.error(error.to_string()))?;
        fields.finish()?;
        Ok((name, Source { what, read }))
    };
    root.section("sources")?.rest().into_iter().map(source).collect()
}

fn numbers(
    mut fields: Fields,
    sources: &BTreeMap<String, Source>,
) -> Result<BTreeMap<String, Number>, FieldError> {
    let mut numbers = BTreeMap::new();
    for (name, unit) in NUMBERS {
        if let Some(field) = fields.take(name) {
            numbers.insert(name.to_owned(), number(field, unit, sources)?);
        }
    }
    fields.finish()?;
    Ok(numbers)
}

fn number(field: Field, unit: Unit, sources: &BTreeMap<String, Source>) -> Result<Number, FieldError> {
    if !matches!(field.value, Value::Table(_)) {
        return Err(field.error("write { value = ..., source = ... }: a number has a source"));
    }
    let mut fields = field.table()?;
    let given = fields.require("value")?;
    let value = quantity(&given, unit)?;
    let mut bound = |name: &str| fields.take(name).map_or(Ok(value), |field| quantity(&field, unit));
    let (low, high) = (bound("low")?, bound("high")?);
    if !(low <= value && value <= high) {
        return Err(given.error("the value is not between `low` and `high`"));
    }
    let source = source(&mut fields, sources)?;
    fields.finish()?;
    Ok(Number { value, low, high, source })
}

fn source(fields: &mut Fields, sources: &BTreeMap<String, Source>) -> Result<String, FieldError> {
    let field = fields.require("source")?;
    let name = field.text()?;
    if sources.contains_key(name) {
        return Ok(name.to_owned());
    }
    Err(field.error(format!("no source `{name}` in [sources]")))
}

fn quantity(field: &Field, unit: Unit) -> Result<f64, FieldError> {
    let value = match unit {
        Unit::Seconds => field.seconds(),
        Unit::Rate => field.quantity(|text| units::rate(text).map(|rate| rate.0)),
        Unit::Bytes => field.bytes(),
        Unit::Count => field.count(0.0),
    }?;
    if value > 0.0 { Ok(value) } else { Err(field.error("must be above zero")) }
}

fn bills(field: Field) -> Result<Vec<Bill>, FieldError> {
    let bill = |field: Field| {
        let mut fields = field.table()?;
        let price = fields.require("price")?;
        let key = price.text()?.to_owned();
        crate::usage::find_key(&key).ok_or_else(|| price.error(format!("no price `{key}`")))?;
        let of = fields.require("of")?.one_of(&BILLED)?;
        fields.finish()?;
        Ok(Bill { price: key, of })
    };
    field.list()?.into_iter().map(bill).collect()
}

fn machines_of(
    mut fields: Fields,
    sources: &BTreeMap<String, Source>,
) -> Result<BTreeMap<String, Machine>, FieldError> {
    let machine = |field: Field| {
        let name = field.name.clone();
        Ok((name, machine(field.table()?, sources)?))
    };
    fields.rest().into_iter().map(machine).collect()
}

fn machine(mut fields: Fields, sources: &BTreeMap<String, Source>) -> Result<Machine, FieldError> {
    let mut disk =
        |name: &str, unit: Unit| fields.take(name).map(|field| number(field, unit, sources)).transpose();
    let (store, store_rate) = (disk("store", Unit::Bytes)?, disk("store_rate", Unit::Rate)?);
    let machine = Machine {
        vcpus: quantity(&fields.require("vcpus")?, Unit::Count)?,
        memory: quantity(&fields.require("memory")?, Unit::Bytes)?,
        network: quantity(&fields.require("network")?, Unit::Rate)?,
        network_burst: quantity(&fields.require("network_burst")?, Unit::Rate)?,
        store,
        store_rate,
        source: source(&mut fields, sources)?,
    };
    fields.finish()?;
    Ok(machine)
}
