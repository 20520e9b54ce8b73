//! The global options, and the values that verbs derive from the global options: store options,
//! transfer settings, the memory ceiling.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use firstbyte::{Client, ClientOptions, environment, via};
use firstbyte_location::units::{self, PositiveDuration};
use firstbyte_store::{CustomerKey, DeferredSetting, Gateways, HttpHeaders, Redirects, Signing, Store};
use firstbyte_transfer::{Concurrency, Stop, TransferSettings};

use crate::render::log_line::{self, LogFormat};

/// Options of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Print a receipt as one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print a line per finished object on standard error; -vv also logs every request and library
    /// messages
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Write log messages to this file instead of standard error
    #[arg(long, global = true, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Format of log messages. RUST_LOG selects them by target and level
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Whether to show progress
    #[arg(long, global = true, value_enum, default_value_t = ProgressMode::Auto)]
    pub progress: ProgressMode,
    /// Limit on memory for buffers [default: 32MiB, or an eighth of the container's memory if that
    /// is less]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Number of requests at once, or `auto` to find the best number by measuring
    #[arg(long, global = true, value_name = "N|auto", default_value = "auto", value_parser = parse_concurrency)]
    pub concurrency: Concurrency,
    /// URL of the S3 endpoint, instead of the one of AWS
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Profile in the AWS configuration files
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// AWS region; if it is not given, the bucket's own region is found
    #[arg(long, global = true, value_name = "R")]
    pub region: Option<String>,
    /// Send S3 requests unsigned, for public buckets
    #[arg(long, global = true)]
    pub no_sign_request: bool,
    /// Pay for requests to requester-pays buckets
    #[arg(long, global = true)]
    pub request_payer: bool,
    /// Key that S3 objects are encrypted with (SSE-C), for reads and writes: a file with 32 bytes,
    /// or their base64 or hexadecimal text
    #[arg(long, global = true, value_name = "FILE")]
    pub sse_c_key: Option<String>,
    /// Trust the certificates in this PEM file, of authorities or the server's own, instead of the
    /// system's
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_bundle: Option<PathBuf>,
    /// Header for the named web server: `NAME: VALUE`, or @FILE with one per line. Not sent to any
    /// other host
    #[arg(long, global = true, value_name = "HEADER")]
    pub header: Vec<String>,
    /// Follow redirects from https to http. Others on the network can then read and change the data
    #[arg(long, global = true)]
    pub allow_plain_redirects: bool,
    /// Read through these gateways, each of which caches its share of every object: URL,URL,..., or
    /// @FILE with one per line, or slurm[:PORT] for one on each node of the job. Listings, and
    /// reads that no gateway answers, go to the origin
    #[arg(long, global = true, value_name = "URLS")]
    pub via: Option<String>,
    /// Key file of the gateways of --via, whose first key is used
    #[arg(long, global = true, value_name = "FILE")]
    pub via_key: Option<String>,
    /// Longest time without data before a connection counts as dead
    #[arg(long, global = true, value_name = "TIME", default_value = "30s")]
    pub read_timeout: PositiveDuration,
    /// The global options that `run` was given, as environment variables for its lines. Arguments
    /// would show the secrets among them to other users.
    #[arg(skip)]
    pub variables: Vec<(OsString, OsString)>,
}

/// Mode of showing progress on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// On a terminal
    Auto,
    /// As auto, and where standard error is no terminal a line every ten seconds
    Always,
    /// Never
    Never,
}

/// Minimum `--memory`, bytes: enough for sorting. A transfer may need more than a limit this small,
/// and then exceeds it.
const MIN_MEMORY: u64 = 64 << 10;

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = units::parse_size(text).map_err(|error| error.to_string())?;
    if bytes < MIN_MEMORY {
        return Err("a number without a unit is bytes; write a size such as 32MiB, at least 64KiB".into());
    }
    Ok(bytes)
}

/// Parses the values of `--header`: headers, and names of files with one header per line.
fn read_headers(given: &[String]) -> Result<HttpHeaders, String> {
    let header = |line: &str| match line.split_once(':') {
        Some((name, value)) => (name.trim().to_ascii_lowercase(), value.trim().to_owned()),
        // The error does not repeat the text, which may be a secret. An empty name makes the store
        // refuse the header.
        None => (String::new(), String::new()),
    };
    let mut headers = Vec::new();
    for line in given.iter().flat_map(|text| text.lines()) {
        let lines = match line.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
            None => line.to_owned(),
        };
        headers.extend(lines.lines().filter(|line| !line.trim().is_empty()).map(header));
    }
    Ok(HttpHeaders(headers))
}

fn parse_concurrency(text: &str) -> Result<Concurrency, String> {
    match text {
        "auto" => Ok(Concurrency::Auto),
        _ => match text.parse() {
            Ok(count) if count > 0 => Ok(Concurrency::Fixed(count)),
            _ => Err("write a number from 1 on, or `auto`".into()),
        },
    }
}

/// Returns the variable's name if the variable has this value, else the option's name.
fn setting_name(option: &'static str, variable: &'static str, value: &str) -> &'static str {
    if environment::variable(variable).as_deref() == Some(value) { variable } else { option }
}

impl Globals {
    /// Returns the client's options: access to stores, reads and copies. The memory ceiling is left
    /// at its default, because determining the ceiling takes system calls.
    pub fn options(&self) -> ClientOptions {
        let mut options = ClientOptions::of_system(&environment::variable);
        let store = &mut options.store;
        store.endpoint_url.clone_from(&self.endpoint_url);
        store.endpoint_setting = self.endpoint_setting();
        store.profile.clone_from(&self.profile);
        store.region.clone_from(&self.region);
        store.signing = if self.no_sign_request { Signing::Anonymous } else { Signing::Chain };
        let headers = self.header.clone();
        store.http_headers = DeferredSetting::new("--header", move || read_headers(&headers));
        store.request_payer = self.request_payer;
        store.customer_key = self.sse_c_key.clone().map(|path| {
            let setting = setting_name("--sse-c-key", "FIRSTBYTE_SSE_C_KEY", &path);
            DeferredSetting::new(setting, move || CustomerKey::read(Path::new(&path)))
        });
        store.gateways = self.gateways();
        store.redirects = if self.allow_plain_redirects { Redirects::AllowPlain } else { Redirects::KeepTls };
        if self.ca_bundle.is_some() {
            store.ca_bundle.clone_from(&self.ca_bundle);
        }
        options.set_read_timeout(self.read_timeout.get());
        options.reads.deadline = self.read_timeout.get();
        options.copies.concurrency = self.concurrency;
        options
    }

    /// Returns the gateways of `--via`. The list and the key are read from their files just before
    /// the first ranged read.
    fn gateways(&self) -> Gateways {
        let urls = self.via.clone().map(|text| {
            let setting = setting_name("--via", "FIRSTBYTE_VIA", &text);
            let nodes = environment::variable(via::NODES);
            DeferredSetting::new(setting, move || via::urls(&text, nodes.as_deref()))
        });
        let keys = self.via_key.clone().map(|path| {
            let setting = setting_name("--via-key", "FIRSTBYTE_VIA_KEY", &path);
            DeferredSetting::new(setting, move || via::key(&path))
        });
        Gateways { urls: urls.unwrap_or_default(), own: None, keys }
    }

    /// Returns the name of the setting that gave the endpoint URL.
    pub fn endpoint_setting(&self) -> &'static str {
        let url = self.endpoint_url.as_deref().unwrap_or_default();
        setting_name("--endpoint-url", "FIRSTBYTE_ENDPOINT_URL", url)
    }

    /// Makes a store for verbs that copy nothing. A signal does not cancel its requests. A verb
    /// that must end cleanly calls [`Store::scoped`], or uses an engine, which does so.
    pub fn store(&self) -> firstbyte::Result<Store> {
        Ok(self.client()?.store().clone())
    }

    /// Makes a store with the given store options instead of the global ones.
    pub fn store_of(&self, store: firstbyte_store::StoreOptions) -> firstbyte::Result<Store> {
        Ok(Client::waiting(ClientOptions { store, ..self.options() })?.store().clone())
    }

    /// Makes a client for a verb without a cache.
    pub fn client(&self) -> firstbyte::Result<Client> {
        Client::waiting(self.options())
    }

    /// Returns whether each complete object is named on standard error.
    pub fn names_objects(&self) -> bool {
        self.verbose == 1 && self.log_file.is_none() && self.log_format == LogFormat::Text
    }

    /// Returns whether progress is drawn, on a terminal at standard error.
    pub fn draws_progress(&self) -> bool {
        self.progress != ProgressMode::Never
            && !self.quiet
            && !log_line::is_json()
            && std::io::stderr().is_terminal()
    }

    /// Returns the memory ceiling in bytes.
    pub fn memory_ceiling(&self) -> u64 {
        self.memory.unwrap_or_else(|| environment::default_memory(&environment::variable))
    }

    /// Returns the settings of transfers that end when `stop` is set.
    pub fn settings(&self, stop: Stop) -> TransferSettings {
        TransferSettings { memory: self.memory_ceiling(), stop, ..self.options().copies }
    }
}
