//! The options for a workload. An option consists of a service of the catalogue, a [`ReadMethod`]
//! to read from it, and the place where the data is before the job. Called by
//! [`advise`](super::advise).

use crate::model::{ModelCatalogue, ServiceKind, ServiceModel};
use crate::workload::Workload;

/// How a job reads the data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadMethod {
    /// Whole files are copied to the machine first.
    Download,
    /// Ranges are requested when the job reads them. Only the page cache retains their bytes.
    Lazy,
    /// Ranges are requested through our mount. Its cache on disk retains bytes that were read.
    Mount,
    /// The kernel mounts the service, or the data is on a volume or local disk.
    InPlace,
}

/// Where the data is when a job starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DataState {
    /// The data is on the service.
    Ready,
    /// The data is in the bucket or snapshot behind the service. The service fetches it from there
    /// on first access.
    FirstTouch,
    /// Like `FirstTouch`, but each job creates a service of its own, and deletes it at its end.
    Made,
}

/// One option for a workload.
#[derive(Clone, Debug)]
pub(super) struct Choice<'a> {
    pub(super) model: &'a ServiceModel,
    pub(super) method: ReadMethod,
    pub(super) life: DataState,
    /// Provisioned bytes; 0 if the service is not sold by capacity.
    pub(super) capacity: f64,
}

impl Choice<'_> {
    /// Returns a short name, which is unique among the options for a workload.
    pub(super) fn name(&self) -> String {
        let way = match (self.method, self.life) {
            (ReadMethod::Download, _) => "-download",
            (ReadMethod::Lazy, _) => "-lazy",
            (ReadMethod::Mount, _) => "-mount",
            (ReadMethod::InPlace, DataState::Ready) if can_be_hydrated(self.model) => "-hydrated",
            (ReadMethod::InPlace, DataState::Made) => "-made",
            (ReadMethod::InPlace, _) => "",
        };
        format!("{}{way}", self.model.name)
    }

    /// Returns the name for display.
    pub(super) fn title(&self) -> String {
        let title = &self.model.title;
        match (self.method, self.life) {
            (ReadMethod::Download, _) => format!("{title}, download first"),
            (ReadMethod::Lazy, _) => format!("{title}, open lazily"),
            (ReadMethod::Mount, _) => format!("{title}, firstbyte mount"),
            (ReadMethod::InPlace, DataState::Ready) if can_be_hydrated(self.model) => {
                format!("{title}, hydrated ahead")
            }
            (ReadMethod::InPlace, DataState::FirstTouch) if can_be_hydrated(self.model) => {
                format!("{title}, first touch from S3")
            }
            (ReadMethod::InPlace, DataState::Made) => format!("{title}, made by each job from S3"),
            (ReadMethod::InPlace, _) => title.clone(),
        }
    }

    /// Returns the number of concurrent jobs that share the service: one if each machine has
    /// storage of its own, or each job makes the service.
    pub(super) fn sharing_jobs(&self, workload: &Workload) -> f64 {
        let own = self.model.kind.is_of_one_machine() || self.life == DataState::Made;
        if own { 1.0 } else { workload.jobs.at_once }
    }

    /// Returns whether a machine must run all month, because the data is on the machine's own disk.
    pub(super) fn needs_machine_all_month(&self) -> bool {
        self.model.kind == ServiceKind::LocalDisk && self.life == DataState::Ready
    }

    /// Returns the same option for `bytes` bytes of data.
    pub(super) fn sized(&self, bytes: f64) -> Self {
        Self { capacity: capacity(self.model, bytes), ..self.clone() }
    }
}

/// Returns whether data can reach the service before a job, or on first access.
fn can_be_hydrated(model: &ServiceModel) -> bool {
    model.kind == ServiceKind::LocalDisk || model.rates.hydration_file.is_some()
}

/// Lists all options for a workload, in the order of the catalogue.
pub(super) fn choices<'a>(workload: &Workload, catalogue: &'a ModelCatalogue) -> Vec<Choice<'a>> {
    let mut all = Vec::new();
    for model in &catalogue.services {
        let methods: &[ReadMethod] = match model.kind {
            ServiceKind::Object => &[ReadMethod::Download, ReadMethod::Lazy, ReadMethod::Mount],
            ServiceKind::FileSystem | ServiceKind::Volume | ServiceKind::LocalDisk => &[ReadMethod::InPlace],
        };
        let lives: &[DataState] = match (can_be_hydrated(model), model.capacity.creation.is_some()) {
            (true, true) => &[DataState::Ready, DataState::FirstTouch, DataState::Made],
            (true, false) => &[DataState::Ready, DataState::FirstTouch],
            (false, _) if model.rates.hydration.is_some() => &[DataState::FirstTouch],
            (false, _) => &[DataState::Ready],
        };
        let capacity = capacity(model, workload.data.bytes);
        for (method, life) in methods.iter().flat_map(|method| lives.iter().map(|life| (*method, *life))) {
            all.push(Choice { model, method, life, capacity });
        }
    }
    all
}

/// Returns the smallest capacity that holds the data; 0 if the service is not sold by capacity.
fn capacity(model: &ServiceModel, bytes: f64) -> f64 {
    let Some(least) = model.capacity.least.as_ref().map(|least| least.value.0) else { return 0.0 };
    let step = model.capacity.step.as_ref().map_or(least, |step| step.value.0);
    if bytes <= least { least } else { (bytes / step).ceil() * step }
}
