//! Defines `PyClient`, the options with which locations are accessed. A process has one engine for
//! each set of options, created at first use, so that all files share connections, threads and the
//! cache.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firstbyte::account::{self, Account, Terms};
use firstbyte::billing::{Declared, Transfer};
use firstbyte::{ClientOptions, Error, Receipt, environment};
use firstbyte_location::Location;
use firstbyte_store::{
    CustomerKey, DeferredSetting, ServerSideEncryption, Sharing, Signing, SigningKeys, expires_header,
};
use firstbyte_transfer::{Concurrency, ContentTypes};
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use rustix_futex_sync::Mutex;

use crate::arguments::{Money, PathArgument, SizeArgument, TimeLimit, name_argument};
use crate::error::failure;
use crate::fork::ProcessOwned;

/// The engines of this process, by the key of their options.
static ENGINES: Mutex<BTreeMap<String, ProcessOwned<firstbyte::Client>>> = Mutex::new(BTreeMap::new());

/// Prefixes of the environment variables in which stores look for endpoints and credentials.
const SERVICE_PREFIXES: [&str; 7] =
    ["AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "GCE_METADATA_", "IDENTITY_", "STORAGE_EMULATOR_"];

/// The locations that are read through the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cached {
    /// All locations except local files, which are fast without a cache. If the cache cannot be
    /// used, reads work without it.
    Remote,
    /// All locations, because the user requested a cache.
    All,
    /// No location.
    Nothing,
}

/// Options with which locations are accessed.
#[pyclass(frozen, module = "firstbyte._native", name = "Client")]
pub(crate) struct PyClient {
    pub(crate) route: Arc<ClientRoute>,
}

#[pymethods]
impl PyClient {
    /// Returns the given options, with their secrets, to make another client with equal options.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.route.given.bind(py).copy()
    }
}

/// The options of a client, and the key of its engine.
pub(crate) struct ClientRoute {
    /// The given options, with their secrets.
    given: Py<PyDict>,
    options: ClientOptions,
    cached: Cached,
    /// The budget, bill and prediction model of each run, if the options give any of them.
    terms: Option<Terms>,
    key: String,
}

/// Makes a client with these options. Options that the caller does not give come from the
/// environment.
#[pyfunction]
#[pyo3(signature = (**options))]
pub(crate) fn connect(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<PyClient> {
    let all = ClientOptions::from_environment().map_err(|error| failure(py, &error, None))?;
    let cached = match std::env::var_os("FIRSTBYTE_CACHE") {
        Some(path) if !path.is_empty() => Cached::All,
        _ => Cached::Remote,
    };
    let (keys, terms) = (GivenKeys::default(), None);
    let mut written = WrittenOptions { all, cached, keys, terms };
    let given = PyDict::new(py);
    for (name, value) in options.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        given.set_item(&name, &value)?;
        let name = name.cast::<PyString>()?.to_str()?;
        written.write(name, &value).map_err(|error| name_argument(name, &value, error))?;
    }
    let WrittenOptions { mut all, cached, keys, mut terms } = written;
    if let Some(terms) = &mut terms {
        terms.bill.region = all.store.region.clone();
    }
    let secrets = keys.apply(&mut all)?;
    // An engine looks for credentials only once, so a change of the profile or key in the
    // environment needs a new engine.
    let mut found: Vec<_> = std::env::vars_os().filter(|(name, _)| is_of_service(name)).collect();
    found.sort();
    let key = format!("{all:?} {found:?} {secrets}");
    Ok(PyClient { route: Arc::new(ClientRoute { given: given.unbind(), options: all, cached, terms, key }) })
}

/// The options of a client while those that the caller gave are added.
struct WrittenOptions {
    all: ClientOptions,
    cached: Cached,
    keys: GivenKeys,
    terms: Option<Terms>,
}

impl WrittenOptions {
    /// Sets the option `name`.
    fn write(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Self { all, keys, .. } = self;
        match name {
            "cache" => self.write_cache(value)?,
            "cache_shared" if value.is_truthy()? => all.reads.sharing = Sharing::Group,
            "cache_shared" => all.reads.sharing = Sharing::Private,
            "cache_store" => all.reads.store_name = Some(value.extract()?),
            "cache_size" => all.reads.cache_size = Some(value.extract::<SizeArgument>()?.0),
            "memory" => all.set_memory(value.extract::<SizeArgument>()?.0),
            "deadline" => all.set_deadline(value.extract::<TimeLimit>()?.0.get()),
            "endpoint_url" => all.store.endpoint_url = Some(value.extract()?),
            "profile" => all.store.profile = Some(value.extract()?),
            "region" => all.store.region = Some(value.extract()?),
            "anonymous" if value.is_truthy()? => {
                keys.anonymous = true;
                all.store.signing = Signing::Anonymous;
            }
            "anonymous" => all.store.signing = Signing::Chain,
            "access_key_id" => keys.access_key_id = Some(value.extract()?),
            "secret_access_key" => keys.secret_access_key = Some(value.extract()?),
            "session_token" => keys.session_token = Some(value.extract()?),
            "budget" | "transfer" | "bill_as" | "model" => {
                write_billing_option(self.terms.get_or_insert_default(), name, value)?;
            }
            "sse_c_key" => {
                let PathArgument(path) = value.extract()?;
                let key = DeferredSetting::new("sse_c_key", move || CustomerKey::read(&path));
                all.store.customer_key = Some(key);
            }
            name => write_option(all, name, value)?,
        }
        Ok(())
    }

    fn write_cache(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(flag) = value.cast::<PyBool>() {
            self.cached = if flag.is_true() { Cached::All } else { Cached::Nothing };
            return Ok(());
        }
        let PathArgument(directory) = value.extract()?;
        // An empty directory name counts as not given, like an empty variable.
        if !directory.as_os_str().is_empty() {
            self.cached = Cached::All;
            self.all.reads.cache = Some(directory);
        }
        Ok(())
    }
}

/// Sets an option that concerns the cost of a run: its budget, its bill, or the model that predicts
/// it.
fn write_billing_option(terms: &mut Terms, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let refused = PyValueError::new_err::<String>;
    match name {
        "budget" => terms.budget = Some(value.extract::<Money>()?.0),
        "transfer" => {
            let way = Transfer::parse(&value.extract::<String>()?);
            terms.bill.transfer = Some(way.map_err(refused)?);
        }
        "bill_as" => {
            let declared = Declared::parse(&value.extract::<String>()?);
            terms.bill.declared = Some(declared.map_err(refused)?);
        }
        _ => {
            let model = account::model(&value.extract::<PathArgument>()?.0);
            terms.model = Some(model.map_err(|error| failure(value.py(), &error, None))?);
        }
    }
    Ok(())
}

/// Sets an option of written objects, like the options of `firstbyte cp`.
fn write_option(all: &mut ClientOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let metadata = &mut all.copies.metadata;
    match name {
        "content_type" => metadata.content_type = Some(value.extract()?),
        "content_encoding" | "content_disposition" | "content_language" | "cache_control" => {
            metadata.headers.insert(name.replace('_', "-"), value.extract()?);
        }
        "expires" => {
            let time = expires_header(&value.extract::<String>()?);
            let time = time.map_err(PyValueError::new_err)?;
            metadata.headers.insert("expires".to_owned(), time);
        }
        "guess_mime_type" => {
            all.copies.content_types = match value.is_truthy()? {
                true => ContentTypes::ByName,
                false => ContentTypes::FromStore,
            };
        }
        "metadata" => {
            let pairs = value.extract::<BTreeMap<String, String>>()?;
            metadata.user.extend(pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)));
        }
        "storage_class" => all.store.storage_class = Some(value.extract()?),
        "acl" => all.store.acl = Some(value.extract()?),
        "tags" => all.store.tags = value.extract::<BTreeMap<String, String>>()?.into_iter().collect(),
        "sse" => {
            all.store.encryption = Some(match value.extract::<String>()?.as_str() {
                "s3" => ServerSideEncryption::S3,
                "kms" => ServerSideEncryption::Kms(None),
                key => ServerSideEncryption::Kms(Some(key.to_owned())),
            });
        }
        "request_payer" => all.store.request_payer = value.is_truthy()?,
        "concurrency" => match value.extract::<usize>()? {
            0 => return Err(PyValueError::new_err("a number from 1 on is needed")),
            number => all.copies.concurrency = Concurrency::Fixed(number),
        },
        other => return Err(PyTypeError::new_err(format!("there is no option `{other}`"))),
    }
    Ok(())
}

/// Credentials that the caller gave as options.
#[derive(Default)]
struct GivenKeys {
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    session_token: Option<String>,
    /// True if the user requested unsigned requests.
    anonymous: bool,
}

impl GivenKeys {
    /// Makes these credentials the only ones that sign requests. Returns a part of the engine's key
    /// that contains secrets and is never printed.
    fn apply(self, options: &mut ClientOptions) -> PyResult<String> {
        // The proxies' URLs may contain passwords, which `Debug` of a proxy omits.
        let proxies = [&options.store.proxies.http, &options.store.proxies.https]
            .map(|proxy| proxy.as_ref().map(|proxy| proxy.url.clone()));
        let (key, secret) = match (self.access_key_id, self.secret_access_key) {
            (Some(key), Some(secret)) => (key, secret),
            (None, None) if self.session_token.is_none() => return Ok(format!("{proxies:?}")),
            (None, _) => {
                return Err(PyValueError::new_err("a secret access key or a token without an access key id"));
            }
            (Some(_), None) => {
                return Err(PyValueError::new_err("an access key id without its secret access key"));
            }
        };
        if self.anonymous {
            return Err(PyValueError::new_err("both an access key and anonymous: give one of them"));
        }
        let key_part = format!("{proxies:?} {secret:?} {:?}", self.session_token);
        let session_token = self.session_token;
        options.store.signing =
            Signing::Keys(SigningKeys { access_key_id: key, secret_access_key: secret, session_token });
        Ok(key_part)
    }
}

fn is_of_service(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| SERVICE_PREFIXES.iter().any(|service| name.starts_with(service)))
}

/// Ends the engines when the process ends.
#[pyfunction]
pub(crate) fn disconnect(py: Python<'_>) {
    let engines = std::mem::take(&mut *ENGINES.lock());
    py.detach(|| drop(engines));
}

impl ClientRoute {
    /// Returns this process's engine for `location`. If the cache cannot be used, warns and returns
    /// the engine without the cache. If the user requested a cache, only a full disk has this
    /// effect, and any other failure of the cache is raised.
    pub(crate) fn engine(&self, py: Python<'_>, location: &Location) -> PyResult<firstbyte::Client> {
        // Local files are fast without a cache, so they are cached only if the user requested a
        // cache.
        let near = self.cached == Cached::Remote && location.as_local().is_some();
        if near || self.cached == Cached::Nothing {
            return self.uncached_client(py);
        }
        match engine(py, &self.key, self.options.clone()) {
            Ok(engine) => Ok(engine),
            Err(error) if error.is_full_disk() || (self.cached == Cached::Remote && is_of_cache(&error)) => {
                let text = std::ffi::CString::new(format!("{error}; reading without a cache"))?;
                PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)?;
                self.uncached_client(py)
            }
            Err(error) => Err(failure(py, &error, None)),
        }
    }

    /// Returns this process's engine for operations on the cache: with the cache, unless the client
    /// was made without one. In contrast to [`Self::engine`], a cache that cannot be used is an
    /// error.
    pub(crate) fn cached_client(&self, py: Python<'_>) -> PyResult<firstbyte::Client> {
        match self.cached {
            Cached::Nothing => self.uncached_client(py),
            Cached::Remote | Cached::All => {
                engine(py, &self.key, self.options.clone()).map_err(|error| failure(py, &error, None))
            }
        }
    }

    /// Returns the engine of a run on `places`. Without a budget, a bill and a prediction model
    /// this is the shared engine. With any of them it is a separate engine, whose store counts only
    /// this run.
    pub(crate) fn begin_run(
        &self,
        py: Python<'_>,
        cache: CacheUse,
        places: &[&PathBuf],
    ) -> PyResult<AccountedRun> {
        let engine =
            if cache == CacheUse::Used { self.cached_client(py)? } else { self.uncached_client(py)? };
        let Some(terms) = &self.terms else { return Ok(AccountedRun { engine, account: None }) };
        let places: Vec<Location> =
            places.iter().filter_map(|place| Location::parse(place.as_os_str()).ok()).collect();
        let account = terms
            .open(&places, engine.store(), &environment::variable)
            .map_err(|error| bill_error(py, &error))?;
        let mut options = self.options.clone();
        options.store.spending = account.spending();
        if cache == CacheUse::Unused || self.cached == Cached::Nothing {
            options.reads.cache = None;
        }
        let engine = py.detach(|| firstbyte::Client::new(options));
        Ok(AccountedRun {
            engine: engine.map_err(|error| failure(py, &error, None))?,
            account: Some(account),
        })
    }

    /// Returns whether there is a cache. Operations that only read the cache, or release from it,
    /// do not create one.
    pub(crate) fn has_cache(&self, py: Python<'_>) -> PyResult<bool> {
        let found = py.detach(|| firstbyte::existing_cache(&self.options.reads).map(|cache| cache.is_some()));
        found.map_err(|error| failure(py, &error, None))
    }

    /// Returns this process's engine without the cache.
    pub(crate) fn uncached_client(&self, py: Python<'_>) -> PyResult<firstbyte::Client> {
        let mut options = self.options.clone();
        options.reads.cache = None;
        engine(py, &format!("{} uncached", self.key), options).map_err(|error| failure(py, &error, None))
    }
}

/// Makes the exception for a budget or bill whose price is unknown. The message uses the names of
/// options in Python.
fn bill_error(py: Python<'_>, error: &Error) -> PyErr {
    let Error::Bill { option, why, tell } = error else { return failure(py, error, None) };
    let option = option.replace('-', "_");
    let tell = tell.map_or_else(String::new, |tell| format!("give {}, or ", tell.replace('-', "_")));
    PyValueError::new_err(format!("{option}: {why}; {tell}leave {option} out"))
}

/// Use of the cache by a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    Used,
    Unused,
}

/// The client of one run, with the run's account if the options give a budget, bill or prediction
/// model.
pub(crate) struct AccountedRun {
    pub(crate) engine: firstbyte::Client,
    account: Option<Account>,
}

impl AccountedRun {
    /// Adds the counts, dollars and prediction of this run to its receipt.
    pub(crate) fn settle(&self, receipt: &mut Receipt) {
        if let Some(account) = &self.account {
            receipt.count(&self.engine.store().counters());
            account.settle(receipt, self.engine.store());
        }
    }
}

fn is_of_cache(error: &Error) -> bool {
    use firstbyte_hydrate::Error as Read;
    matches!(error, Error::Read(Read::Cache { .. } | Read::Newer { .. }))
}

fn engine(py: Python<'_>, key: &str, options: ClientOptions) -> firstbyte::Result<firstbyte::Client> {
    let known =
        |engines: &BTreeMap<String, ProcessOwned<firstbyte::Client>>| engines.get(key)?.get().cloned();
    if let Some(engine) = known(&ENGINES.lock()) {
        return Ok(engine);
    }
    let made = py.detach(|| firstbyte::Client::new(options))?;
    let mut engines = ENGINES.lock();
    // Uses the engine of another thread if one has been made in the meantime.
    let engine = known(&engines).unwrap_or_else(|| {
        engines.insert(key.to_owned(), ProcessOwned::new(made.clone()));
        made.clone()
    });
    drop(engines);
    py.detach(|| drop(made));
    Ok(engine)
}
