//! Remedies that users can try, by error. The edges print one after the error.

use std::io;

use firstbyte_location::Service;

use super::{
    Error, SETTING_SEPARATOR, SFTP, VERSION_SEPARATOR, WITHOUT_TLS, in_object_store, is_bucket,
    means_another_region, service_of,
};

impl Error {
    /// Returns a remedy that the user can try, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound { location, .. } => not_found(location),
            Self::Server { code, .. } if means_another_region(code) => {
                "give the bucket's region with --region"
            }
            Self::Denied { detail, request, .. } => request.advice(detail),
            Self::Credentials { location, .. } => no_credentials(location),
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
            Self::Changed { expected, found, .. } if found.file.is_some() && found.size > expected.size => {
                "run it again when nothing writes to it, or copy it to another file first"
            }
            Self::Changed { .. } => "run it again to copy the new version",
            Self::OwnTagRefused { .. } => "no server-side copy is possible: copy it to a local file first",
            Self::FalseLength { .. } => "cp and cat read it to its end",
            Self::Checksum { .. } => "run it again; if it fails again, the source is damaged",
            Self::Unreachable { endpoint, .. } if endpoint.starts_with(SFTP) => {
                "check the host and the port, and that ssh and sftp reach it"
            }
            Self::Unreachable { detail, .. } if detail == WITHOUT_TLS => "write http:// for it",
            Self::Unreachable { endpoint, .. } if endpoint.contains(SETTING_SEPARATOR) => {
                "check host and port there, and the proxy variables"
            }
            Self::Unreachable { .. } => {
                "check host and port (of S3: --endpoint-url, AWS_ENDPOINT_URL, the profile), and the proxy variables"
            }
            Self::Certificate { fault, .. } => fault.advice(),
            Self::PlainRedirect { .. } => "if this is intended, allow it with --allow-plain-redirects",
            Self::TimedOut { .. } => "check the network, or allow a longer wait with --read-timeout",
            Self::Unresponsive { .. } => {
                "check the network; requests continue when the endpoint responds again"
            }
            Self::Budget { .. } => "run it again with a higher --budget: what has arrived is kept",
            Self::SlowDown { .. } => "lower --concurrency or --limit-rate",
            Self::Io { source, .. } => return io_advice(source.kind()),
            _ => return None,
        })
    }
}

/// Returns advice for a name that is not found.
fn not_found(location: &str) -> &'static str {
    let service = service_of(location);
    match service {
        _ if location.contains(VERSION_SEPARATOR) => "list the existing versions: `firstbyte ls --versions`",
        Some(Service::Google) if is_bucket(location) => {
            "no such bucket; list those of this project: `firstbyte ls gs://`"
        }
        Some(Service::Azure) if is_bucket(location) => {
            "no such container; list those of this account: `firstbyte ls az://`"
        }
        Some(Service::NamedS3(_)) if is_bucket(location) => {
            "no such bucket; list those of the endpoint: `firstbyte ls s3+NAME://`"
        }
        _ if is_bucket(location) => "no such bucket; list those of this account: `firstbyte ls s3://`",
        _ if in_object_store(location).is_some() => {
            "check the spelling: `firstbyte ls` of its bucket or prefix shows the names"
        }
        _ if location.starts_with(SFTP) => {
            "check the spelling: `firstbyte ls` of its directory shows the names"
        }
        _ if location.starts_with("http") => "check the address",
        _ => "check the spelling",
    }
}

/// Returns advice for a request without credentials.
fn no_credentials(location: &str) -> &'static str {
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
        _ if location.starts_with(SFTP) => {
            "ssh must log in without a question: load the key into an agent, or name it in ~/.ssh/config"
        }
        _ => "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or use --no-sign-request for a public bucket",
    }
}

/// Returns advice after a failed operation of the operating system on a path, if there is any.
#[must_use]
pub fn io_advice(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::NotFound => "check the spelling",
        io::ErrorKind::NotADirectory => {
            "part of this path is a file, or a file's name ends in `/`; check the spelling"
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
