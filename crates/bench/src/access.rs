//! Gives a job access to its target: as a local path, by firstbyte's lazy files, by a mount, or by
//! a copy.
//!
//! A [`Session`] makes the target reachable. Workloads open, list and read through it whatever the
//! access is. After the session has started, a mount or a copy is used like any other directory.

mod client;
mod mount;
mod object;

pub(crate) use object::OpenObject;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use firstbyte::{Client, Copy, OperandKind};
use firstbyte_location::{Location, shown};
use firstbyte_store::ListOptions;
use firstbyte_transfer::{NoObserver, Summary};

use crate::job::{Access, Error, Job, Metrics, Result, Workload};
use crate::walk::files_below;
use client::add_counters;
pub(crate) use client::add_summary;
use mount::MountedTarget;

/// Access to the target of one job.
pub(crate) struct Session<'j> {
    job: &'j Job,
    target: ReachedTarget,
    /// Metrics of the copy that was made before the work.
    copy_metrics: Metrics,
}

/// A target in the form in which the job reaches it.
enum ReachedTarget {
    /// A directory or a single file on a file system.
    Files(PathBuf),
    Mounted(MountedTarget),
    Store(Box<Client>),
}

/// An object in the listing of a directory or prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ListedObject {
    /// Name below the target.
    pub(crate) name: String,
    /// Length in bytes; `None` if the listing has no sizes.
    pub(crate) size: Option<u64>,
}

impl<'j> Session<'j> {
    /// Makes the target reachable, which ends the stage `ready`.
    pub(crate) fn start(job: &'j Job) -> Result<Self> {
        let mut copy_metrics = Metrics::new();
        let target = match job.access {
            Access::Path => ReachedTarget::Files(PathBuf::from(&job.target)),
            Access::Mount => ReachedTarget::Mounted(MountedTarget::start(job)?),
            Access::Open => ReachedTarget::Store(Box::new(client::new(job)?)),
            // For these workloads the copy itself is measured, so the workload makes it.
            Access::Cp if is_copy(job.workload) => ReachedTarget::Store(Box::new(client::new(job)?)),
            Access::Cp => ReachedTarget::Files(Self::copy(job, &mut copy_metrics)?),
        };
        Ok(Self { job, target, copy_metrics })
    }

    /// Copies the target to the destination and returns the path of the copy.
    fn copy(job: &Job, metrics: &mut Metrics) -> Result<PathBuf> {
        let destination = destination(job)?;
        let (source, depth) = match (job.is_of_one_object(), job.object.is_empty()) {
            (true, true) => (job.target.clone(), OperandKind::Object),
            (true, false) => (join(&job.target, &job.object), OperandKind::Object),
            (false, _) => (join(&job.target, ""), OperandKind::Tree),
        };
        let to = join(&destination.to_string_lossy(), "");
        let summary = copy_all(&client::new(job)?, &source, &to, depth)?;
        add_summary(&summary, metrics);
        match depth {
            OperandKind::Tree => Ok(destination.to_owned()),
            OperandKind::Object => Ok(destination.join(base_name(&source))),
        }
    }

    /// Returns the library's client. Error if this access does not use one.
    pub(crate) fn client(&self) -> Result<&Client> {
        match &self.target {
            ReachedTarget::Store(client) => Ok(client),
            _ => Err(Error::job(format!("{}: no client by {}", self.job.workload, self.job.access))),
        }
    }

    /// Returns the directory or file that shows the target. `None` if the access is by a client.
    pub(crate) fn root(&self) -> Option<&Path> {
        match &self.target {
            ReachedTarget::Files(root) => Some(root),
            ReachedTarget::Mounted(mounted) => Some(mounted.root()),
            ReachedTarget::Store(_) => None,
        }
    }

    /// Returns the path of the job's one object. If the job names no object, the root is the
    /// object.
    pub(crate) fn object_path(&self) -> Result<PathBuf> {
        let Some(root) = self.root() else {
            return Err(Error::job(format!("{}: no path by {}", self.job.workload, self.job.access)));
        };
        Ok(match &self.target {
            // The copy holds only the one object, whatever the target is.
            ReachedTarget::Files(root) if self.job.access == Access::Cp => root.clone(),
            // A mount of one object is a directory that contains its name.
            ReachedTarget::Mounted(_)
                if self.job.object.is_empty() && root.join(base_name(&self.job.target)).is_file() =>
            {
                root.join(base_name(&self.job.target))
            }
            _ if self.job.object.is_empty() => root.to_owned(),
            _ => root.join(&self.job.object),
        })
    }

    /// Returns the location of the target.
    pub(crate) fn location(&self) -> Result<Location> {
        Ok(Location::parse(OsStr::new(&self.job.target)).map_err(firstbyte::Error::from)?)
    }

    /// Opens the one object that the job is about.
    pub(crate) fn open(&self) -> Result<OpenObject> {
        let expected = self.job.expect.map(|expect| (expect.seed, expect.compare));
        match &self.target {
            ReachedTarget::Store(client) if self.job.object.is_empty() => {
                Ok(OpenObject::lazy(client.open(&self.job.target)?, expected))
            }
            ReachedTarget::Store(client) => Ok(OpenObject::lazy(
                client.open_location(&self.location()?.join(self.job.object.as_bytes()))?,
                expected,
            )),
            _ => OpenObject::file(&self.object_path()?, expected),
        }
    }

    /// Opens an object of the directory, by its name from [`list`](Self::list).
    pub(crate) fn open_named(&self, name: &str) -> Result<OpenObject> {
        let expected = self
            .job
            .expect
            .map(|expect| (crate::data::seed_of(expect.seed, base_name(name)), expect.compare));
        match (&self.target, self.root()) {
            (ReachedTarget::Store(client), _) => {
                Ok(OpenObject::lazy(client.open_location(&self.location()?.join(name.as_bytes()))?, expected))
            }
            (_, Some(root)) => OpenObject::file(&root.join(name), expected),
            (_, None) => Err(Error::job("no path")),
        }
    }

    /// Lists the objects below the target, in byte order of their names.
    pub(crate) fn list(&self) -> Result<Vec<ListedObject>> {
        let mut found = Vec::new();
        match (&self.target, self.root()) {
            (ReachedTarget::Store(client), _) => {
                let options = ListOptions { recursive: true, ..ListOptions::default() };
                for entry in client.list(&self.job.target, &options)? {
                    let entry = entry?;
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    found.push(ListedObject { name, size: entry.size });
                }
            }
            (_, Some(root)) => found = names_below(root)?,
            (_, None) => {}
        }
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        match found.is_empty() {
            true => Err(Error::target(shown(&self.job.target).to_string(), "holds no file")),
            false => Ok(found),
        }
    }

    /// Unmounts if there is a mount. Returns the metrics of the copy and the mount.
    pub(crate) fn end(self) -> Result<Metrics> {
        let mut metrics = self.copy_metrics;
        match self.target {
            ReachedTarget::Files(_) => {}
            ReachedTarget::Store(client) => add_counters(&client.store().counters(), &mut metrics),
            ReachedTarget::Mounted(mounted) => metrics.append(&mut mounted.end()?),
        }
        Ok(metrics)
    }
}

/// Returns the destination of the job, a directory. Makes it if it is missing.
pub(crate) fn destination(job: &Job) -> Result<&Path> {
    let directory = job.destination.as_deref().ok_or_else(|| Error::job("destination is missing"))?;
    fs::create_dir_all(directory).map_err(Error::at(directory))?;
    Ok(directory)
}

/// Copies by the library. Error if any part of the copy failed.
pub(crate) fn copy_all(client: &Client, from: &str, to: &str, depth: OperandKind) -> Result<Summary> {
    let summary = client.cp_observed(from, to, &Copy { depth, ..Copy::default() }, &NoObserver)?;
    match summary.failed.first() {
        None => Ok(summary),
        Some(first) => {
            let all = summary.failures + summary.objects;
            let what = format!("{} ({} of {all} objects failed)", first.error, summary.failures);
            Err(Error::target(first.location.to_string(), what))
        }
    }
}

/// True if the copy is the measured work, not its preparation.
fn is_copy(workload: Workload) -> bool {
    matches!(workload, Workload::OneBig | Workload::ManySmall | Workload::CopyTree | Workload::Upload)
}

/// Returns the location of `name` below `target`. An empty `name` gives the directory's contents.
pub(crate) fn join(target: &str, name: &str) -> String {
    format!("{}/{name}", target.trim_end_matches('/'))
}

/// Returns the last component of a location.
pub(crate) fn base_name(target: &str) -> &str {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Lists the files below a local directory, in byte order of their names.
pub(crate) fn names_below(root: &Path) -> Result<Vec<ListedObject>> {
    let files = files_below(root).map_err(|(path, error)| Error::at(&path)(error))?;
    let name = |path: &PathBuf| Some(path.strip_prefix(root).ok()?.to_string_lossy().into_owned());
    let mut found: Vec<ListedObject> =
        files.iter().filter_map(name).map(|name| ListedObject { name, size: None }).collect();
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
