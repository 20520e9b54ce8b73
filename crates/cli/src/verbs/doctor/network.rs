//! Checks proxies, credentials and the S3 endpoint, and compares the clock with the endpoint's
//! clock. Reports where credentials come from, never their values. Called by `doctor`.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use firstbyte::environment::{self, VariableLookup};
use firstbyte::{Client, Error};
use firstbyte_location::{HttpUrl, Location, ObjectLocation, Service, redacted};
use firstbyte_store::{EndpointSource, Error as StoreError, ListOptions, Proxy, StoreOptions};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::DoctorFinding;
use crate::globals::Globals;

/// Time after which an endpoint that has not answered counts as unreachable.
pub(super) const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for all checks of the endpoint, including waits in the credential chain.
const ENDPOINT_CHECK_LIMIT: Duration = Duration::from_secs(8);
/// Minimum clock skew that is reported, in seconds. S3 refuses signatures only from 15 minutes, but
/// a smaller skew already shows that the clock is wrong.
pub(super) const REPORTED_SKEW_SECONDS: i64 = 60;

/// Name of the finding about the S3 endpoint.
const ENDPOINT: &str = "S3 endpoint";

pub(super) fn look(globals: &Globals) -> Vec<DoctorFinding> {
    let lookup: VariableLookup<'_> = &environment::variable;
    let mut findings = vec![proxies(lookup), credentials(globals, lookup)];
    match endpoint(globals) {
        Ok((url, chosen)) => findings.extend([reach(globals, &url, &chosen), clock(&url)]),
        Err(error) => {
            findings.push(DoctorFinding::warn(
                ENDPOINT,
                error.to_string(),
                "check --profile, --region and their variables",
            ));
        }
    }
    findings.extend(named_endpoints(globals));
    findings
}

/// Reports the endpoints that the configuration file names. Sends no requests.
fn named_endpoints(globals: &Globals) -> Vec<DoctorFinding> {
    const WHAT: &str = "named endpoint";
    let wrong = |error: Error| {
        DoctorFinding::warn(WHAT, error.to_string(), "correct it in ~/.config/firstbyte/config.toml")
    };
    // If no store can be made with the options, the finding about the S3 endpoint says so.
    let Ok(store) = globals.store() else { return Vec::new() };
    let names = match store.endpoint_names() {
        Ok(names) => names,
        Err(error) => return vec![wrong(error.into())],
    };
    let finding = |name| {
        let service = Service::NamedS3(name);
        match store.endpoint_of(service) {
            Ok(found) => {
                let region = found.region.map(|region| format!(", region {region}")).unwrap_or_default();
                DoctorFinding::ok(WHAT, format!("{service}:// is {}{region}", redacted(&found.url)))
            }
            Err(error) => wrong(error.into()),
        }
    };
    names.into_iter().map(finding).collect()
}

fn proxies(lookup: VariableLookup<'_>) -> DoctorFinding {
    let proxies = environment::proxies(lookup);
    let used: Vec<String> = [("http", proxies.http), ("https", proxies.https)]
        .into_iter()
        .filter_map(|(scheme, proxy)| {
            let Proxy { url, variable } = proxy?;
            Some(format!("{scheme} by {} ({variable})", without_secrets(&url)))
        })
        .collect();
    if used.is_empty() {
        return DoctorFinding::ok("proxies", "none");
    }
    DoctorFinding::ok(
        "proxies",
        format!("{}; direct: {}", used.join(", "), proxies.bypass.join(" ")).trim_end_matches("; direct: "),
    )
}

/// Removes user and password from a URL.
fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        _ => url.to_owned(),
    }
}

/// Reports which sources of the AWS credential chain contain credentials, in the order of the
/// chain.
fn credentials(globals: &Globals, lookup: VariableLookup<'_>) -> DoctorFinding {
    const WHAT: &str = "credentials";
    if globals.no_sign_request {
        return DoctorFinding::ok(WHAT, "not used (--no-sign-request)");
    }
    let found = places(globals.profile.as_deref(), lookup);
    if let Some(half) = half_of_a_key(lookup) {
        return DoctorFinding::warn(WHAT, half, "set both variables, or neither of them");
    }
    if found.is_empty() {
        let advice = "fine on an instance with a role; else set AWS_PROFILE or AWS_ACCESS_KEY_ID, or use --no-sign-request";
        return DoctorFinding::warn(WHAT, "missing: none in the environment or in files", advice);
    }
    DoctorFinding::ok(WHAT, found.join(", "))
}

/// Describes a key in the environment of which one variable is set and the other is missing or
/// empty; `None` if there is no such key.
fn half_of_a_key(lookup: VariableLookup<'_>) -> Option<String> {
    let [id, secret] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let is_set = |name: &str| lookup(name).is_some_and(|value| !value.is_empty());
    let (there, missing) = match (is_set(id), is_set(secret)) {
        (true, false) => (id, secret),
        (false, true) => (secret, id),
        _ => return None,
    };
    Some(format!("{there} is set without {missing}"))
}

fn places(profile: Option<&str>, lookup: VariableLookup<'_>) -> Vec<String> {
    let mut places = Vec::new();
    if lookup("AWS_ACCESS_KEY_ID").is_some() && lookup("AWS_SECRET_ACCESS_KEY").is_some() {
        places.push("environment (AWS_ACCESS_KEY_ID)".to_owned());
    }
    let profile =
        profile.map(str::to_owned).or_else(|| lookup("AWS_PROFILE")).unwrap_or_else(|| "default".into());
    let home = lookup("HOME").map(PathBuf::from).unwrap_or_default();
    for (variable, name, section) in [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", format!("[{profile}]")),
        (
            "AWS_CONFIG_FILE",
            "config",
            if profile == "default" { "[default]".into() } else { format!("[profile {profile}]") },
        ),
    ] {
        let path = lookup(variable).map_or_else(|| home.join(".aws").join(name), PathBuf::from);
        if has_section(&path, &section) {
            places.push(format!("profile {profile} in {}", path.display()));
        }
    }
    for (variable, what) in [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "web identity"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "container role"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "container role"),
    ] {
        places.extend(lookup(variable).map(|_| format!("{what} ({variable})")));
    }
    places
}

fn has_section(path: &Path, section: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.trim() == section))
}

/// Returns the endpoint for S3 requests, and the setting that determined it.
fn endpoint(globals: &Globals) -> firstbyte::Result<(String, String)> {
    let found = globals.store()?.endpoint_of(Service::S3)?;
    let chosen = match found.source {
        EndpointSource::Aws => match found.region {
            Some(region) => format!("AWS's, for region {region}; no endpoint is set"),
            None => "AWS's; no endpoint and no region are set".to_owned(),
        },
        source => source.setting(globals.endpoint_setting()).unwrap_or_default().to_owned(),
    };
    Ok((found.url, chosen))
}

/// Lists the endpoint's buckets. No smaller request shows both that the endpoint is reachable and
/// that it accepts the credentials.
fn reach(globals: &Globals, url: &str, chosen: &str) -> DoctorFinding {
    let timeout = ENDPOINT_TIMEOUT.min(globals.read_timeout.get());
    let options = globals.options();
    let store =
        StoreOptions { read_deadline: timeout, connect_deadline: timeout, retries: 0, ..options.store };
    let options = firstbyte::ClientOptions { store, ..options };
    let (send, receive) = mpsc::channel();
    // The credential chain may wait for the metadata service of an instance. If that takes too
    // long, this function returns and leaves the thread behind.
    let started = thread::Builder::new().spawn(move || {
        let service = Location::Object(ObjectLocation {
            service: Service::S3,
            bucket: String::new(),
            key: String::new(),
        });
        let first = Client::waiting(options).and_then(|client| {
            Ok(client.store().list(&service, &ListOptions::default())?.next().transpose()?)
        });
        // Sending fails if the caller has stopped waiting.
        let _ = send.send(first);
    });
    if let Err(error) = started {
        return DoctorFinding::warn(ENDPOINT, format!("not asked: no thread: {error}"), "allow more threads");
    }
    let url = format!("{} ({chosen})", redacted(url));
    let warn =
        |why: &str, advice: &str| DoctorFinding::warn(ENDPOINT, format!("{url}: {why}"), advice.to_owned());
    match receive.recv_timeout(ENDPOINT_CHECK_LIMIT) {
        Ok(Ok(_)) => DoctorFinding::ok(ENDPOINT, format!("{url}: answers, and lists buckets")),
        Ok(Err(Error::Store(StoreError::Credentials { .. }))) => {
            warn("not asked: credentials are missing", "set credentials, or use --no-sign-request")
        }
        Ok(Err(
            error @ Error::Store(
                StoreError::Unreachable { .. }
                | StoreError::TimedOut { .. }
                | StoreError::Disconnected { .. },
            ),
        )) => warn(
            &error.to_string(),
            &error.advice().unwrap_or_else(|| "check the address, --endpoint-url and the firewall".into()),
        ),
        Ok(Err(Error::Store(StoreError::Denied { detail, .. }))) => DoctorFinding::ok(
            ENDPOINT,
            format!(
                "{url}: answers; listing all buckets is denied ({detail}), single ones may still be readable"
            ),
        ),
        Ok(Err(error)) => warn(&error.to_string(), "check --endpoint-url: this is not how S3 answers"),
        Err(_) => warn("no answer within 8 s", "check the credential sources and the network"),
    }
}

/// Compares the clocks using the `Date` header of an unencrypted response. The endpoints of AWS
/// also answer on port 80.
fn clock(url: &str) -> DoctorFinding {
    const WHAT: &str = "clock";
    let Some(host) = plain_host(url) else {
        return DoctorFinding::ok(WHAT, "not compared: the endpoint speaks TLS only");
    };
    match date_of(&host) {
        Some(date) => {
            let skew = OffsetDateTime::from(SystemTime::now()).unix_timestamp() - date.unix_timestamp();
            let found = format!("{skew:+} s from the endpoint's");
            if skew.abs() > REPORTED_SKEW_SECONDS {
                DoctorFinding::warn(
                    WHAT,
                    found,
                    "set the clock (NTP): S3 refuses signatures that are 15 minutes off",
                )
            } else {
                DoctorFinding::ok(WHAT, found)
            }
        }
        None => DoctorFinding::ok(WHAT, "not compared: the endpoint gave no time"),
    }
}

/// Returns the `HOST:PORT` at which the endpoint answers without TLS; `None` if there is no such
/// port.
fn plain_host(url: &str) -> Option<String> {
    let Ok(Location::Http(HttpUrl { tls, authority, .. })) = Location::parse(url.as_ref()) else {
        return None;
    };
    let port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (tls, port) {
        (false, true) => Some(authority),
        (false, false) => Some(format!("{authority}:80")),
        (true, false) if authority.ends_with(".amazonaws.com") => Some(format!("{authority}:80")),
        (true, _) => None,
    }
}

fn date_of(host: &str) -> Option<OffsetDateTime> {
    let address = host.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, ENDPOINT_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(ENDPOINT_TIMEOUT)).ok()?;
    stream
        .write_all(format!("HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    // A response head has a few hundred bytes. The limit is for a server whose head never ends.
    stream.take(16 << 10).read_to_string(&mut answer).ok()?;
    date_in(&answer)
}

fn date_in(head: &str) -> Option<OffsetDateTime> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim().replace("GMT", "+0000"))
    });
    OffsetDateTime::parse(&value?, &Rfc2822).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_proxy_urls_are_not_shown() {
        assert_eq!(without_secrets("http://user:secret@proxy:3128"), "http://proxy:3128");
        assert_eq!(without_secrets("user:p@ss@proxy:3128"), "proxy:3128");
        assert_eq!(without_secrets("http://proxy:3128"), "http://proxy:3128");
    }

    #[test]
    fn credentials_are_named_by_their_place() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/config"), "[profile lab]\nregion = x\n").unwrap();
        let home = home.path().to_str().unwrap().to_owned();
        let lookup = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("very-secret".to_owned()),
            "AWS_PROFILE" => Some("lab".to_owned()),
            "HOME" => Some(home.clone()),
            _ => None,
        };
        let places = places(None, &lookup).join(", ");
        assert!(places.contains("AWS_ACCESS_KEY_ID") && places.contains("profile lab in"), "{places}");
        assert!(!places.contains("very-secret"));
        assert_eq!(half_of_a_key(&lookup), None);
        let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "very-secret".to_owned());
        let found = half_of_a_key(&half).unwrap();
        assert_eq!(found, "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY");
    }

    #[test]
    fn the_date_is_read_from_any_head() {
        let date = date_in("HTTP/1.1 200 OK\r\nDATE: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n").unwrap();
        assert_eq!(date.unix_timestamp(), 784_111_777);
        assert!(date_in("HTTP/1.1 200 OK\r\n\r\n").is_none());
        assert!(date_in("Date: tomorrow\r\n").is_none());
    }

    #[test]
    fn only_plain_endpoints_are_asked_for_the_time() {
        assert_eq!(plain_host("http://127.0.0.1:9000").as_deref(), Some("127.0.0.1:9000"));
        assert_eq!(plain_host("http://host").as_deref(), Some("host:80"));
        assert_eq!(
            plain_host("https://s3.us-east-1.amazonaws.com").as_deref(),
            Some("s3.us-east-1.amazonaws.com:80")
        );
        assert_eq!(plain_host("https://minio:9000"), None);
    }
}
