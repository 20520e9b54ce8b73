//! Makes the library's client for a job, from global options in the form of the command line.

use firstbyte::{Client, ClientOptions, environment};
use firstbyte_store::StoreCounts;
use firstbyte_transfer::{Concurrency, Summary};

use crate::job::{Error, Job, Metrics, Order, Result, Workload};

/// Global options without a value.
const SWITCHES: &[&str] = &["--no-sign-request", "--request-payer", "--allow-plain-redirects"];
/// Global options that only change the output of the command line. A client ignores them.
const IGNORED: &[&str] = &["-q", "--quiet", "-v", "--verbose", "--json"];
/// Global options with a value.
const VALUES: &[&str] =
    &["--endpoint-url", "--profile", "--region", "--ca-bundle", "--read-timeout", "--memory", "--limit-rate"];

/// Makes a client with the job's options. The environment supplies all others.
pub(super) fn new(job: &Job) -> Result<Client> {
    let given = variables(&job.options)?;
    let lookup = |name: &str| {
        let found = given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        found.or_else(|| environment::variable(name))
    };
    let mut options = ClientOptions::from_lookup(&lookup)?;
    options.reads.cache.clone_from(&job.cache);
    if let Some(level) = lookup("FIRSTBYTE_CONCURRENCY").filter(|level| level != "auto") {
        options.copies.concurrency = Concurrency::Fixed(
            level
                .parse()
                .map_err(|_| Error::job(format!("--concurrency {level}: not a number, nor auto")))?,
        );
    }
    if job.workload == Workload::ManySmall && job.order == Order::Sequential {
        options.copies.concurrency = Concurrency::Fixed(1);
    } else if let Some(level) = job.concurrency {
        options.copies.concurrency = Concurrency::Fixed(level);
    }
    Ok(Client::new(options)?)
}

/// Returns the environment variables of the options: each option is also `FIRSTBYTE_<OPTION>`.
fn variables(options: &[String]) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let value = if IGNORED.contains(&name) {
            continue;
        } else if SWITCHES.contains(&name) {
            "true".to_owned()
        } else if VALUES.contains(&name) || name == "--concurrency" {
            let value = joined.or_else(|| words.next().cloned());
            value.ok_or_else(|| Error::job(format!("{name}: no value")))?
        } else {
            return Err(Error::job(format!("{word}: not a global option of firstbyte")));
        };
        let name = name.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
        found.push((format!("FIRSTBYTE_{name}"), value));
    }
    Ok(found)
}

/// Adds the counters of a store as metrics.
pub(super) fn add_counters(counters: &StoreCounts, metrics: &mut Metrics) {
    // A local path makes no requests.
    if counters.requests > 0 {
        metrics.insert("requests".into(), counters.requests as f64);
        metrics.insert("retries".into(), counters.retries as f64);
        metrics.insert("wire_bytes".into(), (counters.received + counters.sent) as f64);
    }
}

/// Adds the results of a copy as metrics.
pub(crate) fn add_summary(summary: &Summary, metrics: &mut Metrics) {
    for (name, value) in [
        ("objects", summary.objects),
        ("bytes", summary.bytes),
        ("requests", summary.requests),
        ("retries", summary.retries),
        ("hedged", summary.hedged),
        ("reread_bytes", summary.reread_bytes),
    ] {
        metrics.insert(name.into(), value as f64);
    }
    metrics.insert("copy_seconds".into(), summary.seconds);
    if let Some(seconds) = summary.first_byte_seconds {
        metrics.insert("copy_first_byte_seconds".into(), seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_are_the_variables_of_their_names() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = variables(&words("-q --endpoint-url http://h --no-sign-request --memory=8MiB")).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let wanted = [
            pair("FIRSTBYTE_ENDPOINT_URL", "http://h"),
            pair("FIRSTBYTE_NO_SIGN_REQUEST", "true"),
            pair("FIRSTBYTE_MEMORY", "8MiB"),
        ];
        assert_eq!(found, wanted);
        for (wrong, why) in [("--region", "no value"), ("--recursive", "not a global option")] {
            let error = variables(&words(wrong)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
