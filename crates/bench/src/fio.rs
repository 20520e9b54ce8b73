//! Runs the program fio on local paths and parses its JSON.
//!
//! fio never creates files, writes or invalidates caches: the engine controls data and cache state.
//! Called by the workload `fio`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use crate::job::{Error, Fio, Metrics, ReadPattern, Result, program};

/// Parameters of one fio process tree.
#[derive(Clone, Debug)]
pub(crate) struct FioRun<'a> {
    /// File to read.
    pub(crate) path: &'a Path,
    /// Parameters that only fio has.
    pub(crate) fio: &'a Fio,
    /// Bytes per read.
    pub(crate) block: u64,
    /// Offset of the first byte.
    pub(crate) offset: u64,
    /// Bytes that all processes read together.
    pub(crate) size: u64,
    /// Number of processes.
    pub(crate) jobs: usize,
    /// Seed of random offsets.
    pub(crate) seed: u64,
}

impl FioRun<'_> {
    /// Returns the arguments of the command line.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { fio, jobs, .. } = self;
        let depth = fio.depth.unwrap_or(1);
        let engine = fio.engine.as_deref().unwrap_or(if depth > 1 { "libaio" } else { "psync" });
        let pattern = match fio.pattern {
            ReadPattern::Read => "read",
            ReadPattern::RandRead => "randread",
        };
        let share = self.size / *jobs as u64;
        let mut words: Vec<String> =
            ["--name=bench", "--output-format=json", "--readonly", "--group_reporting"]
                .into_iter()
                .chain(["--allow_file_create=0", "--invalidate=0", "--randrepeat=1", "--thread"])
                .map(str::to_owned)
                .collect();
        // fio separates file names by `:`.
        words.push(format!("--filename={}", self.path.to_string_lossy().replace(':', "\\:")));
        for (name, value) in [
            ("rw", pattern.to_owned()),
            ("bs", self.block.to_string()),
            ("ioengine", engine.to_owned()),
            ("iodepth", depth.to_string()),
            ("direct", u8::from(fio.direct).to_string()),
            ("numjobs", jobs.to_string()),
            ("offset", self.offset.to_string()),
            ("randseed", self.seed.to_string()),
        ] {
            words.push(format!("--{name}={value}"));
        }
        match fio.pattern {
            ReadPattern::Read => {
                words.extend([format!("--offset_increment={share}"), format!("--size={share}")])
            }
            ReadPattern::RandRead => {
                words.extend([format!("--size={}", self.size), format!("--io_size={share}")]);
            }
        }
        if let Some(seconds) = fio.seconds {
            words.push(format!("--runtime={seconds}"));
        }
        words
    }

    /// Runs fio and returns its metrics.
    pub(crate) fn run(&self) -> Result<Metrics> {
        let length = std::fs::metadata(self.path).map_err(Error::at(self.path))?.len();
        if self.size / (self.jobs as u64) < self.block || self.offset + self.size > length {
            let what = format!(
                "{length} bytes: too small for {} bytes from byte {} on by {} processes in blocks of {}",
                self.size, self.offset, self.jobs, self.block
            );
            return Err(Error::target(self.path.display().to_string(), what));
        }
        let mut command = Command::new("fio");
        command.args(self.arguments()).stdout(Stdio::piped());
        parse(&program::run(&mut command, "fio", "fio")?)
    }
}

/// Parses the metrics from fio's output.
fn parse(output: &Output) -> Result<Metrics> {
    let failed = |what: String| Error::Program { program: "fio".into(), what };
    // fio may print notes before the JSON.
    let start = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let report: Report = serde_json::from_slice(&output.stdout[start..])
        .map_err(|error| failed(format!("its JSON: {error}")))?;
    let Some(job) = report.jobs.first() else { return Err(failed("its report has no job".into())) };
    if job.error != 0 {
        return Err(failed(std::io::Error::from_raw_os_error(job.error).to_string()));
    }
    let read = &job.read;
    if read.total_ios == 0 {
        return Err(failed("it read nothing".into()));
    }
    let mut metrics = Metrics::new();
    let mut add = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
    add("bytes", read.io_bytes as f64);
    add("operations", read.total_ios as f64);
    add("operations_per_second", read.iops);
    add("bytes_per_second", read.bw_bytes);
    add("fio_seconds", read.runtime / 1e3);
    add("latency_mean_seconds", read.lat_ns.mean / 1e9);
    add("latency_max_seconds", read.lat_ns.max / 1e9);
    for (percentile, name) in [("50", "p50"), ("95", "p95"), ("99", "p99"), ("99.9", "p999")] {
        let wanted: f64 = percentile.parse().unwrap_or_default();
        let found = read.clat_ns.percentile.iter().find(|(key, _)| key.parse() == Ok(wanted));
        if let Some((_, value)) = found {
            add(&format!("latency_{name}_seconds"), value / 1e9);
        }
    }
    Ok(metrics)
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<JobReport>,
}

#[derive(Deserialize)]
struct JobReport {
    /// errno of the first failure, or 0.
    error: i32,
    read: ReadReport,
}

#[derive(Deserialize)]
struct ReadReport {
    io_bytes: u64,
    /// Bytes per second.
    bw_bytes: f64,
    iops: f64,
    /// Duration in milliseconds.
    runtime: f64,
    total_ios: u64,
    /// Latency from submission to completion.
    lat_ns: Latency,
    /// Latency from the kernel's acceptance to completion. Percentiles come from this latency.
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    max: f64,
    #[serde(default)]
    percentile: std::collections::BTreeMap<String, f64>,
}
