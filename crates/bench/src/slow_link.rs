//! Makes services that put the network of a serverless function between a job and its target: a
//! proxy, or a slow file system. Called for the targets of `--function` and by the host for
//! functions.

use crate::plan::{Ready, Service};

/// Name of these services, for placeholders.
pub(crate) const LINK_NAME: &str = "function";

/// Returns the proxy for a server `to`, with the network of a function.
pub(crate) fn proxy(to: &str) -> Service {
    service(&["{firstbyte}", "--json", "link", "--to", to, "--preset", "function"], Ready::Address)
}

/// Returns a slow file system that shows the directory `root` as `mnt`. `options` are options of
/// `firstbyte link`.
pub(crate) fn slow_directory(root: &str, options: &[&str]) -> Service {
    // `link` needs an existing mount point.
    let make = "mkdir mnt && exec \"$@\"";
    let command = ["sh", "-c", make, "sh", "{firstbyte}", "--json", "link", "--mount", "mnt", "--to", root];
    service(&[&command[..], options].concat(), Ready::Line)
}

fn service(command: &[&str], ready: Ready) -> Service {
    Service {
        name: LINK_NAME.into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ready,
        stand_in: Some("link function: 0.6 Gbit/s sustained and 20 ms for each job".into()),
        for_each_job: true,
        ..Service::default()
    }
}
