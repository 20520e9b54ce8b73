//! Reads the inputs of the worked example from the embedded `examples/blast.toml`: the figures and
//! statements of the report.

use serde::Deserialize;

use crate::units::GIB;

/// The file with the report's inputs.
const FILE: &str = include_str!("../../examples/blast.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    pub(super) jobs_a_month: f64,
    pub(super) waiting_per_hour: f64,
    pub(super) job_memory_gb: f64,
    pub(super) test_days: Vec<f64>,
    pub(super) database: Database,
    pub(super) query: [Query; 4],
    pub(super) efs: Efs,
    pub(super) fsx: Fsx,
    pub(super) report: Report,
    pub(super) claims: Claims,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Database {
    pub(super) bytes: f64,
    pub(super) files: u32,
    pub(super) bases_per_batch: f64,
    pub(super) largest_query_bytes: f64,
}

/// Seconds of one query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    pub(super) sequences: f64,
    pub(super) efs: f64,
    pub(super) efs_job: f64,
    pub(super) partly: f64,
    pub(super) four: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Efs {
    pub(super) loading_seconds: f64,
    pub(super) client_mib_per_second: f64,
    pub(super) older_client_mib_per_second: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fsx {
    pub(super) capacity: f64,
    pub(super) disk_mb_per_second_per_tib: f64,
    pub(super) network_burst_mb_per_second_per_tib: f64,
    pub(super) memory_gib_per_tib: f64,
    pub(super) jobs_at_once: f64,
    pub(super) dd_seconds: f64,
}

/// Figures of the report that are reproduced.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) efs_ec2: [f64; 4],
    pub(super) efs_throughput: f64,
    pub(super) efs_job: [f64; 4],
    pub(super) fsx_ec2: [f64; 4],
    pub(super) efs_storage: f64,
    pub(super) efs_month_reads: f64,
    pub(super) efs_month_ec2: f64,
    pub(super) efs_month: f64,
    pub(super) fsx_storage: f64,
    pub(super) fsx_month_ec2: f64,
    pub(super) fsx_month: f64,
    pub(super) times_slower: f64,
    pub(super) times_month: f64,
    pub(super) times_total: f64,
    pub(super) hours: [f64; 2],
    pub(super) waiting: [f64; 2],
    pub(super) with_waiting: [f64; 2],
    pub(super) exact_waiting: [f64; 2],
    pub(super) exact_with_waiting: [f64; 2],
    pub(super) test_days: f64,
    pub(super) mb_per_second_each: f64,
}

/// Statements of the report that its figures do not bear out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claims {
    pub(super) about_a_job: f64,
    pub(super) eight_runs: f64,
    pub(super) billed_reads: [f64; 2],
    pub(super) slower: [f64; 2],
    pub(super) first_environment_mb_per_second: f64,
    pub(super) fsx_from_jobs_a_day: f64,
    pub(super) eight_jobs_month: f64,
    pub(super) heavy_month: f64,
}

impl Inputs {
    /// The embedded file.
    pub(super) fn load() -> Self {
        toml::from_str(FILE).expect("the embedded inputs are valid")
    }

    /// The query of the monthly comparison.
    pub(super) fn largest(&self) -> &Query {
        &self.query[3]
    }
}

impl Database {
    pub(super) fn gib(&self) -> f64 {
        self.bytes / GIB
    }

    pub(super) fn gb(&self) -> f64 {
        self.bytes / 1e9
    }

    /// Seconds to read all of it.
    pub(super) fn seconds_at(&self, mb_per_second: f64) -> f64 {
        self.bytes / (mb_per_second * 1e6)
    }
}

impl Fsx {
    /// TiB of it: as the report counts its 1.2 TB, and as AWS sells 1,200 GiB.
    pub(super) fn tib(&self) -> [f64; 2] {
        [self.capacity / 1000.0, self.capacity / 1024.0]
    }

    /// MB/s of its disks, by each count of its size.
    pub(super) fn disk(&self) -> [f64; 2] {
        self.tib().map(|tib| tib * self.disk_mb_per_second_per_tib)
    }
}
