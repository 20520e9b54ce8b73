//! Defines the options of a client, and reads them from environment variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_location::units::{PositiveDuration, UnitError, parse_rate, parse_size};
use firstbyte_store::{CustomerKey, DeferredSetting, Gateways, Redirects, Sharing, Signing};

use crate::environment::{self, VariableLookup};
use crate::error::{Error, Result};
use crate::via;

/// Number of bytes to leave free in a Lambda function's `/tmp`, which has 512 MiB by default. The
/// reserve of other machines would leave no room for a cache.
const LAMBDA_RESERVE: u64 = 64 << 20;

/// Options of a [`Client`](crate::Client): for reaching stores, for reading and for copying.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Options of the store, such as endpoint, region, signing and proxies.
    #[doc(hidden)]
    pub store: firstbyte_store::StoreOptions,
    /// Settings of the cache, and of reads through it.
    #[doc(hidden)]
    pub reads: firstbyte_hydrate::HydrationSettings,
    /// Settings of copies.
    #[doc(hidden)]
    pub copies: firstbyte_transfer::TransferSettings,
}

impl ClientOptions {
    /// Reads the options from the environment of this process: the cache in its usual place, the
    /// proxies in the usual variables, the memory for a container of this size, and every
    /// `FIRSTBYTE_<OPTION>` with the same meaning as on the command line. The variables and files
    /// of AWS are read only when a request is made.
    ///
    /// # Errors
    /// A variable cannot be parsed.
    pub fn from_environment() -> Result<Self> {
        Self::from_lookup(&environment::variable)
    }

    /// Reads the options like [`from_environment`](Self::from_environment), from any set of
    /// variables.
    ///
    /// # Errors
    /// A variable cannot be parsed.
    pub fn from_lookup(lookup: VariableLookup<'_>) -> Result<Self> {
        let mut options = Self::of_system(lookup);
        let given = |name: &str| lookup(&format!("FIRSTBYTE_{name}"));
        let flag = |name| given(name).map(|text| parse(name, &text, parse_flag)).transpose();
        let size = |name| given(name).map(|text| parse(name, &text, in_units(parse_size))).transpose();
        let limit = |text: &str| text.parse().map(PositiveDuration::get);
        let limit = |name| given(name).map(|text| parse(name, &text, in_units(limit))).transpose();

        let store = &mut options.store;
        store.endpoint_url = given("ENDPOINT_URL");
        store.endpoint_setting = "FIRSTBYTE_ENDPOINT_URL";
        store.profile = given("PROFILE");
        store.region = given("REGION");
        if flag("NO_SIGN_REQUEST")?.unwrap_or(false) {
            store.signing = Signing::Anonymous;
        }
        store.request_payer = flag("REQUEST_PAYER")?.unwrap_or(false);
        if flag("ALLOW_PLAIN_REDIRECTS")?.unwrap_or(false) {
            store.redirects = Redirects::AllowPlain;
        }
        if let Some(bundle) = given("CA_BUNDLE") {
            store.ca_bundle = Some(PathBuf::from(bundle));
        }
        let key = |path: String| {
            DeferredSetting::new("FIRSTBYTE_SSE_C_KEY", move || CustomerKey::read(Path::new(&path)))
        };
        store.customer_key = given("SSE_C_KEY").map(key);
        if let Some(silence) = limit("READ_TIMEOUT")? {
            options.set_read_timeout(silence);
        }

        let nodes = lookup(via::NODES);
        let urls =
            |text: String| DeferredSetting::new("FIRSTBYTE_VIA", move || via::urls(&text, nodes.as_deref()));
        let key = |path: String| DeferredSetting::new("FIRSTBYTE_VIA_KEY", move || via::key(&path));
        options.store.gateways = Gateways {
            urls: given("VIA").map(urls).unwrap_or_default(),
            own: None,
            keys: given("VIA_KEY").map(key),
        };

        let reads = &mut options.reads;
        if let Some(cache) = given("CACHE") {
            reads.cache = Some(PathBuf::from(cache));
        }
        if flag("CACHE_SHARED")? == Some(true) {
            reads.sharing = Sharing::Group;
        }
        reads.store_name = given("CACHE_STORE");
        reads.cache_size = size("CACHE_SIZE")?;
        reads.reserve = size("RESERVE")?.unwrap_or(reads.reserve);
        options.set_memory(size("MEMORY")?.unwrap_or_else(|| environment::default_memory(lookup)));
        if let Some(deadline) = limit("READ_DEADLINE")? {
            options.set_deadline(deadline);
        }
        let rate = |text: String| parse("LIMIT_RATE", &text, in_units(parse_rate));
        options.copies.limit_rate = given("LIMIT_RATE").map(rate).transpose()?;
        Ok(options)
    }

    /// Reads the variables that other programs use too: proxies, certificates, and the cache
    /// directory. Of the `FIRSTBYTE_` variables, only those are read for which the command line has
    /// no option: `FIRSTBYTE_SSH` and, in a Lambda function, `FIRSTBYTE_TMP`. The default memory
    /// stays.
    #[must_use]
    pub fn of_system(lookup: VariableLookup<'_>) -> Self {
        let mut options = Self::default();
        options.store.ca_bundle = lookup("AWS_CA_BUNDLE").map(PathBuf::from);
        options.store.proxies = environment::proxies(lookup);
        options.store.ssh = environment::ssh(lookup);
        options.store.netrc = environment::netrc(lookup);
        options.store.config_file = environment::config_file(lookup);
        let state = environment::cache_directory(lookup);
        options.reads.cache = Some(state.clone());
        options.copies.state_dir = Some(state);
        options.reads.memory_limit = environment::memory_limit(lookup);
        if environment::is_lambda(lookup) {
            options.reads.reserve = LAMBDA_RESERVE;
        }
        options
    }

    /// Sets the maximum memory of buffers, bytes. The limit applies to reads and to copies
    /// separately.
    pub fn set_memory(&mut self, bytes: u64) {
        self.reads.memory = bytes;
        self.copies.memory = bytes;
    }

    /// Sets the time after which a connection on which no byte arrives counts as dead.
    pub fn set_read_timeout(&mut self, silence: Duration) {
        self.store.read_deadline = silence;
        self.store.connect_deadline = self.store.connect_deadline.min(silence);
    }

    /// Sets the maximum time that a read may take. A connection on which no byte arrives for this
    /// long counts as dead too.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.reads.deadline = deadline;
        self.store.read_deadline = self.store.read_deadline.min(deadline);
        self.store.connect_deadline = self.store.connect_deadline.min(deadline);
    }
}

fn parse<T>(name: &str, text: &str, parse: impl Fn(&str) -> std::result::Result<T, String>) -> Result<T> {
    parse(text).map_err(|why| Error::Option { name: format!("FIRSTBYTE_{name}"), why })
}

/// Converts a parser of `location::units` for use with [`parse`].
fn in_units<T>(
    parse: impl Fn(&str) -> std::result::Result<T, UnitError>,
) -> impl Fn(&str) -> std::result::Result<T, String> {
    move |text| parse(text).map_err(|error| error.to_string())
}

/// Parses a flag like the command line.
fn parse_flag(text: &str) -> std::result::Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &'static [(&'static str, &'static str)]) -> Result<ClientOptions> {
        ClientOptions::from_lookup(&move |name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_of_the_command_line_are_taken() {
        let options = with(&[
            ("FIRSTBYTE_ENDPOINT_URL", "http://h"),
            ("FIRSTBYTE_NO_SIGN_REQUEST", "1"),
            ("FIRSTBYTE_CACHE", "/c"),
            ("FIRSTBYTE_CACHE_SIZE", "10GiB"),
            ("FIRSTBYTE_MEMORY", "8MiB"),
            ("FIRSTBYTE_READ_DEADLINE", "5s"),
            ("AWS_CA_BUNDLE", "/ca.pem"),
        ])
        .unwrap();
        assert_eq!(options.store.endpoint_url.as_deref(), Some("http://h"));
        assert_eq!(options.store.signing, Signing::Anonymous);
        assert_eq!(options.store.ca_bundle.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(options.reads.cache.as_deref(), Some(Path::new("/c")));
        assert_eq!(options.reads.cache_size, Some(10 << 30));
        assert_eq!((options.reads.memory, options.copies.memory), (8 << 20, 8 << 20));
        assert_eq!(options.reads.deadline, Duration::from_secs(5));
        assert_eq!(options.store.read_deadline, Duration::from_secs(5));
    }

    #[test]
    fn a_function_caches_in_tmp_and_keeps_little_of_it_free() {
        let options = with(&[("AWS_LAMBDA_FUNCTION_NAME", "f"), ("HOME", "/home")]).unwrap();
        let own = environment::own_directory(Path::new("/tmp"));
        assert_eq!(options.reads.cache.as_deref(), Some(own.as_path()));
        assert_eq!(options.reads.reserve, LAMBDA_RESERVE);
        let elsewhere = with(&[("XDG_CACHE_HOME", "/c")]).unwrap();
        assert_eq!(elsewhere.reads.cache.as_deref(), Some(Path::new("/c/firstbyte")));
        assert!(elsewhere.reads.reserve > LAMBDA_RESERVE);
    }

    #[test]
    fn a_variable_that_does_not_parse_is_named() {
        let error = with(&[("FIRSTBYTE_CACHE_SIZE", "many")]).unwrap_err().to_string();
        assert!(error.starts_with("FIRSTBYTE_CACHE_SIZE: "), "{error}");
        assert!(with(&[("FIRSTBYTE_NO_SIGN_REQUEST", "maybe")]).is_err());
    }
}
