//! The services that put the network of a serverless function before a job: a proxy, or a slow file
//! system. Called for the targets of `--function` and by the host for functions.

use crate::plan::{Ready, Service};

/// Name of the service.
pub(crate) const LINK: &str = "function";

/// The network of a function before the server `to`.
pub(crate) fn proxy(to: &str) -> Service {
    service(&["{firstbyte}", "--json", "link", "--to", to, "--preset", "function"], Ready::Address)
}

/// A slow file system, with these options of `link`, that shows the directory `root` as `mnt`.
pub(crate) fn slow_directory(root: &str, options: &[&str]) -> Service {
    // A link shows a directory at one that exists.
    let make = "mkdir mnt && exec \"$@\"";
    let command = ["sh", "-c", make, "sh", "{firstbyte}", "--json", "link", "--mount", "mnt", "--to", root];
    service(&[&command[..], options].concat(), Ready::Line)
}

fn service(command: &[&str], ready: Ready) -> Service {
    Service {
        name: LINK.into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ready,
        stand_in: Some("link function: 0.6 Gbit/s sustained and 20 ms for each job".into()),
        for_each_job: true,
        ..Service::default()
    }
}
