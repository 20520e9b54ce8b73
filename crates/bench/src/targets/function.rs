//! Puts an emulated network link between each job and its target for `--function`, so that the job
//! has the network of a serverless function.
//!
//! The link of a local target is a slow file system. The link of a remote target is a proxy, which
//! passes bytes unchanged. TLS is refused, because the certificate of the server does not name the
//! proxy.

use super::Request;
use super::probe::Target;
use crate::plan::Service;
use crate::slow_link::{LINK_NAME, proxy, slow_directory};
use crate::words::literal;

/// A target behind its link. All texts are words of a plan, with placeholders.
pub(super) struct LinkedTarget {
    /// Link service, one instance for each job.
    pub(super) service: Service,
    /// Location of the target for the job.
    pub(super) location: String,
    /// Global options for the job.
    pub(super) options: Vec<String>,
}

/// Puts a link between the jobs and a target.
pub(super) fn link(target: &Target, request: &Request) -> Result<LinkedTarget, String> {
    if target.local {
        return Ok(directory(&target.location, request));
    }
    let location = &target.location;
    let (base, location) = match location.split_once("://") {
        Some(("http" | "https", _)) => {
            let (base, path) = split_url(location);
            (base.to_owned(), format!("{{{LINK_NAME}.url}}{}", literal(path)))
        }
        _ => (request.endpoint.clone().unwrap_or_else(|| "https:".into()), literal(location)),
    };
    let Some(rest) = base.strip_prefix("http://") else {
        return Err(format!(
            "--function: {}: its link does not work with TLS; use an http endpoint, run inside a function, or \
             limit memory and processors alone with --memory-limit and --cpus",
            target.location
        ));
    };
    let (host, path) = split_url(rest);
    let mut options = request.options.clone();
    if let Some(at) = options.iter().position(|word| word == "--endpoint-url") {
        options.drain(at..at + 2);
    }
    if !location.starts_with('{') {
        options.extend(["--endpoint-url".into(), format!("{{{LINK_NAME}.url}}{path}")]);
    }
    let to = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    Ok(LinkedTarget { service: proxy(&to), location, options })
}

/// Makes the slow file system over the directory of a local target.
fn directory(location: &str, request: &Request) -> LinkedTarget {
    let path = std::path::absolute(location).unwrap_or_else(|_| location.into());
    let (root, below) = match (path.is_dir(), path.parent(), path.file_name()) {
        (false, Some(parent), Some(name)) => (parent, format!("/{}", name.to_string_lossy())),
        _ => (&*path, String::new()),
    };
    let service = slow_directory(&literal(&root.display().to_string()), &["--preset", "function"]);
    let location = format!("{{{LINK_NAME}.dir}}/mnt{}", literal(&below));
    LinkedTarget { service, location, options: request.options.clone() }
}

/// Splits a URL, with or without its scheme, before the path.
fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    url.split_at(url[host..].find('/').map_or(url.len(), |at| host + at))
}

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;

    fn link_case(location: &str, endpoint: Option<&str>) -> Result<LinkedTarget, String> {
        let local = !location.contains("://");
        let target = Target { location: location.into(), local, found: Found::Object(1), class: None };
        let options = endpoint.map_or(Vec::new(), |url| vec!["--endpoint-url".into(), url.into()]);
        let request = Request { endpoint: endpoint.map(str::to_owned), options, ..Request::default() };
        link(&target, &request)
    }

    #[test]
    fn a_job_reaches_its_target_through_its_link() {
        let one = link_case("s3://b/k", Some("http://127.0.0.1:9000/base")).unwrap();
        assert!(one.service.command.contains(&"127.0.0.1:9000".to_owned()) && one.service.for_each_job);
        assert_eq!(one.location, "s3://b/k");
        assert_eq!(one.options, ["--endpoint-url", "{function.url}/base"]);
        let two = link_case("http://host/dir/file", None).unwrap();
        assert!(two.service.command.contains(&"host:80".to_owned()));
        assert_eq!((two.location.as_str(), two.options.len()), ("{function.url}/dir/file", 0));
        let three = link_case("/etc/hostname", None).unwrap();
        assert_eq!(three.location, "{function.dir}/mnt/hostname");
        assert!(three.service.command.contains(&"/etc".to_owned()));
    }

    #[test]
    fn tls_is_refused_with_advice() {
        for (location, endpoint) in
            [("https://host/file", None), ("s3://b/k", None), ("s3://b/k", Some("https://host"))]
        {
            let error = link_case(location, endpoint).err().unwrap();
            assert!(error.contains("TLS") && error.contains("--memory-limit"), "{error}");
        }
    }
}
