//! Who we are, and where S3 is: the AWS chain and its configuration.
//!
//! This is the one module below the edges that reads the environment: the chain's places (variables, profiles, SSO,
//! `credential_process`, web identity, container and instance roles) are AWS's own contract, and `aws-config` knows them.
//! It is asynchronous, so it runs on a small runtime of its own, on a thread of its own: the caller may sit in one too.
//!
//! Keys given by variables need no chain, whose building costs milliseconds: a small object is read faster than that.

use std::env;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileSet;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_types::os_shim_internal::{Env, Fs};
use aws_types::region::Region;
use tokio::runtime::Runtime;

use crate::{Error, Options, Result, Signing};

/// Credentials are renewed when they have less than this to live: longer than any single request lasts, shorter than
/// the shortest session AWS gives (15 minutes).
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);

/// How long credentials that should be renewed serve on after their source gave them again, or failed: asking may take
/// a process or a round trip, and every request waits for it.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Where S3 is, as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) endpoint_url: Option<String>,
    pub(super) region: Option<String>,
}

/// Finds credentials once and renews them before they expire.
pub(super) struct Identity {
    place: OnceLock<Place>,
    current: Mutex<Option<Known>>,
    chain: OnceLock<(Runtime, DefaultCredentialsChain)>,
}

/// Credentials, and when they were last asked for.
struct Known {
    credentials: Credentials,
    asked: Instant,
}

impl Known {
    /// Whether they serve without asking for others.
    fn serves(&self) -> bool {
        self.live(RENEW_BEFORE) || (self.live(ASK_AGAIN) && self.asked.elapsed() < ASK_AGAIN)
    }

    /// Whether they have longer than `margin` to live.
    fn live(&self, margin: Duration) -> bool {
        self.credentials.expiry().is_none_or(|expiry| SystemTime::now() + margin < expiry)
    }
}

impl Identity {
    pub(super) fn new() -> Self {
        Self { place: OnceLock::new(), current: Mutex::new(None), chain: OnceLock::new() }
    }

    /// Endpoint and region: options first, then variables, then the profile.
    pub(super) fn place(&self, options: &Options) -> &Place {
        self.place.get_or_init(|| {
            let ignored = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
                .is_some_and(|value| value.eq_ignore_ascii_case("true"));
            let configured = |name| variable(name).filter(|_| !ignored);
            let mut place = Place {
                endpoint_url: options
                    .endpoint_url
                    .clone()
                    .or_else(|| configured("AWS_ENDPOINT_URL_S3"))
                    .or_else(|| configured("AWS_ENDPOINT_URL")),
                region: options
                    .region
                    .clone()
                    .or_else(|| variable("AWS_REGION"))
                    .or_else(|| variable("AWS_DEFAULT_REGION")),
            };
            let complete = place.region.is_some() && (place.endpoint_url.is_some() || ignored);
            if let Some(profile) = (!complete && has_profiles()).then(|| load_profile(options)).flatten() {
                place.region = place.region.or_else(|| profile.get("region").map(ToOwned::to_owned));
                place.endpoint_url =
                    place.endpoint_url.or_else(|| profile_endpoint(&profile).filter(|_| !ignored));
            }
            place
        })
    }

    /// Credentials that have time to live, or `None` for unsigned requests.
    pub(super) fn credentials(&self, location: &str, options: &Options) -> Result<Option<Credentials>> {
        if options.signing == Signing::Anonymous {
            return Ok(None);
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = current.as_ref().filter(|known| known.serves()) {
            return Ok(Some(known.credentials.clone()));
        }
        let found = match from_variables(options) {
            Some(credentials) => Ok(credentials),
            None => self.ask_chain(options),
        };
        let credentials = match (found, current.take()) {
            (Ok(credentials), _) => credentials,
            // What is known still works for a while: a failed renewal is tried again later.
            (Err(_), Some(known)) if known.live(Duration::ZERO) => known.credentials,
            (Err(detail), _) => return Err(Error::Credentials { location: location.to_owned(), detail }),
        };
        *current = Some(Known { credentials: credentials.clone(), asked: Instant::now() });
        Ok(Some(credentials))
    }

    /// Forgets credentials that the service called expired.
    pub(super) fn forget(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn ask_chain(&self, options: &Options) -> std::result::Result<Credentials, String> {
        let region = self.place(options).region.clone().map(Region::new);
        let ask = || {
            if self.chain.get().is_none() {
                let runtime = runtime()?;
                let mut builder = DefaultCredentialsChain::builder().region(region);
                if let Some(profile) = &options.profile {
                    builder = builder.profile_name(profile);
                }
                let chain = runtime.block_on(builder.build());
                // Calls are serialised by the lock on the current credentials, so nobody set it in between.
                let _ = self.chain.set((runtime, chain));
            }
            let (runtime, chain) = self.chain.get().ok_or("no credential chain")?;
            runtime.block_on(chain.provide_credentials()).map_err(|error| describe(&error))
        };
        std::thread::scope(|scope| scope.spawn(ask).join())
            .unwrap_or_else(|_| Err("the credential chain failed".to_owned()))
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Keys in variables come first in the chain, unless a profile is asked for by name.
fn from_variables(options: &Options) -> Option<Credentials> {
    if options.profile.is_some() {
        return None;
    }
    let key = variable("AWS_ACCESS_KEY_ID")?;
    let secret = variable("AWS_SECRET_ACCESS_KEY")?;
    Some(Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment"))
}

/// Whether there is a configuration file to read at all.
fn has_profiles() -> bool {
    let named = env::var_os("AWS_CONFIG_FILE").map(PathBuf::from);
    named.or_else(|| env::home_dir().map(|home| home.join(".aws/config"))).is_some_and(|path| path.exists())
}

fn load_profile(options: &Options) -> Option<ProfileSet> {
    let name = options.profile.clone().map(Into::into);
    let load = || {
        let loaded = runtime().ok()?.block_on(aws_config::profile::load(
            &Fs::real(),
            &Env::real(),
            &Default::default(),
            name,
        ));
        loaded.inspect_err(|error| tracing::warn!("AWS configuration not used: {}", describe(error))).ok()
    };
    std::thread::scope(|scope| scope.spawn(load).join().ok().flatten())
}

fn profile_endpoint(profile: &ProfileSet) -> Option<String> {
    profile.get("endpoint_url").map(ToOwned::to_owned)
}

fn runtime() -> std::result::Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// An error with its causes in one line: the chain's outermost message says nothing by itself.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
