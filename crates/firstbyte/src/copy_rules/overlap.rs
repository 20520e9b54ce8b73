//! Compares two locations: whether they are the same, or one is inside the other. The rules of
//! copies and moves call this.

use std::fs;

use firstbyte_location::Location;

/// How a destination is related to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// Neither location is inside the other.
    Apart,
    /// Both locations are the same.
    Same,
    /// The destination is below the source.
    Inside,
}

impl Overlap {
    /// Compares two locations. Local paths are resolved up to their last existing part.
    pub(super) fn of(source: &Location, destination: &Location) -> Self {
        let (from, to) = (absolute(source), absolute(destination));
        let inside = match (&from, &to) {
            _ if from == to => return Self::Same,
            (Location::Local(from), Location::Local(to)) => to.starts_with(from),
            (Location::Object(from), Location::Object(to)) => {
                (from.service, &from.bucket) == (to.service, &to.bucket) && to.key.starts_with(&from.key)
            }
            (Location::Sftp(_), Location::Sftp(_)) => to.name_below(&from).is_some(),
            _ => false,
        };
        if inside { Self::Inside } else { Self::Apart }
    }
}

/// Returns a location in canonical form: local paths are resolved up to their last existing part,
/// and prefixes end in `/`.
pub(super) fn absolute(location: &Location) -> Location {
    match location {
        Location::Local(path) => {
            let existing = path.ancestors().find_map(|part| {
                let part = if part.as_os_str().is_empty() { ".".as_ref() } else { part };
                Some((part, fs::canonicalize(part).ok()?))
            });
            Location::Local(match existing {
                Some((part, resolved)) => match path.strip_prefix(part) {
                    Ok(rest) if rest.as_os_str().is_empty() => resolved,
                    Ok(rest) => resolved.join(rest),
                    Err(_) => resolved.join(path),
                },
                None => path.clone(),
            })
        }
        Location::Object(object) if !location.is_directory_like() => {
            Location::Object(object.with_key(format!("{}/", object.key)))
        }
        Location::Sftp(place) if !location.is_directory_like() => {
            Location::Sftp(place.at([&place.path, &b"/"[..]].concat()))
        }
        _ => location.clone(),
    }
}
