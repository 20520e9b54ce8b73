//! Lists the options of a workload. An option is a service of the catalogue and a [`Method`] to
//! read from it. An option that the workload rules out is kept, with the reason. Called by
//! [`advise`](super::advise).

use crate::models::{Catalogue, Kind, Model};
use crate::workload::{Place, Workload};

/// The way in which a job reads the data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    /// Whole files are copied to the machine first.
    Download,
    /// Ranges are requested when they are read; nothing is kept but the page cache.
    Lazy,
    /// Ranges are requested through our mount, whose cache on disk keeps the bytes that were read.
    Mount,
    /// The service is mounted by the kernel, or is a volume.
    InPlace,
}

/// One option.
#[derive(Clone, Debug)]
pub(super) struct Choice<'a> {
    pub(super) model: &'a Model,
    pub(super) method: Method,
    /// Provisioned bytes, for a service that has a capacity.
    pub(super) capacity: f64,
    /// Nothing has to be brought from the bucket or the snapshot behind the service.
    pub(super) hydrated: bool,
    /// The reason for which the option cannot be had; `None` if it can.
    pub(super) refused: Option<String>,
}

impl Choice<'_> {
    /// A short name, unique among the options of a workload.
    pub(super) fn name(&self) -> String {
        let way = match self.method {
            Method::Download => "-download",
            Method::Lazy => "-lazy",
            Method::Mount => "-mount",
            Method::InPlace if self.hydrates() && self.hydrated => "-hydrated",
            Method::InPlace => "",
        };
        format!("{}{way}", self.model.name)
    }

    /// For people.
    pub(super) fn title(&self) -> String {
        let title = &self.model.title;
        match self.method {
            Method::Download => format!("{title}, download first"),
            Method::Lazy => format!("{title}, open lazily"),
            Method::Mount => format!("{title}, firstbyte mount"),
            Method::InPlace if self.hydrates() && self.hydrated => format!("{title}, hydrated ahead"),
            Method::InPlace if self.hydrates() => format!("{title}, first touch from S3"),
            Method::InPlace => title.clone(),
        }
    }

    fn hydrates(&self) -> bool {
        self.model.number("hydrates_files").is_some()
    }

    /// True if a machine is kept running because the data is on its own disk.
    pub(super) fn keeps_machine(&self) -> bool {
        self.model.kind == Kind::LocalDisk && self.hydrated
    }
}

/// All options of a workload, in the order of the catalogue.
pub(super) fn choices<'a>(workload: &Workload, catalogue: &'a Catalogue) -> Vec<Choice<'a>> {
    let mut all = Vec::new();
    for model in &catalogue.services {
        let methods: &[Method] = match model.kind {
            Kind::Object => &[Method::Download, Method::Lazy, Method::Mount],
            Kind::FileSystem | Kind::Volume | Kind::LocalDisk => &[Method::InPlace],
        };
        for method in methods {
            let ways: &[bool] =
                if model.number("hydrates_files").is_some() { &[true, false] } else { &[true] };
            for hydrated in ways {
                let capacity = capacity(model, workload.data.bytes);
                let refused = refusal(model, *method, workload, catalogue);
                all.push(Choice { model, method: *method, capacity, hydrated: *hydrated, refused });
            }
        }
    }
    all
}

/// The smallest capacity that holds the data; 0 where none is provisioned.
pub(super) fn capacity(model: &Model, bytes: f64) -> f64 {
    let Some(least) = model.number("capacity_least") else { return 0.0 };
    let step = model.number("capacity_step").map_or(least.value, |step| step.value);
    if bytes <= least.value { least.value } else { (bytes / step).ceil() * step }
}

fn refusal(model: &Model, method: Method, workload: &Workload, catalogue: &Catalogue) -> Option<String> {
    let lambda = matches!(workload.compute.place, Place::Lambda(_));
    let local = catalogue.lambda.get("local_bytes").map_or(f64::INFINITY, |number| number.value);
    if lambda && method == Method::Mount {
        Some("functions have no FUSE".into())
    } else if lambda && model.kind.is_of_one_machine() {
        Some("functions have no volumes".into())
    } else if let Some(why) = without_store(model, workload, catalogue) {
        Some(why.into())
    } else if lambda && model.name.starts_with("fsx-") {
        Some("functions cannot mount Lustre".into())
    } else if lambda && method == Method::Download && workload.data.bytes > local {
        Some("larger than a function's /tmp".into())
    } else if workload.goal.durable && !model.durable {
        Some("does not survive the loss of a server or zone".into())
    } else if workload.goal.shared && !model.shared {
        Some("one machine only".into())
    } else {
        None
    }
}

/// Why a machine's own disk cannot hold the data.
fn without_store(model: &Model, workload: &Workload, catalogue: &Catalogue) -> Option<&'static str> {
    let Place::Machine(name) = &workload.compute.place else { return None };
    if model.kind != Kind::LocalDisk {
        return None;
    }
    match catalogue.machines.get(name).and_then(|machine| machine.store.as_ref()) {
        None => Some("no instance store of this type is known"),
        Some(store) if workload.data.bytes > store.value => Some("larger than the instance store"),
        Some(_) => None,
    }
}
