//! Suggests remedies that users can try after an error. The command line and Python print one after
//! the error.

use std::borrow::Cow;
use std::io;

use firstbyte_location::{PLACES_WITH_COLON, Service};

use super::{
    Error, REDIRECTS_TO, SFTP_PREFIX, VERSION_SEPARATOR, is_bucket, means_another_region, service_of,
};

impl Error {
    /// Returns a remedy that the user can try, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::NotFound { location, .. } => Some(not_found(location)),
            Self::Unreachable { endpoint, .. } if endpoint.starts_with(SFTP_PREFIX) => {
                Some("check the host and the port, and that ssh and sftp reach it".into())
            }
            Self::Unreachable { endpoint, named_by, detail, .. } => {
                Some(named_by.advice(endpoint, detail).into())
            }
            other => other.fixed_advice().map(Cow::Borrowed),
        }
    }

    /// Returns the remedy of an error that always has the same one.
    fn fixed_advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Server { message, .. } if message.starts_with(REDIRECTS_TO) => {
                "give that address with --endpoint-url"
            }
            Self::Server { code, .. } if means_another_region(code) => {
                "give the bucket's region with --region"
            }
            Self::Denied { detail, request, .. } => request.advice(detail),
            Self::Credentials { location, detail, .. } => no_credentials(location, detail),
            Self::CredentialsTimedOut { .. } => {
                "check the address, the network and the proxy variables, or allow a longer wait with \
                 --read-timeout"
            }
            Self::Disordered { .. } => "use cp, mv, rm, sync, check or ls, which sort the names themselves",
            Self::Archived { .. } => "restore it first: aws s3api restore-object",
            Self::Changed { expected, found, .. } if expected.differs_by_tag(found) => {
                "if it was not replaced, the servers behind this address disagree on its ETag: `firstbyte cat` reads it in \
                 one request"
            }
            Self::Changed { location, expected, found, .. }
                if location.starts_with("http") && found.size == expected.size =>
            {
                "run it again to copy the new version; if the server gives every answer another date or ETag, \
                 `firstbyte cat` reads it in one request"
            }
            Self::Changed { expected, found, .. } if found.file.is_some() && found.size > expected.size => {
                "run it again when nothing writes to it, or copy it to another file first"
            }
            Self::Changed { .. } => "run it again to copy the new version",
            Self::OwnTagRefused { .. } => "no server-side copy is possible: copy it to a local file first",
            Self::FalseLength { .. } => "cp and cat read it to its end",
            Self::Checksum { .. } => "run it again; if it fails again, the source is damaged",
            Self::NoBucket { .. } => "name one; `firstbyte ls` of this location lists them",
            Self::PastEnd { .. } => "begin the range before the end",
            Self::Certificate { fault, .. } => fault.advice(),
            Self::PlainRedirect { .. } => "if this is intended, allow it with --allow-plain-redirects",
            Self::TimedOut { .. } => "check the network, or allow a longer wait with --read-timeout",
            Self::Unresponsive { .. } => {
                "check the network; requests continue when the endpoint responds again"
            }
            Self::PricedElsewhere { .. } => "give its region with --region",
            Self::PricedOtherwise { .. } => "leave --budget out: retrieval may be billed too",
            Self::Budget { .. } => "run it again with a higher --budget: what has arrived is kept",
            Self::SlowDown { .. } => "lower --concurrency or --limit-rate",
            Self::CreateDirectory { source, .. } => match io_advice(source.kind()) {
                Some(advice) if source.kind() != io::ErrorKind::NotFound => advice,
                _ => "name another destination",
            },
            Self::Io { source, .. } => return io_advice(source.kind()),
            _ => return None,
        })
    }
}

/// Returns advice for a name that does not exist: a command that lists the existing names.
fn not_found(location: &str) -> Cow<'static, str> {
    let Some(service) = service_of(location) else {
        return match location {
            _ if location.starts_with(SFTP_PREFIX) => list_advice(parent(location)).into(),
            _ if location.starts_with("http") => "check the address".into(),
            _ if location.split('/').next().is_some_and(|first| first.contains(':')) => {
                format!("it is a path here; {PLACES_WITH_COLON}").into()
            }
            _ => "check the spelling".into(),
        };
    };
    if let Some((object, _)) = location.split_once(VERSION_SEPARATOR) {
        return format!("`firstbyte ls --versions {object}` lists the existing versions").into();
    }
    if is_bucket(location) {
        let owner = match service {
            Service::Google => "project",
            Service::NamedS3(_) => "endpoint",
            Service::S3 | Service::Azure => "account",
        };
        return format!("`firstbyte ls {service}://` lists those of this {owner}").into();
    }
    list_advice(parent(location)).into()
}

/// Returns advice with the command that lists a directory or prefix.
fn list_advice(directory: &str) -> String {
    format!("`firstbyte ls {directory}` shows what is there")
}

/// Returns the location up to the `/` before its last name.
fn parent(location: &str) -> &str {
    let name = location.trim_end_matches('/');
    name.rfind('/').map_or(location, |at| &location[..=at])
}

/// Detail of the error if the credentials would come from a session of `aws login`.
pub(crate) const LOGIN_SESSION: &str = "the session of `aws login` is read by aws-cli only";

/// Returns advice for a request without credentials.
fn no_credentials(location: &str, detail: &str) -> &'static str {
    match service_of(location) {
        Some(Service::Google) => {
            "set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or use \
             --no-sign-request for a public bucket"
        }
        Some(Service::Azure) => {
            "set AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, or AZURE_STORAGE_CONNECTION_STRING"
        }
        Some(Service::NamedS3(_)) => {
            "name a profile with keys in the endpoint's table of config.toml, or write sign = false there"
        }
        _ if location.starts_with(SFTP_PREFIX) => {
            "ssh must log in without a question: load the key into an agent, or name it in ~/.ssh/config"
        }
        _ if is_expired(detail) => {
            "log in again (`aws sso login`), or replace the expired keys; a session token belongs to its keys"
        }
        _ if detail.contains(LOGIN_SESSION) => {
            "run `eval \"$(aws configure export-credentials --format env)\"`, again when the session has ended"
        }
        _ => {
            "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws sso login`; a public bucket needs \
             --no-sign-request; on AWS, give the machine or task a role (in containers with an IMDS hop limit of 2)"
        }
    }
}

/// Returns true if the credentials exist but are no longer valid.
fn is_expired(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    ["expired", "invalidtoken", "tokenrefreshrequired"].iter().any(|word| detail.contains(word))
}

/// Returns advice after a failed system call on a path, if there is any.
#[must_use]
pub fn io_advice(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::NotFound => "check the spelling",
        io::ErrorKind::NotADirectory => {
            "part of this path is a file, or a file's name ends in `/`: name another path"
        }
        io::ErrorKind::IsADirectory => "name a file",
        io::ErrorKind::PermissionDenied => "check the permissions there, or choose another location",
        io::ErrorKind::ReadOnlyFilesystem => "choose a writable location",
        io::ErrorKind::StorageFull => "free some space and run it again to resume",
        io::ErrorKind::FileTooLarge => {
            "FAT allows 4 GiB a file, and `ulimit -f` may set a limit; choose another file system"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_has_the_command_that_lists_its_neighbours() {
        for (location, line) in [
            (
                "s3://lab/nothing/",
                "s3://lab/nothing/: no objects there; `firstbyte ls s3://lab/` shows what is there",
            ),
            ("s3://lab/a/b", "s3://lab/a/b: not found; `firstbyte ls s3://lab/a/` shows what is there"),
            ("s3://labb", "s3://labb: no such bucket; `firstbyte ls s3://` lists those of this account"),
            ("s3://labb/", "s3://labb/: no such bucket; `firstbyte ls s3://` lists those of this account"),
            ("gs://labb", "gs://labb: no such bucket; `firstbyte ls gs://` lists those of this project"),
            ("az://labb", "az://labb: no such container; `firstbyte ls az://` lists those of this account"),
            (
                "s3://lab/k, version 1",
                "s3://lab/k, version 1: not found; `firstbyte ls --versions s3://lab/k` lists the existing versions",
            ),
            (
                "sftp://host/a/b",
                "sftp://host/a/b: not found; `firstbyte ls sftp://host/a/` shows what is there",
            ),
            ("/a/b", "/a/b: not found; check the spelling"),
        ] {
            let error = Error::NotFound { location: location.into(), trace: None };
            assert_eq!(format!("{error}; {}", error.advice().unwrap()), line);
        }
    }

    #[test]
    fn advice_about_a_directory_that_cannot_be_created_is_not_about_spelling() {
        let line = |kind: io::ErrorKind| {
            let error = Error::CreateDirectory { location: "/proc/x".into(), source: kind.into() };
            format!("{error}; {}", error.advice().unwrap())
        };
        let missing = line(io::ErrorKind::NotFound);
        assert!(missing.starts_with("/proc/x: cannot create this directory ("), "{missing}");
        assert!(missing.ends_with("; name another destination"), "{missing}");
        assert!(line(io::ErrorKind::PermissionDenied).contains("permissions"));
    }

    #[test]
    fn advice_is_to_renew_expired_credentials_and_to_set_missing_ones() {
        let advice = |detail: &str| {
            let (location, detail) = ("s3://b/k".to_owned(), detail.to_owned());
            Error::Credentials { location, detail, trace: None }.advice().unwrap()
        };
        assert!(advice("ExpiredToken: The token has expired.").starts_with("log in again"));
        assert!(advice("the SSO token is expired").contains("aws sso login"));
        assert!(advice(LOGIN_SESSION).contains("export-credentials"));
        let none = advice("none in environment");
        assert!(["AWS_PROFILE", "role", "hop limit", "--no-sign-request"].iter().all(|it| none.contains(it)));
    }
}
