//! The workload `blast`: a search by the program blastn. Its output is not parsed; the engine can
//! compare the result file in the destination.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::access::{Session, destination};
use crate::job::{Error, Job, Metrics, Result, Watch, program};

/// Name of the results in the destination.
const RESULTS_FILE: &str = "results.tsv";

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let root = session.root().ok_or_else(|| Error::job("blast needs a path"))?;
    let query = job.query.as_deref().ok_or_else(|| Error::job("query is missing"))?;
    let sequences = count_sequences(query)?;
    let mut metrics = Metrics::new();
    let mut searches = Vec::new();
    let database = root.join(&job.database);
    for _ in 0..job.count.unwrap_or(1) {
        let began = watch.seconds();
        search(job, &database, query)?;
        searches.push(watch.seconds() - began);
    }
    watch.note(&mut metrics, "all_seconds");
    let total: f64 = searches.iter().sum();
    metrics.insert("sequences".into(), sequences as f64);
    metrics.insert("searches".into(), searches.len() as f64);
    metrics.insert("sequence_seconds".into(), total / (sequences as f64 * searches.len() as f64));
    metrics.insert("first_search_seconds".into(), searches[0]);
    let again = &mut searches[1..];
    again.sort_unstable_by(f64::total_cmp);
    if let Some(middle) = again.get(again.len() / 2) {
        // Median of the later searches, which find the caches warm.
        metrics.insert("next_search_seconds".into(), *middle);
    }
    metrics.insert("bytes".into(), bytes(&database)? as f64);
    Ok(metrics)
}

/// Sums the sizes of the files of a database. Their names begin with the name of the database and a
/// dot.
fn bytes(database: &Path) -> Result<u64> {
    let (Some(directory), Some(name)) = (database.parent(), database.file_name()) else {
        return Err(Error::job(format!("database {} has no name", database.display())));
    };
    let mut bytes = 0;
    for entry in fs::read_dir(directory).map_err(Error::at(directory))? {
        let entry = entry.map_err(Error::at(directory))?;
        let file = entry.file_name();
        let rest = file.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        if rest.is_some_and(|rest| rest.starts_with(b".")) {
            bytes += entry.metadata().map_err(Error::at(directory))?.len();
        }
    }
    Ok(bytes)
}

fn search(job: &Job, database: &Path, query: &Path) -> Result<()> {
    let results = match &job.destination {
        Some(_) => destination(job)?.join(RESULTS_FILE),
        None => "/dev/null".into(),
    };
    let mut command = Command::new("blastn");
    command.arg("-db").arg(database).arg("-query").arg(query).arg("-out").arg(results);
    command.args(["-outfmt", "6", "-num_threads", &job.concurrency.unwrap_or(1).to_string()]);
    if let Some(size) = job.batch_size {
        command.env("BATCH_SIZE", size.to_string());
    }
    program::run(command.stdout(Stdio::null()), "blastn", program::BLAST_PACKAGE)?;
    Ok(())
}

/// Counts the sequences in a FASTA file.
fn count_sequences(query: &Path) -> Result<usize> {
    let text = fs::read(query).map_err(Error::at(query))?;
    match text.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b'>')).count() {
        0 => Err(Error::target(query.display().to_string(), "has no sequence: not FASTA")),
        count => Ok(count),
    }
}
