//! Maps buckets and keys of a gateway to locations at its origin. Does no I/O.
//!
//! A key goes to the origin unchanged. Stores differ on `.`, `..` and `..;` in a key: some resolve
//! them like paths, so that a key below an allowed prefix could name an object outside of it. Such
//! keys are refused for all stores.

use firstbyte_location::{Location, NULL_VERSION, ObjectLocation, Service, may_lead_out};

use super::error::GatewayRefusal;
use crate::config::Buckets;
use crate::error::{Error, Result};

/// The served location.
#[derive(Debug)]
pub(super) struct GatewayOrigin {
    /// The location as it was given.
    location: Location,
    /// The location of the only bucket, or of the service if several buckets are served.
    base: Location,
    /// The key prefix of all served objects, or the key of the only one; empty for all.
    scope: String,
    /// True if several buckets of the origin are served.
    has_buckets: bool,
}

impl GatewayOrigin {
    /// Maps `location` to buckets that clients see. By default, clients of an object store see the
    /// location's bucket with its keys unchanged. If a bucket name is given, the location itself is
    /// that bucket, and keys are relative to it.
    ///
    /// # Errors
    /// The location cannot be served.
    pub(super) fn new(location: &Location, requested: &Buckets) -> Result<(Self, Buckets)> {
        let setting = |why: &str| Error::Setting(format!("cannot serve {location}: {why}"));
        let named = |default: &str| match requested {
            Buckets::Named(name) => Buckets::Named(name.clone()),
            Buckets::FirstLevel => Buckets::Named(default.to_owned()),
        };
        let (base, scope, buckets) = match (location, requested) {
            (Location::Object(object), Buckets::FirstLevel) if object.bucket.is_empty() => {
                (location.clone(), String::new(), Buckets::FirstLevel)
            }
            (Location::Object(object), Buckets::Named(_)) if object.bucket.is_empty() => {
                return Err(setting("it has many buckets, which no --bucket can name; leave it out"));
            }
            (Location::Object(object), Buckets::FirstLevel) => {
                let scope = object.key.trim_end_matches('/').to_owned();
                (Location::Object(object.with_key("")), scope, named(&object.bucket))
            }
            (Location::Object(object), Buckets::Named(name)) => {
                let key = object.key.trim_end_matches('/');
                let key = if key.is_empty() { String::new() } else { format!("{key}/") };
                (Location::Object(object.with_key(key)), String::new(), named(name))
            }
            (Location::Http(url), _) if url.target.contains(['?', '#']) => {
                return Err(setting("a URL with a query has nothing below it; serve the directory of it"));
            }
            (Location::Http(url), _) => {
                let name = last_name(&url.target).unwrap_or_else(|| host(&url.authority));
                (location.join(b""), String::new(), named(name))
            }
            (Location::Sftp(place), _) => {
                let path = String::from_utf8_lossy(&place.path).into_owned();
                (location.clone(), String::new(), named(last_name(&path).unwrap_or("files")))
            }
            (Location::Local(_), _) => return Err(setting("a directory needs no gateway")),
        };
        let has_buckets = buckets == Buckets::FirstLevel;
        Ok((Self { location: location.clone(), base, scope, has_buckets }, buckets))
    }

    /// Returns the location as it was given.
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the key prefix of all served objects, or the key of the only one; empty for all.
    pub(super) fn scope(&self) -> &str {
        &self.scope
    }

    /// True if the first level of the origin is a list of buckets.
    pub(super) fn has_buckets(&self) -> bool {
        self.has_buckets
    }

    /// Returns the location with which a caller checks that bucket `name` exists. `None` if there
    /// is only one bucket.
    pub(super) fn bucket(&self, name: &str) -> std::result::Result<Option<Location>, GatewayRefusal> {
        if !self.has_buckets {
            return Ok(None);
        }
        check_names(name)?;
        Ok(Some(self.base.join(name.as_bytes())))
    }

    /// Returns the path that rights are checked against: the key, or `BUCKET/KEY` if several
    /// buckets are served.
    pub(super) fn path(&self, bucket: &str, key: &str) -> String {
        if self.has_buckets { format!("{bucket}/{key}") } else { key.to_owned() }
    }

    /// Returns the path of the object at `location`. `None` if it is not served.
    pub(super) fn path_of(&self, location: &Location) -> Option<String> {
        let (path, key) = match (location, &self.base, self.has_buckets) {
            (Location::Object(object), Location::Object(base), true) => {
                let path = format!("{}/{}", object.bucket, object.key);
                (Some(path).filter(|_| object.service == base.service)?, object.key.clone())
            }
            (_, base, _) => {
                let key = String::from_utf8(location.name_below(base)?).ok()?;
                (key.clone(), key)
            }
        };
        (!key.is_empty() && self.serves(&key) && check_names(&path).is_ok()).then_some(path)
    }

    /// True if a key is served.
    pub(super) fn serves(&self, key: &str) -> bool {
        let rest = key.strip_prefix(self.scope.as_str());
        self.scope.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True if some served key starts with `beginning`.
    pub(super) fn reaches(&self, beginning: &str) -> bool {
        self.serves(beginning) || self.scope.starts_with(beginning)
    }

    /// Returns the location of an object.
    ///
    /// # Errors
    /// The key is not served, or is not valid for any store.
    pub(super) fn locate(&self, bucket: &str, key: &str) -> std::result::Result<Location, GatewayRefusal> {
        check_names(key)?;
        if key.is_empty() {
            return Err(GatewayRefusal::BadKey("an object has a name"));
        }
        if !self.serves(key) {
            return Err(GatewayRefusal::NotFound);
        }
        self.place(bucket, key)
    }

    /// Returns the location of all keys that start with `prefix`, which is empty or ends in `/`.
    ///
    /// # Errors
    /// The same as for [`locate`](Self::locate).
    pub(super) fn directory(
        &self,
        bucket: &str,
        prefix: &str,
    ) -> std::result::Result<Location, GatewayRefusal> {
        check_names(prefix)?;
        self.place(bucket, prefix)
    }

    /// Returns the id of the version to request for the id of a request. `None`: the current
    /// version, which is the only one of a store without versions, and has the id `null` there.
    ///
    /// # Errors
    /// The origin keeps no versions, so there is none with this id.
    pub(super) fn version(&self, id: Option<&str>) -> std::result::Result<Option<String>, GatewayRefusal> {
        let Some(id) = id else { return Ok(None) };
        let (has_versions, has_null) = match &self.base {
            Location::Object(object) => {
                (object.service.is_s3() || object.service == Service::Google, object.service.is_s3())
            }
            _ => (false, false),
        };
        match id {
            NULL_VERSION if !has_null => Ok(None),
            id if has_versions => Ok(Some(id.to_owned())),
            _ => Err(GatewayRefusal::NoVersion),
        }
    }

    fn place(&self, bucket: &str, key: &str) -> std::result::Result<Location, GatewayRefusal> {
        let is_path = !matches!(self.base, Location::Object(_));
        if is_path && (key.starts_with('/') || key.contains("//")) {
            return Err(GatewayRefusal::BadKey(
                "the keys of this origin are paths, which have no empty names",
            ));
        }
        Ok(match (&self.base, self.has_buckets) {
            (Location::Object(object), true) => {
                check_names(bucket)?;
                let (bucket, key) = (bucket.to_owned(), key.to_owned());
                Location::Object(ObjectLocation { service: object.service, bucket, key })
            }
            // The key of the base is empty or ends in `/`.
            (Location::Object(object), false) => {
                Location::Object(object.with_key(format!("{}{key}", object.key)))
            }
            (_, _) if key.is_empty() => self.base.clone(),
            (base, _) => base.join(key.as_bytes()),
        })
    }
}

/// Refuses keys that stores interpret differently.
fn check_names(key: &str) -> std::result::Result<(), GatewayRefusal> {
    if may_lead_out(key.as_bytes()) {
        return Err(GatewayRefusal::BadKey(
            "a gateway passes on no key with `.` or `..` (nor `..;`): stores differ on what it names",
        ));
    }
    if key.contains('\0') {
        return Err(GatewayRefusal::BadKey("a key has no NUL byte"));
    }
    Ok(())
}

/// Returns the host in `USER:PASSWORD@HOST:PORT`, without brackets.
fn host(authority: &str) -> &str {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let end = if host.starts_with('[') { ']' } else { ':' };
    host.trim_start_matches('[').split(end).next().unwrap_or_default()
}

fn last_name(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str, bucket: Option<&str>) -> (GatewayOrigin, Buckets) {
        let requested = bucket.map_or(Buckets::FirstLevel, |name| Buckets::Named(name.to_owned()));
        GatewayOrigin::new(&Location::parse(text.as_ref()).unwrap(), &requested).unwrap()
    }

    #[test]
    fn keys_equal_the_origins_unless_the_location_gets_a_bucket_name() {
        for (text, bucket, name, key, at) in [
            ("s3://b", None, "b", "x/y", "s3://b/x/y"),
            ("s3://b/run", None, "b", "run/y", "s3://b/run/y"),
            ("s3://b/run/", Some("data"), "data", "y", "s3://b/run/y"),
            ("s3://b/run", Some("data"), "data", "y//z", "s3://b/run/y//z"),
            ("https://h:8/pub/db", None, "db", "a b", "https://h:8/pub/db/a%20b"),
            ("https://h:8", None, "h", "x", "https://h:8/x"),
            ("http://[::1]:8", None, "::1", "x", "http://[::1]:8/x"),
        ] {
            let (origin, buckets) = origin(text, bucket);
            assert_eq!(buckets, Buckets::Named(name.to_owned()), "{text}");
            assert_eq!(origin.locate(name, key).unwrap().to_string(), at, "{text}");
        }
        let (all, buckets) = origin("s3://", None);
        assert_eq!(buckets, Buckets::FirstLevel);
        assert_eq!(all.locate("b", "k").unwrap().to_string(), "s3://b/k");
    }

    #[test]
    fn nothing_outside_the_served_prefix_is_located() {
        let (origin, _) = origin("s3://b/run/7", None);
        for key in ["run/7/a", "run/7", "run/7//a"] {
            assert!(origin.locate("b", key).is_ok(), "{key}");
        }
        for key in [
            "run/70",
            "run/7-secret/a",
            "run/",
            "run",
            "a",
            "/run/7/a",
            "run/7/../8/a",
            "run/7/./a",
            "run/7/..\\a",
            "run/7/..;/8/a",
            "run/7/..;x=1/8/a",
        ] {
            assert!(origin.locate("b", key).is_err(), "{key}");
        }
        assert!(
            origin.reaches("") && origin.reaches("ru") && origin.reaches("run/7/x") && !origin.reaches("x")
        );
    }

    #[test]
    fn objects_outside_the_served_location_have_no_path() {
        let path = |served: &str, object: &str| {
            origin(served, None).0.path_of(&Location::parse(object.as_ref()).unwrap())
        };
        assert_eq!(path("s3://b/run", "s3://b/run/x").as_deref(), Some("run/x"));
        assert_eq!(path("s3://", "s3://b/x").as_deref(), Some("b/x"));
        assert_eq!(path("https://h/d/", "https://h/d/a%20b").as_deref(), Some("a b"));
        for (served, object) in [
            ("s3://b/run", "s3://b/run-2/x"),
            ("s3://b/run", "s3://b/run/../x"),
            ("s3://b", "s3://c/x"),
            ("s3://", "gs://b/x"),
            ("https://h/d/", "https://g/d/x"),
        ] {
            assert_eq!(path(served, object), None, "{object}");
        }
    }

    #[test]
    fn the_version_null_is_one_of_several_in_s3_and_the_only_one_elsewhere() {
        let version = |text: &str, id| origin(text, None).0.version(Some(id)).map_err(drop);
        assert_eq!(version("s3://b", "null"), Ok(Some("null".to_owned())));
        assert_eq!(version("s3://", "x"), Ok(Some("x".to_owned())));
        assert_eq!(version("gs://b", "7"), Ok(Some("7".to_owned())));
        for text in ["gs://b", "az://b", "https://h/d/"] {
            assert_eq!(version(text, "null"), Ok(None), "{text}");
        }
        for text in ["az://b", "https://h/d/"] {
            assert_eq!(version(text, "x"), Err(()), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        for (text, bucket) in [("s3://", Some("x")), ("https://h/x?a=b", None), ("/tmp", None)] {
            let requested = bucket.map_or(Buckets::FirstLevel, |name: &str| Buckets::Named(name.to_owned()));
            assert!(
                GatewayOrigin::new(&Location::parse(text.as_ref()).unwrap(), &requested).is_err(),
                "{text}"
            );
        }
        let (origin, _) = origin("https://h/x/", None);
        assert!(origin.locate("x", "a//b").is_err() && origin.locate("x", "/a").is_err());
    }
}
