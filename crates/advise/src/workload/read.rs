//! Parses a workload from TOML, or from command-line options that are converted to lines of TOML.
//! An optional field that is absent gets a default. A contradiction is an error, which states the
//! line. Called by the commands of `advise`, by the demo, by `bench` for modelled contenders, and
//! by the accounts of `firstbyte`.

use serde::Deserialize;

use super::{
    AccessPattern, BucketState, Compute, ComputePlace, JobCounts, Loading, NameOperations, ReadInterface,
    Workload, WorkloadData, WorkloadGoal,
};
use crate::file_error::FileError;
use crate::units::{Bytes, DollarsPerHour, Seconds, bytes, shown_bytes, shown_seconds};

/// Default number of bytes of one read call: the usual maximum read-ahead of the kernel.
const DEFAULT_READ_BYTES: f64 = 131_072.0;

/// Returns the default region of a machine's provider: the one whose prices are quoted most often.
fn default_region(place: &str) -> &'static str {
    match place.split_once(':') {
        Some(("gcp", _)) => "us-central1",
        Some(("azure", _)) => "westus",
        _ => "us-east-1",
    }
}

/// Maximum accepted size of a data set, bytes: 100 PB.
const MAX_BYTES: f64 = 1e17;

/// Maximum accepted time, in seconds: a year.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Maximum accepted count.
const MAX_COUNT: f64 = 1e12;

/// Number of seconds in a day.
const SECONDS_PER_DAY: f64 = 86_400.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: Option<String>,
    region: Option<String>,
    data: RawData,
    #[serde(default)]
    names: NameOperations,
    compute: RawCompute,
    #[serde(default)]
    jobs: RawJobs,
    #[serde(default)]
    goal: RawGoal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawData {
    size: Bytes,
    files: Option<f64>,
    read: Option<Bytes>,
    passes: Option<f64>,
    request: Option<Bytes>,
    #[serde(default)]
    access: AccessPattern,
    in_flight: Option<f64>,
    warm: Option<Bytes>,
    needs: Option<ReadInterface>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompute {
    at: String,
    cpu: Option<Seconds>,
    threads: Option<f64>,
    program_memory: Option<Bytes>,
    startup: Option<Seconds>,
    #[serde(default)]
    loading: Loading,
    client: Option<String>,
    #[serde(default)]
    network: BucketState,
    #[serde(default)]
    spot: bool,
    interrupted_percent: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawJobs {
    at_once: Option<f64>,
    per_day: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawGoal {
    deadline: Option<Seconds>,
    waiting: Option<DollarsPerHour>,
    shared: bool,
    durable: bool,
}

/// Parses a workload from the text of a file.
///
/// # Errors
/// The first wrong field, with its line.
pub fn of_text(text: &str) -> Result<Workload, FileError> {
    let file: WorkloadFile = toml::from_str(text).map_err(|error| FileError::of_toml(text, &error))?;
    Reader { text }.workload(file)
}

/// Command-line options. For each: the section and the field that it sets, and true if its value is
/// a count, which has no unit and needs no quotes.
const OPTIONS: [(&str, &str, &str, bool); 18] = [
    ("data", "data", "size", false),
    ("files", "data", "files", true),
    ("read", "data", "read", false),
    ("passes", "data", "passes", true),
    ("request", "data", "request", false),
    ("access", "data", "access", false),
    ("in-flight", "data", "in_flight", true),
    ("needs", "data", "needs", false),
    ("at", "compute", "at", false),
    ("cpu", "compute", "cpu", false),
    ("threads", "compute", "threads", true),
    ("startup", "compute", "startup", false),
    ("loading", "compute", "loading", false),
    ("client", "compute", "client", false),
    ("at-once", "jobs", "at_once", true),
    ("per-day", "jobs", "per_day", true),
    ("deadline", "goal", "deadline", false),
    ("waiting", "goal", "waiting", false),
];

/// Parses a workload from command-line options. Each consists of its name without dashes, and its
/// value as text.
///
/// # Errors
/// The first wrong option.
pub fn of_options(options: &[(&str, String)]) -> Result<Workload, FileError> {
    let mut text = String::new();
    for section in ["data", "compute", "jobs", "goal"] {
        text.push_str(&format!("[{section}]\n"));
        for (option, _, field, count) in OPTIONS.iter().filter(|(_, of, ..)| *of == section) {
            let Some((_, value)) = options.iter().find(|(name, _)| name == option) else { continue };
            let plain = *count && value.parse::<f64>().is_ok_and(f64::is_finite);
            let quoted = toml::Value::from(value.as_str()).to_string();
            text.push_str(&format!("{field} = {}\n", if plain { value } else { &quoted }));
        }
    }
    of_text(&text).map_err(|error| FileError { line: 0, field: option_of(&error.field), what: error.what })
}

/// Returns the command-line option that sets a field: `--data` for `data.size`.
pub(super) fn option_of(field: &str) -> String {
    let found = OPTIONS.iter().find(|(_, section, name, _)| field == format!("{section}.{name}"));
    found.map_or_else(|| field.to_owned(), |(option, ..)| format!("--{option}"))
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error<T>(&self, field: &str, what: impl Into<String>) -> Result<T, FileError> {
        Err(FileError::at(self.text, field, what))
    }

    /// Checks that a count is between `least` and [`MAX_COUNT`].
    fn count(&self, field: &str, value: Option<f64>, default: f64, least: f64) -> Result<f64, FileError> {
        match value.unwrap_or(default) {
            count if !(least..=MAX_COUNT).contains(&count) => {
                self.error(field, format!("{count} is not between {least} and {MAX_COUNT:e}"))
            }
            count => Ok(count),
        }
    }

    fn duration(&self, field: &str, value: Option<Seconds>) -> Result<f64, FileError> {
        match value.map_or(0.0, |time| time.0) {
            seconds if seconds > MAX_SECONDS => self.error(field, "more than a year is absurd"),
            seconds => Ok(seconds),
        }
    }

    fn workload(&self, file: WorkloadFile) -> Result<Workload, FileError> {
        let mut assumed = Vec::new();
        let data = self.data(&file.data)?;
        let compute = self.compute(&file.compute)?;
        let (per_day, at_once) = (file.jobs.per_day, file.jobs.at_once);
        let jobs = JobCounts {
            at_once: self.count("jobs.at_once", at_once, 1.0, 1.0)?,
            per_day: self.count("jobs.per_day", per_day, 1.0, 0.0)?,
        };
        let names = file.names;
        for (field, value) in
            [("names.list", names.list), ("names.stat", names.stat), ("names.create", names.create)]
        {
            self.count(field, Some(value), 0.0, 0.0)?;
        }
        if per_day.is_none() {
            assumed.push("1 job a day".to_owned());
        }
        if at_once.is_none() {
            assumed.push("1 at a time".to_owned());
        }
        let region = default_region(&file.compute.at);
        if file.region.is_none() {
            assumed.push(region.to_owned());
        }
        if file.data.needs.is_none() {
            assumed.push("requests or files".to_owned());
        }
        let deadline = match file.goal.deadline.map(|time| time.0) {
            Some(0.0) => return self.error("goal.deadline", "no job takes no time; write more than 0s"),
            deadline => deadline,
        };
        let goal = WorkloadGoal {
            deadline,
            waiting: file.goal.waiting.map(|money| money.0),
            shared: file.goal.shared,
            durable: file.goal.durable,
        };
        let workload = Workload {
            name: file.name.unwrap_or_else(|| "workload".to_owned()),
            data,
            names,
            compute,
            jobs,
            goal,
            region: file.region.unwrap_or_else(|| region.to_owned()),
            assumed,
        };
        self.check_consistency(&workload)?;
        Ok(workload)
    }

    fn data(&self, raw: &RawData) -> Result<WorkloadData, FileError> {
        let size = raw.size.0;
        if size < 1.0 {
            return self.error("data.size", "there is no data");
        }
        if size > MAX_BYTES {
            return self.error("data.size", format!("{} is absurd", shown_bytes(size)));
        }
        let read = raw.read.map_or(size, |read| read.0);
        if read > size {
            let (read, size) = (shown_bytes(read), shown_bytes(size));
            let hint = match raw.passes {
                Some(_) => "`read` is the amount of one pass",
                None => "give what one pass reads, and `passes`",
            };
            return self.error("data.read", format!("{read} read of {size}: {hint}"));
        }
        let warm = raw.warm.map_or(0.0, |warm| warm.0);
        if warm > read {
            let (warm, read) = (shown_bytes(warm), shown_bytes(read));
            return self.error("data.warm", format!("{warm} cached of {read} that a job reads"));
        }
        let request = raw.request.map_or(DEFAULT_READ_BYTES, |request| request.0);
        if request < 1.0 {
            return self.error("data.request", "a read of less than one byte");
        }
        let files = self.count("data.files", raw.files, 1.0, 1.0)?;
        if files > size {
            return self.error("data.files", format!("{files} files in {}", shown_bytes(size)));
        }
        Ok(WorkloadData {
            bytes: size,
            files,
            read,
            passes: self.count("data.passes", raw.passes, 1.0, 1.0)?,
            request,
            access: raw.access,
            in_flight: match raw.in_flight {
                Some(_) => Some(self.count("data.in_flight", raw.in_flight, 1.0, 1.0)?),
                None => None,
            },
            warm,
            needs: raw.needs.unwrap_or_default(),
        })
    }

    fn compute(&self, raw: &RawCompute) -> Result<Compute, FileError> {
        let percent = raw.interrupted_percent.unwrap_or(0.0);
        if !(0.0..100.0).contains(&percent) {
            return self.error("compute.interrupted_percent", format!("{percent} % leaves none"));
        }
        Ok(Compute {
            place: self.place(&raw.at)?,
            cpu_seconds: self.duration("compute.cpu", raw.cpu)?,
            threads: self.count("compute.threads", raw.threads, 1.0, 1.0)?,
            program_memory: raw.program_memory.map_or(0.0, |size| size.0),
            startup: self.duration("compute.startup", raw.startup)?,
            loading: raw.loading,
            client: raw.client.clone().unwrap_or_else(|| "firstbyte".to_owned()),
            network: raw.network,
            spot: raw.spot,
            interrupted: percent / 100.0,
        })
    }

    /// Parses `lambda:3008MB`, or the name of a machine. AWS Lambda writes MB but means 2^20 bytes.
    fn place(&self, text: &str) -> Result<ComputePlace, FileError> {
        if text == "lambda" {
            return self.error("compute.at", "a function has a memory; write for example lambda:3008MB");
        }
        let Some(memory) = text.strip_prefix("lambda:") else {
            return Ok(ComputePlace::Machine(text.strip_prefix("ec2:").unwrap_or(text).to_owned()));
        };
        let size = match bytes(memory) {
            Ok(size) => size.0,
            Err(error) => return self.error("compute.at", error.to_string()),
        };
        let decimal = !memory.to_ascii_lowercase().contains("ib");
        let mib = if decimal { size / 1e6 } else { size / 1_048_576.0 };
        if !(128.0..=10_240.0).contains(&mib) {
            return self.error("compute.at", "a function has 128 MB to 10,240 MB of memory");
        }
        Ok(ComputePlace::Lambda(mib * 1_048_576.0))
    }

    /// Refuses values that contradict each other.
    fn check_consistency(&self, workload: &Workload) -> Result<(), FileError> {
        let (compute, jobs) = (&workload.compute, &workload.jobs);
        let least = compute.startup + compute.cpu_seconds / compute.threads;
        let busy = jobs.per_day * least;
        if busy > jobs.at_once * SECONDS_PER_DAY * (1.0 + 1e-9) {
            let needed = (busy / SECONDS_PER_DAY).ceil();
            let what = format!(
                "{} jobs of at least {} do not fit into a day, {} at a time: give at_once = {needed}",
                jobs.per_day,
                shown_seconds(least),
                jobs.at_once
            );
            return self.error("jobs.per_day", what);
        }
        match workload.goal.deadline {
            Some(deadline) if deadline < compute.startup => self
                .error("goal.deadline", format!("ends before `startup`, {}", shown_seconds(compute.startup))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[data]\nsize = \"5 GB\"\n[compute]\nat = \"lambda:3008MB\"\n";

    #[test]
    fn absent_fields_have_defaults_that_are_listed() {
        let workload = of_text(SMALL).unwrap();
        assert_eq!(workload.data.read, 5e9);
        assert_eq!(workload.compute.place, ComputePlace::Lambda(3_008.0 * 1_048_576.0));
        assert_eq!(workload.compute.loading, Loading::Either);
        assert_eq!((workload.jobs.at_once, workload.goal.deadline), (1.0, None));
        assert_eq!(workload.assumed, ["1 job a day", "1 at a time", "us-east-1", "requests or files"]);
        let mut elsewhere = workload;
        elsewhere.set_region("eu-west-1");
        assert_eq!(elsewhere.assumed, ["1 job a day", "1 at a time", "requests or files"]);
    }

    #[test]
    fn options_make_the_same_workload_as_a_file() {
        let options = [("data", "5GB".to_owned()), ("at", "lambda:3008MB".to_owned())];
        assert_eq!(of_options(&options).unwrap(), of_text(SMALL).unwrap());
        let error = |name, text: &str| {
            let mut options = options.to_vec();
            options.retain(|(known, _)| *known != name);
            options.push((name, text.to_owned()));
            of_options(&options).unwrap_err().to_string()
        };
        assert_eq!(error("data", "5"), "--data: `5` has no unit; write for example \"254 GiB\"");
        assert!(error("files", "many").starts_with("--files: "), "{}", error("files", "many"));
        assert!(error("passes", "1e290").starts_with("--passes: "), "{}", error("passes", "1e290"));
        assert!(error("read", "6GB").starts_with("--read: 6.00 GB read of 5.00 GB"));
        assert!(error("at", "lambda").ends_with("lambda:3008MB"), "{}", error("at", "lambda"));
    }

    #[test]
    fn values_that_contradict_each_other_are_refused_at_their_line() {
        let error = |more: &str| of_text(&format!("{SMALL}{more}")).unwrap_err().to_string();
        let busy = error("cpu = \"1 h\"\n[jobs]\nper_day = 1000\n");
        assert_eq!(
            busy,
            "line 7: jobs.per_day: 1000 jobs of at least 60.0 min do not fit into a day, 1 at a time: give at_once = 42"
        );
        assert!(error("startup = \"40 s\"\n[goal]\ndeadline = \"29 s\"\n").contains("ends before `startup`"));
        assert!(error("interrupted_percent = 100\n").contains("leaves none"));
        assert!(of_text(&SMALL.replace("5 GB\"", "5 B\"\nfiles = 10")).is_err());
    }
}
