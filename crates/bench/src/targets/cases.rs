//! Makes the case of one workload on one target: its contenders, and the bytes that a run of each
//! reads.

use std::collections::BTreeMap;
use std::path::Path;

use crate::result::CacheState;
use firstbyte::size::grouped;
use firstbyte_advise::units::shown_bytes;
use firstbyte_location::{Location, Service};
use serde_json::{Value, json};

use super::Request;
use super::function::{self, LinkedTarget};
use super::probe::{Found, Shape, Target};
use super::programs::{self, Objects};
use crate::plan::{BilledReads, CachePlan, Case, Contender, Count, Medium, Prints};
use crate::slow_link::LINK_NAME;
use crate::words::literal;
use crate::workloads::part_bytes;

/// Default number of bytes of an object that a run reads, about a second over a network.
const DEFAULT_READ_BYTES: u64 = 256 << 20;
/// Default number of files that a run reads.
const DEFAULT_FILES: u64 = 1_000;
/// Random reads per run.
const RANDOM_READS: u64 = 200;
/// Default number of bytes per random read.
const DEFAULT_BLOCK_BYTES: u64 = 4 << 10;
/// Bytes per block of the cache, the smallest data request.
const CACHE_BLOCK_BYTES: u64 = 128 << 10;
/// Names per list request.
const NAMES_PER_REQUEST: u64 = 1_000;
/// Smallest number of files of a tree for the workloads of many small files.
const MIN_MANY_FILES: usize = 20;
/// Time limit of a case in seconds, so that a slow target takes minutes only. Three rounds are run
/// even if they take longer.
const CASE_SECONDS: f64 = 30.0;
/// Timeout of a run in seconds.
const RUN_TIMEOUT_SECONDS: f64 = 600.0;

/// Returns the workloads that fit a target.
pub(super) fn fitting(target: &Target, request: &Request) -> &'static [&'static str] {
    let block = request.block.unwrap_or(DEFAULT_BLOCK_BYTES);
    match &target.found {
        Found::Object(size) if *size < block => &["open"],
        Found::Object(_) => &["open", "rand-read"],
        Found::Tree(shape) => match (shape.largest().map_or(0, |(_, size)| size), shape.sizes.len()) {
            (0, _) => &["list"],
            (_, MIN_MANY_FILES..) => &["open", "many-small", "list"],
            (largest, _) if largest < block => &["open", "list"],
            _ => &["open", "rand-read", "list"],
        },
    }
}

/// An access to the data in one cache state.
struct AccessVariant {
    name: &'static str,
    access: &'static str,
    state: CacheState,
}

const fn variant(name: &'static str, access: &'static str, state: CacheState) -> AccessVariant {
    AccessVariant { name, access, state }
}

/// Makes the case of a workload.
pub(super) fn case(target: &Target, workload: &str, request: &Request, jobs: &[u32]) -> Result<Case, String> {
    let mut work = Work::of(target, workload, request)?;
    let mut services = Vec::new();
    let others = work.others(target, request);
    let mut request = request.clone();
    for option in &mut request.options {
        *option = literal(option);
    }
    if request.function.is_some() {
        let LinkedTarget { service, location, options } = function::link(target, &request)?;
        services.push(service);
        work.set_target(target, &location);
        request.options = options;
    }
    let request = &request;
    let mut contenders = Vec::new();
    for variant in access_variants(target, workload)? {
        // A copy fetches the whole object, which is other work than reading a part of it.
        if variant.access == "cp" && workload == "one-big" && work.parameters.contains_key("size") {
            continue;
        }
        for job in jobs {
            contenders.push(work.contender(&variant, *job, request, jobs.len() > 1));
        }
    }
    contenders.extend(others);
    for (name, words) in &request.peers {
        let fill = |word: &String| word.replace("{target}", &work.target);
        let command = words.iter().map(fill).collect();
        let peer =
            Contender { function: request.function.clone(), waves: request.waves, ..Contender::default() };
        contenders.push(Contender { name: name.clone(), ..work.contender_of_command(command, peer) });
    }
    Ok(Case {
        name: format!("{workload} {}", target.location),
        title: work.title,
        notes: work.notes,
        services,
        contenders,
        seconds: CASE_SECONDS,
        timeout: RUN_TIMEOUT_SECONDS,
        destination: Medium::Disk,
        ..Case::default()
    })
}

/// Returns the accesses that a workload has for a target.
fn access_variants(target: &Target, workload: &str) -> Result<Vec<AccessVariant>, String> {
    use CacheState::{Any, Cold, Hydrated, Warm};
    let (path, cp) = (variant("path, cold", "path", Cold), variant("cp, then read", "cp", Cold));
    let (open, mount) = (variant("lazy open", "open", Cold), variant("mount", "mount", Cold));
    let hydrated = variant("mount, hydrated", "mount", Hydrated);
    Ok(match (workload, target.local) {
        ("upload", _) => vec![variant("upload", "cp", Any)],
        ("hydrate", _) => vec![variant("hydrate", "open", Cold)],
        ("probe", _) => vec![variant("probe", "open", Any)],
        ("copy-tree", true) => vec![variant("copy", "path", Cold)],
        ("copy-tree", false) => vec![cp, mount],
        ("fio" | "mapped" | "blast", true) | ("command", true) => {
            vec![path, variant("path, warm", "path", Warm)]
        }
        ("mapped" | "blast" | "fio", false) => vec![cp, mount, hydrated],
        ("list", true) => vec![variant("path", "path", Any)],
        ("list", false) => vec![variant("ls", "open", Any)],
        (_, true) => vec![path, variant("path, warm", "path", Warm)],
        (
            "open" | "cold-start" | "one-big" | "many-small" | "seq-read" | "rand-read" | "mixed" | "command",
            false,
        ) => {
            vec![cp, open, mount, hydrated]
        }
        _ => return Err(format!("no workload {workload}")),
    })
}

/// The work of one run. `target`, `files`, `object` and the texts in `parameters` are words of a
/// plan, in which literal braces are doubled.
struct Work {
    workload: String,
    /// Target as it was given.
    location: String,
    /// Location at which a job reaches the target.
    target: String,
    title: String,
    notes: Vec<String>,
    /// Parameters of the job.
    parameters: BTreeMap<String, Value>,
    /// Bytes that a run reads.
    bytes: u64,
    /// Bytes that a copy fetches.
    whole: u64,
    /// Number of files or names in a run. `None` if the target has more than were examined.
    count: Option<u64>,
    /// Local files that the run reads.
    files: Vec<String>,
    /// Object that the run reads, for firstbyte's cache.
    object: Option<String>,
}

impl Work {
    fn of(target: &Target, workload: &str, request: &Request) -> Result<Self, String> {
        let mut work = Self {
            workload: workload.to_owned(),
            location: target.location.clone(),
            target: literal(&target.location),
            title: String::new(),
            notes: Vec::new(),
            parameters: BTreeMap::new(),
            bytes: 0,
            whole: 0,
            count: Some(1),
            files: Vec::new(),
            object: None,
        };
        match workload {
            "list" => work.set_listing(target),
            "many-small" | "copy-tree" | "hydrate" => work.set_files(target, request)?,
            "upload" => work.set_upload(request)?,
            "command" => work.set_command(request)?,
            "probe" => work.title = format!("probe of {}", target.location),
            _ => work.set_object(target, request)?,
        }
        if let Some(concurrency) = request.concurrency {
            work.parameters.insert("concurrency".into(), json!(concurrency));
        }
        Ok(work)
    }

    /// Sets the location at which jobs reach the target.
    fn set_target(&mut self, target: &Target, location: &str) {
        if target.local {
            let from = literal(target.location.trim_end_matches('/'));
            let moved = |file: &String| file.replacen(&from, location, 1);
            self.files = self.files.iter().map(moved).collect();
        }
        location.clone_into(&mut self.target);
    }

    fn set_listing(&mut self, target: &Target) {
        let complete = matches!(&target.found, Found::Tree(Shape { complete: true, .. }));
        self.count = match &target.found {
            Found::Tree(shape) if complete => Some(shape.sizes.len() as u64),
            _ => None,
        };
        self.title = format!("names below {}", target.location);
        self.parameters.insert("recursive".into(), json!(true));
        if !complete {
            self.notes.push("All names are listed; a large target takes long.".into());
        }
    }

    fn set_files(&mut self, target: &Target, request: &Request) -> Result<(), String> {
        let Found::Tree(shape) = &target.found else {
            return Err(format!(
                "{}: {} needs a directory, prefix or bucket",
                target.location, self.workload
            ));
        };
        let (files, bytes, after) = shape.first(request.files.unwrap_or(DEFAULT_FILES));
        if let Some(after) = after.filter(|_| self.workload == "many-small") {
            self.parameters.insert("names".into(), json!(literal(&format!("..{after}"))));
            self.notes.push(format!("Only the first {files} files in byte order are read."));
        } else if after.is_some() {
            return Err(format!(
                "{}: has more than {files} files: name a smaller prefix, or give --files",
                target.location
            ));
        }
        self.title = format!("{} files below {}", grouped(files), target.location);
        (self.bytes, self.whole, self.count) = (bytes, bytes, Some(files));
        if !target.local && after.is_none() {
            self.object = Some(literal(&format!("{}/", target.location.trim_end_matches('/'))));
        }
        if target.local {
            let root = Path::new(&target.location);
            let names = shape.sizes.keys().take(files as usize);
            self.files = names.map(|name| literal(&root.join(name).display().to_string())).collect();
        }
        Ok(())
    }

    fn set_upload(&mut self, request: &Request) -> Result<(), String> {
        if !request.write {
            return Err("upload writes to the target: give --write".into());
        }
        let source = request.source.as_ref().ok_or("upload: what is copied? give --source")?;
        self.title = format!("{} to {}", source.display(), self.location);
        self.parameters.insert("source".into(), json!(literal(&source.to_string_lossy())));
        self.parameters.insert("write".into(), json!(true));
        Ok(())
    }

    fn set_command(&mut self, request: &Request) -> Result<(), String> {
        if request.command.is_empty() {
            return Err("command: which? write it after --".into());
        }
        self.title = format!("{} on {}", request.command.join(" "), self.location);
        // The workload itself fills `{target}`, because only a job knows the path of its target.
        let words: Vec<_> = request.command.iter().map(|word| literal(word)).collect();
        self.parameters.insert("command".into(), json!(words));
        Ok(())
    }

    /// Describes the work on one object: the target itself, or the largest object below it.
    fn set_object(&mut self, target: &Target, request: &Request) -> Result<(), String> {
        let (name, size) = match &target.found {
            Found::Object(size) => (None, *size),
            Found::Tree(shape) => {
                let (name, size) = shape.largest().ok_or("no files")?;
                (Some(name.to_owned()), size)
            }
        };
        // `one-big` reads the whole object.
        let usual = if self.workload == "one-big" { size } else { DEFAULT_READ_BYTES };
        let most = request.size.unwrap_or(usual).min(size);
        self.whole = size;
        if let Some(name) = &name {
            self.parameters.insert("object".into(), json!(literal(name)));
        }
        let base = target.location.trim_end_matches('/');
        let whole = name.map_or_else(|| target.location.clone(), |name| format!("{base}/{name}"));
        self.title = format!("{whole}, {}", shown_bytes(size as f64));
        let whole = literal(&whole);
        self.bytes = match self.workload.as_str() {
            "rand-read" | "mixed" => {
                let block = request.block.unwrap_or(DEFAULT_BLOCK_BYTES);
                self.parameters.insert("block".into(), json!(block));
                self.parameters.insert("count".into(), json!(RANDOM_READS));
                block * RANDOM_READS
            }
            "open" | "cold-start" => {
                self.parameters.insert("read".into(), json!(request.read));
                let given = (!request.read.is_empty()).then(|| serde_json::from_value(json!(request.read)));
                let share = given.transpose().map_err(|error| format!("--read {}: {error}", request.read))?;
                if size > most {
                    self.parameters.insert("until".into(), json!("part"));
                    self.notes.push(format!("The object is larger than {most} bytes, so only a part of it is read; --size raises the limit."));
                }
                if size > most { part_bytes(share, size) } else { size }
            }
            _ => {
                if size > most {
                    self.parameters.insert("size".into(), json!(most));
                    self.title = format!(
                        "{} of the first {} of {}",
                        self.workload,
                        shown_bytes(most as f64),
                        self.title
                    );
                    self.notes.push(format!("Only the first {most} bytes are read; --size raises the limit. Programs that copy the whole object are left out."));
                }
                most
            }
        };
        if !self.parameters.contains_key("size") {
            self.title = format!("{} of {}", self.workload, self.title);
        }
        if target.local {
            self.files = vec![whole];
        } else {
            self.object = Some(whole);
        }
        Ok(())
    }

    /// Returns contenders for other projects' programs that are installed and can do the work.
    fn others(&self, target: &Target, request: &Request) -> Vec<Contender> {
        let Ok(Location::Object(place)) = Location::parse(target.location.as_ref()) else {
            return Vec::new();
        };
        if place.service != Service::S3 || request.function.is_some() {
            return Vec::new();
        }
        let below = format!("{}/", place.key.trim_end_matches('/'));
        let below = if place.key.is_empty() { "" } else { below.as_str() };
        let largest = match &target.found {
            Found::Tree(shape) => shape.largest().map(|(name, _)| format!("{below}{name}")),
            Found::Object(_) => Some(place.key.clone()),
        };
        let objects = match self.workload.as_str() {
            "one-big" | "seq-read" if self.parameters.contains_key("size") => None,
            "open" | "one-big" | "seq-read" => largest.as_ref().map(|key| Objects::One(&place.bucket, key)),
            "many-small" | "copy-tree" if !self.parameters.contains_key("names") => {
                Some(Objects::Below(&place.bucket, below))
            }
            "list" => Some(Objects::Names(&place.bucket, below)),
            _ => None,
        };
        let found = objects.map(|objects| programs::programs(&objects, request)).unwrap_or_default();
        let contender = |program: programs::Program| {
            let prints = if program.is_timed { Prints::Metrics } else { Prints::Nothing };
            let name = program.name.to_owned();
            let own = Contender { name, prints, found: true, ..Contender::default() };
            // Programs of other projects copy whole objects.
            let bytes = (self.whole > 0).then(|| self.whole.to_string());
            Contender { bytes, ..self.contender_of_command(program.command, own) }
        };
        found.into_iter().map(contender).collect()
    }

    /// Makes a contender from another program's command.
    fn contender_of_command(&self, command: Vec<String>, with: Contender) -> Contender {
        Contender {
            command,
            workload: self.workload.clone(),
            target: self.target.clone(),
            bytes: (self.bytes > 0).then(|| self.bytes.to_string()),
            billed: Some(self.billed_estimate(&variant("", "cp", CacheState::Any))),
            ..with
        }
    }

    /// Estimates from above the bytes and requests of a job with this access.
    fn billed_estimate(&self, variant: &AccessVariant) -> BilledReads {
        let random = matches!(self.workload.as_str(), "rand-read" | "mixed");
        let text = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let files = self.count.unwrap_or(1);
        let blocks = |bytes: u64| bytes.div_ceil(CACHE_BLOCK_BYTES);
        let (bytes, gets) = match (self.workload.as_str(), variant.access, variant.state) {
            ("list", ..) => (self.count.map(|_| 0), Some(0)),
            ("command" | "upload" | "probe", ..) => (None, None),
            // The first run hydrates or copies the whole target.
            (_, "cp", _) | (_, _, CacheState::Hydrated) => {
                (Some(self.whole), Some(blocks(self.whole) + files))
            }
            // A read of a few bytes fetches the blocks that it touches.
            _ if random && variant.access != "path" => {
                let each = self.bytes / RANDOM_READS + CACHE_BLOCK_BYTES;
                (Some(RANDOM_READS * each), Some(RANDOM_READS * blocks(each)))
            }
            _ => (Some(self.bytes), Some(blocks(self.bytes) + files)),
        };
        BilledReads {
            target: self.location.clone(),
            bytes: text(bytes),
            gets: text(gets),
            lists: text(Some(files.div_ceil(NAMES_PER_REQUEST) + 1)),
            once: variant.state == CacheState::Hydrated,
            class: String::new(),
        }
    }

    fn contender(&self, variant: &AccessVariant, jobs: u32, request: &Request, several: bool) -> Contender {
        let mut job = self.parameters.clone();
        job.insert("workload".into(), json!(self.workload));
        job.insert("target".into(), json!(self.target));
        job.insert("access".into(), json!(variant.access));
        if !request.options.is_empty() {
            job.insert("options".into(), json!(request.options));
        }
        let hydrated = variant.state == CacheState::Hydrated;
        // All runs of a hydrated contender share one cache. Other runs start without a cache.
        let cache = if hydrated { "{disk}/hydrated" } else { "{out}/cache-{job}" };
        if variant.access == "mount" || self.workload == "hydrate" {
            job.insert("cache".into(), json!(cache));
        }
        if variant.access == "mount" {
            job.insert("mount".into(), json!("{out}/mount-{job}"));
        }
        if variant.access == "cp" && self.workload != "upload" || self.workload == "copy-tree" {
            job.insert("destination".into(), json!("{out}/copy-{job}"));
        }
        let suffix = if several { format!(" x{jobs}") } else { String::new() };
        Contender {
            name: format!("{}{suffix}", variant.name),
            job: Some(json!(job)),
            jobs: Some(Count::Number(jobs)),
            memory_limit: request.memory_limit.clone(),
            cpus: request.cpus,
            function: request.function.clone(),
            waves: request.waves,
            link: request.function.as_ref().map(|_| LINK_NAME.to_owned()),
            cache: CachePlan {
                state: variant.state,
                files: self.files.clone(),
                object: self.object.clone(),
                dir: self.object.as_ref().map(|_| cache.replace("{job}", "0")),
                ..CachePlan::default()
            },
            bytes: (self.bytes > 0).then(|| self.bytes.to_string()),
            billed: Some(self.billed_estimate(variant)),
            workload: self.workload.clone(),
            target: self.target.clone(),
            parameters: BTreeMap::from([("jobs".to_owned(), f64::from(jobs))]),
            ..Contender::default()
        }
    }
}

#[cfg(test)]
mod tests;
