//! Reads the endpoints in the user's configuration file. A table `[endpoint.lab]` defines
//! `s3+lab://`.
//!
//! The file is read when the first such location is used, so a fault in the file affects only runs
//! that use one. Each endpoint has its own credentials, connections and certificates. The counters
//! and the cancellation of the store cover all endpoints.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use firstbyte_location::EndpointName;
use rustix_futex_sync::Mutex;
use serde::Deserialize;

use super::S3;
use super::dialect::{Addressing, ListVersion, is_region};
use super::unusable_setting::UnusableSetting;
use crate::error::Result;
use crate::options::StoreOptions;
use crate::origin::Origin;
use crate::signing::Signing;
use crate::wire::WireClient;

/// The tables of the configuration file that this module reads.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointsFile {
    #[serde(default)]
    endpoint: BTreeMap<String, EndpointSettings>,
}

/// A table `[endpoint.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndpointSettings {
    /// The URL, `http(s)://HOST[:PORT]`. `None`: the URL of the profile, otherwise that of AWS.
    pub(super) url: Option<String>,
    /// The profile that has the credentials. `None`: the credentials of plain `s3://`.
    profile: Option<String>,
    pub(super) region: Option<String>,
    #[serde(default)]
    pub(super) addressing: Addressing,
    ca_bundle: Option<PathBuf>,
    pub(super) list_version: Option<ListVersion>,
    /// Whether writes send checksum headers.
    #[serde(default = "default_true")]
    pub(super) checksums: bool,
    /// Whether requests are signed.
    #[serde(default = "default_true")]
    sign: bool,
}

fn default_true() -> bool {
    true
}

#[derive(Debug, Default)]
struct Endpoints(BTreeMap<EndpointName, EndpointSettings>);

impl Endpoints {
    /// Reads the file. A missing file counts as one without endpoints.
    fn read(path: &Path) -> std::result::Result<Self, UnusableSetting> {
        let unusable = |why: String| UnusableSetting { what: path.display().to_string(), why };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let file: EndpointsFile = toml::from_str(&text).map_err(|error| {
            // The library's message quotes the source over several lines. Only the number of the
            // line is shown.
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            unusable(format!("line {}: {}", line.unwrap_or(1), error.message()))
        })?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut endpoints = BTreeMap::new();
        for (name, settings) in file.endpoint {
            let wrong = |why: String| unusable(format!("[endpoint.{name}]: {why}"));
            let key = EndpointName::new(&name).ok_or_else(|| wrong(EndpointName::RULE.to_owned()))?;
            let settings = settings.checked(directory).map_err(wrong)?;
            endpoints.insert(key, settings);
        }
        Ok(Self(endpoints))
    }
}

impl EndpointSettings {
    /// Checks the settings. Resolves a relative path of a CA bundle against the directory of the
    /// file.
    fn checked(mut self, directory: &Path) -> std::result::Result<Self, String> {
        if let Some(url) = self.url.as_ref().filter(|url| Origin::parse_url(url).is_none()) {
            let url = firstbyte_location::redacted_operand(url);
            return Err(format!("url `{url}` is not an endpoint; write http(s)://HOST[:PORT]"));
        }
        if let Some(region) = self.region.as_ref().filter(|region| !is_region(region)) {
            return Err(format!("`{region}` is not a region; write one such as eu-west-1"));
        }
        if self.profile.is_some() && !self.sign {
            return Err("sign = false needs no profile; remove one of them".to_owned());
        }
        self.ca_bundle = self.ca_bundle.map(|path| match path.strip_prefix("~") {
            Ok(below) => std::env::home_dir().unwrap_or_default().join(below),
            Err(_) => directory.join(path),
        });
        Ok(self)
    }

    /// Returns the options for requests to this endpoint: the options of the store, changed by the
    /// settings of the endpoint.
    fn options(&self, options: &StoreOptions) -> StoreOptions {
        let signing = match (&self.profile, self.sign) {
            (_, false) => Signing::Anonymous,
            (Some(_), true) => Signing::Chain,
            (None, true) => options.signing.clone(),
        };
        StoreOptions {
            endpoint_url: None,
            region: None,
            profile: self.profile.clone().or_else(|| options.profile.clone()),
            ca_bundle: self.ca_bundle.clone().or_else(|| options.ca_bundle.clone()),
            signing,
            ..options.clone()
        }
    }
}

/// The services of the named endpoints of a store. Clones of the store share them.
pub(crate) struct NamedServices {
    file: Option<PathBuf>,
    endpoints: OnceLock<std::result::Result<Endpoints, UnusableSetting>>,
    services: Mutex<HashMap<EndpointName, S3>>,
}

impl NamedServices {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, endpoints: OnceLock::new(), services: Mutex::default() }
    }

    fn endpoints(&self) -> Result<&BTreeMap<EndpointName, EndpointSettings>> {
        let read = || self.file.as_deref().map_or_else(|| Ok(Endpoints::default()), Endpoints::read);
        match self.endpoints.get_or_init(read) {
            Ok(endpoints) => Ok(&endpoints.0),
            Err(unusable) => Err(unusable.clone().into()),
        }
    }

    /// Returns the names of all endpoints, sorted.
    pub(crate) fn names(&self) -> Result<Vec<EndpointName>> {
        Ok(self.endpoints()?.keys().copied().collect())
    }

    /// Returns true if two names denote the same service: the same URL with the same credentials.
    /// If the file is unusable, compares only the names, because every request then fails with the
    /// reason.
    pub(crate) fn are_one(&self, one: EndpointName, other: EndpointName) -> bool {
        let Ok(endpoints) = self.endpoints() else { return one == other };
        let identity = |name| {
            let settings: &EndpointSettings = endpoints.get(&name)?;
            let url = settings.url.as_deref().map(|url| url.trim_end_matches('/').to_ascii_lowercase());
            Some((url, settings.profile.as_deref(), settings.sign))
        };
        one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
    }

    /// Returns the service of the endpoint `name`, within the scope of `client`.
    pub(crate) fn get(&self, name: EndpointName, client: &WireClient) -> Result<S3> {
        let mut services = self.services.lock();
        if let Some(known) = services.get(&name) {
            return Ok(known.in_scope_of(client));
        }
        let Some(settings) = self.endpoints()?.get(&name) else { return Err(self.unknown(name).into()) };
        let own = client.for_service(settings.options(&client.options));
        let service = S3::named(Arc::new(own), settings.clone());
        let scoped = service.in_scope_of(client);
        services.insert(name, service);
        Ok(scoped)
    }

    fn unknown(&self, name: EndpointName) -> UnusableSetting {
        let file = self.file.as_deref().unwrap_or(Path::new("~/.config/firstbyte/config.toml")).display();
        let known = self.names().unwrap_or_default();
        let known: Vec<_> = known.iter().map(EndpointName::as_str).collect();
        let others = match known.as_slice() {
            [] => "it names no endpoint".to_owned(),
            known => format!("it names {}", known.join(", ")),
        };
        UnusableSetting {
            what: format!("s3+{name}://"),
            why: format!("no [endpoint.{name}] in {file}; {others}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Endpoints, UnusableSetting> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let read = Endpoints::read(&path);
        assert!(Endpoints::read(&directory.path().join("missing")).unwrap().0.is_empty());
        read
    }

    #[test]
    fn every_setting_of_an_endpoint_is_read() {
        let text = "[endpoint.lab]\nurl = 'http://h:9000'\nprofile = 'p'\nregion = 'eu-west-1'\naddressing = 'host'\n\
                    ca_bundle = 'ca.pem'\nlist_version = 1\nchecksums = false\n[endpoint.public]\nsign = false\n";
        let endpoints = read(text).unwrap().0;
        let lab = &endpoints[&EndpointName::new("lab").unwrap()];
        assert_eq!((lab.url.as_deref(), lab.addressing), (Some("http://h:9000"), Addressing::Virtual));
        assert_eq!((lab.list_version, lab.checksums), (Some(ListVersion::V1), false));
        assert!(lab.ca_bundle.as_ref().unwrap().is_absolute());
        let plain = StoreOptions { endpoint_url: Some("http://other".into()), ..StoreOptions::default() };
        let options = lab.options(&plain);
        assert_eq!((options.endpoint_url, options.profile.as_deref()), (None, Some("p")));
        let public = &endpoints[&EndpointName::new("public").unwrap()];
        assert_eq!(public.options(&plain).signing, Signing::Anonymous);
    }

    #[test]
    fn a_wrong_setting_is_named_with_its_place() {
        for (text, part) in [
            ("[endpoint.lab]\nadressing = 'path'", "line 2: unknown field `adressing`"),
            ("[endpoint.lab]\naddressing = 'dns'", "line 2: "),
            ("[endpoint.lab]\nlist_version = 3", "line 2: "),
            ("[endpoint.Lab]", "[endpoint.Lab]: a name has"),
            ("[endpoint.lab]\nurl = 'h:9000'", "[endpoint.lab]: url `h:9000`"),
            ("[endpoint.lab]\nregion = 'a.b'", "[endpoint.lab]: `a.b` is not a region"),
            ("[endpoint.lab\n", "line 1: "),
            ("[endpoints.lab]", "line 1: unknown field `endpoints`"),
        ] {
            let why = read(text).unwrap_err().why;
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
