//! The catalogue of all models: those that are embedded in the program, and those from the user's
//! files. Called by the advice, by `bench`, by the bills and accounts of `firstbyte`, and by the
//! command line, which reads the files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::check::{self, CheckedFile};
use super::{ClientModel, CommonMachineFigures, FigureSource, Function, HERE, MachineModel, ServiceModel};
use crate::file_error::FileError;
use crate::units::Rate;

/// The embedded services, in the order in which reports list them.
const SERVICES: [&str; 22] = [
    include_str!("../../models/s3-standard.toml"),
    include_str!("../../models/s3-express.toml"),
    include_str!("../../models/s3-files.toml"),
    include_str!("../../models/efs-elastic.toml"),
    include_str!("../../models/efs-provisioned.toml"),
    include_str!("../../models/efs-bursting.toml"),
    include_str!("../../models/fsx-scratch-2.toml"),
    include_str!("../../models/fsx-persistent-2-125.toml"),
    include_str!("../../models/fsx-persistent-2-250.toml"),
    include_str!("../../models/fsx-persistent-2-500.toml"),
    include_str!("../../models/fsx-persistent-2-1000.toml"),
    include_str!("../../models/ebs-gp3.toml"),
    include_str!("../../models/ebs-gp3-125.toml"),
    include_str!("../../models/ebs-gp3-snapshot.toml"),
    include_str!("../../models/ebs-gp3-snapshot-300.toml"),
    include_str!("../../models/instance-store.toml"),
    include_str!("../../models/gateway-i4i.toml"),
    include_str!("../../models/gcs.toml"),
    include_str!("../../models/gcs-gcsfuse.toml"),
    include_str!("../../models/azure-blob.toml"),
    include_str!("../../models/azure-blobfuse2.toml"),
    include_str!("../../models/r2.toml"),
];

/// The embedded machines, serverless functions and programs.
const PARTS: [&str; 3] = [
    include_str!("../../models/machines.toml"),
    include_str!("../../models/functions.toml"),
    include_str!("../../models/clients.toml"),
];

/// Machines, serverless functions, programs and rules, as one file contains them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(rename = "format")]
    _format: u32,
    sources: BTreeMap<String, FigureSource>,
    #[serde(default)]
    machines: BTreeMap<String, MachineModel>,
    #[serde(default)]
    functions: BTreeMap<String, Function>,
    #[serde(default)]
    clients: BTreeMap<String, ClientModel>,
    rules: Option<CommonMachineFigures>,
}

/// All models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCatalogue {
    /// Services, in the order in which reports list them.
    pub services: Vec<ServiceModel>,
    /// Machine types by name.
    pub machines: BTreeMap<String, MachineModel>,
    /// Serverless functions by name. A size of a function has its own name: `lambda:512MB`.
    pub functions: BTreeMap<String, Function>,
    /// Programs by name.
    pub clients: BTreeMap<String, ClientModel>,
    /// Figures common to all machines.
    pub rules: CommonMachineFigures,
    /// The sources that the figures of machines, functions, programs and rules name.
    pub sources: BTreeMap<String, FigureSource>,
    /// Names that the user's files have defined, each with the name of the file.
    #[serde(skip)]
    added: BTreeMap<String, String>,
}

impl ModelCatalogue {
    /// Returns the embedded models.
    ///
    /// # Panics
    /// Never: a test parses all embedded models.
    #[must_use]
    pub fn current() -> Self {
        /// Parsed once per process, because parsing takes milliseconds.
        static EMBEDDED: LazyLock<ModelCatalogue> = LazyLock::new(ModelCatalogue::embedded);
        EMBEDDED.clone()
    }

    fn embedded() -> Self {
        let parts = PARTS.map(|text| parts(text).expect("embedded models are valid"));
        let rules = parts.iter().find_map(|part| part.rules.clone()).expect("embedded models have rules");
        let mut all = Self {
            services: Vec::new(),
            machines: BTreeMap::new(),
            functions: BTreeMap::new(),
            clients: BTreeMap::new(),
            rules,
            sources: BTreeMap::new(),
            added: BTreeMap::new(),
        };
        all.services.extend(SERVICES.map(|text| service(text).expect("embedded models are valid")));
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }

    /// Adds the models of a user's file. They replace models of the same name. `file` is the name
    /// of the file in error messages.
    ///
    /// # Errors
    /// The first wrong field, or a name that another file of the user has already defined.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), FileError> {
        let is_service = toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("kind"));
        let names = if is_service {
            let model = service(text)?;
            let name = model.name.clone();
            self.record_definition(file, text, "name", &name)?;
            self.put(model);
            return Ok(());
        } else {
            parts(text)?
        };
        let keys = names.machines.keys().map(|name| ("machines", name));
        let keys = keys.chain(names.functions.keys().map(|name| ("functions", name)));
        for (section, name) in keys.chain(names.clients.keys().map(|name| ("clients", name))) {
            self.record_definition(file, text, section, name)?;
        }
        self.merge(names);
        Ok(())
    }

    /// Adds or replaces a service, and adds the machine from which the service was measured. If
    /// several services were measured from such a machine, the one with the fastest network is
    /// kept, because the machine is known to reach that rate.
    pub fn put(&mut self, model: ServiceModel) {
        if let Some(here) = &model.here {
            let known = self.machines.get(HERE).is_some_and(|known| known.network >= here.network);
            if !known {
                self.machines.insert(HERE.to_owned(), here.clone());
            }
        }
        match self.services.iter_mut().find(|known| known.name == model.name) {
            Some(known) => *known = model,
            None => self.services.push(model),
        }
    }

    /// Records that `file` defines `name`.
    fn record_definition(
        &mut self,
        file: &str,
        text: &str,
        field: &str,
        name: &str,
    ) -> Result<(), FileError> {
        match self.added.insert(name.to_owned(), file.to_owned()) {
            Some(other) => {
                let what = format!("`{name}` is in {other} as well: give one of them another name");
                Err(FileError::at(text, field, what))
            }
            None => Ok(()),
        }
    }

    fn merge(&mut self, parts: Parts) {
        self.machines.extend(parts.machines);
        self.functions.extend(parts.functions);
        self.clients.extend(parts.clients);
        self.sources.extend(parts.sources);
        if let Some(rules) = parts.rules {
            self.rules = rules;
        }
    }

    /// Returns the service of this name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&ServiceModel> {
        self.services.iter().find(|model| model.name == name)
    }

    /// Returns the serverless function with `memory` bytes of memory: the entry for that size if
    /// there is one, else the general entry.
    #[must_use]
    pub fn function(&self, memory: f64) -> Option<&Function> {
        let sized = format!("lambda:{}MB", (memory / 1_048_576.0).round());
        self.functions.get(&sized).or_else(|| self.functions.get("lambda"))
    }
}

/// Parses and checks the text of a service file.
fn service(text: &str) -> Result<ServiceModel, FileError> {
    let model: ServiceModel = check::parse(text)?;
    check::service(text, &model)?;
    Ok(model)
}

impl ServiceModel {
    /// Parses a service from the text of its file.
    ///
    /// # Errors
    /// The first wrong field, with its line.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        service(text)
    }

    /// Writes the service as the text of a file.
    ///
    /// # Panics
    /// Never: a test writes and reads all models.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a model is TOML")
    }
}

fn parts(text: &str) -> Result<Parts, FileError> {
    let parts: Parts = check::parse(text)?;
    let check = CheckedFile { text, sources: &parts.sources };
    for (name, machine) in &parts.machines {
        check.machine(&format!("machines.{name}"), machine)?;
    }
    for (name, function) in &parts.functions {
        let field = format!("functions.{name}");
        check.source(&field, &function.source)?;
        check.flow(&field, Some(&function.network))?;
        check.above_zero(&field, function.memory_per_processor.0.min(function.read_ahead.0))?;
    }
    for (name, client) in &parts.clients {
        let field = format!("clients.{name}");
        check.source(&field, &client.source)?;
        check.above_zero(&field, client.processors.min(client.reader.unwrap_or(Rate(1.0)).0))?;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "format = 1\nname = \"mine\"\ntitle = \"mine\"\nkind = \"object\"\nshared = true\n\
        durable = true\nleaves_out = \"\"\n[sources.me]\nwhat = \"my probe\"\nplace = \"here\"\nday = \"2026-11-27\"\n\
        [latency]\nfirst_byte = { p50 = \"5 ms\", p95 = \"9 ms\", source = \"me\" }\n\
        [rates]\ntotal = { rate = \"20 MB/s\", burst = \"40 MB/s\", bucket = \"1 GB\", source = \"me\" }\n";

    #[test]
    fn a_wrong_model_is_one_line_with_its_field() {
        let fails = |from: &str, to: &str| {
            let mut all = ModelCatalogue::current();
            all.add("mine.toml", &MINE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        ModelCatalogue::current().add("mine.toml", MINE).unwrap();
        for (from, to, error) in [
            ("format = 1", "format = 2", "line 1: format: format 2 is newer than 1: update firstbyte"),
            ("\"5 ms\"", "5", "line 13: latency.first_byte: `5` has no unit; write for example \"30 min\""),
            ("\"40 MB/s\"", "\"4 MB/s\"", "line 15: rates.total: the burst is below the rate"),
            ("burst = \"40 MB/s\", ", "", "line 15: rates.total: a bucket without a burst"),
            ("\"9 ms\"", "\"1 ms\"", "line 13: latency.first_byte: quantiles fall: write p50 <= p95 <= p99"),
            ("\"5 ms\"", "\"0 ms\"", "line 13: latency.first_byte: must be above zero"),
            (
                "source = \"me\"",
                "source = \"you\"",
                "line 13: latency.first_byte: no source `you` in [sources]",
            ),
            (
                "2026-11-27",
                "today",
                "line 11: sources.me.day: `today` is not a day; write for example 2026-11-23",
            ),
            ("shared", "sharde", "line 5: sharde: unknown field; similar: shared"),
            ("title = \"mine\"\n", "", "`title` is missing"),
        ] {
            assert!(fails(from, to).contains(error), "{to}: {} is not {error}", fails(from, to));
            assert!(!fails(from, to).contains('\n'));
        }
    }

    #[test]
    fn two_models_of_one_name_are_refused_and_an_embedded_one_is_replaced() {
        let mut all = ModelCatalogue::current();
        all.add("a.toml", MINE).unwrap();
        let error = all.add("b.toml", MINE).unwrap_err().to_string();
        assert_eq!(error, "line 2: name: `mine` is in a.toml as well: give one of them another name");
        all.add("c.toml", &MINE.replace("\"mine\"", "\"efs-elastic\"")).unwrap();
        assert_eq!(all.service("efs-elastic").unwrap().kind, super::super::ServiceKind::Object);
    }

    #[test]
    fn a_bucket_of_one_size_of_function_can_be_overridden() {
        let text = "format = 1\n[sources.me]\nwhat = \"probe\"\nday = \"2026-11-27\"\n[functions.\"lambda:512MB\"]\n\
            network = { rate = \"50 MB/s\", burst = \"90 MB/s\", bucket = \"100 MB\", source = \"me\" }\n\
            memory_per_processor = \"1769 MiB\"\nlocal = \"512 MB\"\nread_ahead = \"128 KiB\"\nat_once = 1000\n\
            longest = \"900 s\"\nsource = \"me\"\n";
        let mut all = ModelCatalogue::current();
        all.add("mine.toml", text).unwrap();
        let rate = |mib: f64| all.function(mib * 1_048_576.0).unwrap().network.rate.0;
        assert_eq!(rate(512.0), 50e6);
        assert!(rate(1_024.0) > 70e6);
    }

    #[test]
    fn every_figure_has_a_source_with_a_day_and_a_model_is_written_as_it_is_read() {
        for model in ModelCatalogue::current().services {
            let text = model.to_toml();
            assert_eq!(ServiceModel::parse(&text).unwrap(), model, "{text}");
            assert!(!model.sources.is_empty(), "{}", model.name);
        }
    }
}
