//! Who we are, and where S3 is: the AWS chain and its configuration.
//!
//! This is the one module below the edges that reads the environment: the chain's places (variables, profiles, SSO,
//! `credential_process`, web identity, container and instance roles) are AWS's own contract, and `aws-config` knows them.
//! It is asynchronous, so it runs on a small runtime of its own, on a thread of its own: the caller may sit in one too,
//! and must be able to leave when its run is stopped, whatever a provider waits for. Callers that come meanwhile wait for
//! the same answer.
//!
//! Keys given by variables need no chain, whose building costs milliseconds: a small object is read faster than that.
//! A profile asked for by name is the only identity then: what it lacks is an error, never another identity.

use std::env;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_types::region::Region;
use tokio::runtime::Runtime;

use super::profile::{self, Misuse};
use crate::cancel::LOOK;
use crate::{Cancel, Error, Options, Result, Signing};

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
    place: OnceLock<std::result::Result<Place, Misuse>>,
    asked: Arc<Asked>,
}

/// What is shared with the thread that asks the chain.
#[derive(Default)]
struct Asked {
    state: Mutex<State>,
    /// The chain has answered.
    answered: Condvar,
    source: OnceLock<(Runtime, Source)>,
}

/// Where credentials come from that are not given.
enum Source {
    /// All of AWS's places, in their order.
    Chain(DefaultCredentialsChain),
    /// One profile, and what it refers to.
    Profile(ProfileFileCredentialsProvider),
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// A thread is asking the chain.
    asking: bool,
    /// How often the chain has failed, and what it said last.
    failures: u64,
    failure: String,
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
        Self { place: OnceLock::new(), asked: Arc::default() }
    }

    /// Endpoint and region: options first, then variables, then the profile.
    pub(super) fn place(&self, options: &Options) -> Result<&Place> {
        self.place.get_or_init(|| find_place(options)).as_ref().map_err(|misuse| misuse.clone().into())
    }

    /// Credentials that have time to live, or `None` for unsigned requests.
    pub(super) fn credentials(
        &self,
        location: &str,
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Option<Credentials>> {
        match &options.signing {
            Signing::Anonymous => return Ok(None),
            Signing::Keys(keys) => {
                let token = keys.session_token.clone();
                let given =
                    Credentials::new(&keys.access_key_id, &keys.secret_access_key, token, None, "given");
                return Ok(Some(given));
            }
            Signing::Chain => {}
        }
        let refused = |detail: String| Error::Credentials { location: location.to_owned(), detail };
        let mut state = self.asked.state();
        if let Some(known) = state.known.as_ref().filter(|known| known.serves()) {
            return Ok(Some(known.credentials.clone()));
        }
        if let Some(credentials) = from_variables(options) {
            return Ok(Some(state.learn(credentials)));
        }
        profile::check_identity(options)?;
        let failures = state.failures;
        let region = self.place(options)?.region.clone().map(Region::new);
        if !state.asking {
            state.asking = true;
            let (asked, profile) = (Arc::clone(&self.asked), profile::named(options));
            let thread = std::thread::Builder::new().name("credentials".into());
            if let Err(error) = thread.spawn(move || asked.ask(region, profile)) {
                state.asking = false;
                return Err(refused(error.to_string()));
            }
        }
        while state.asking {
            let woken = self.asked.answered.wait_timeout(state, LOOK);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
        match &state.known {
            // What is known still works for a while: a failed renewal is tried again later.
            Some(known) if known.live(Duration::ZERO) => Ok(Some(known.credentials.clone())),
            Some(known) if state.failures == failures => Ok(Some(known.credentials.clone())),
            _ => Err(refused(state.failure.clone())),
        }
    }

    /// Forgets credentials that the service called expired.
    pub(super) fn forget(&self) {
        self.asked.state().known = None;
    }
}

impl State {
    fn learn(&mut self, credentials: Credentials) -> Credentials {
        self.known = Some(Known { credentials: credentials.clone(), asked: Instant::now() });
        credentials
    }
}

impl Asked {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the chain and tells all who wait.
    fn ask(&self, region: Option<Region>, profile: Option<String>) {
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.provide(region, profile)));
        let mut state = self.state();
        match asked.unwrap_or_else(|_| Err("the credential chain failed".to_owned())) {
            Ok(credentials) => drop(state.learn(credentials)),
            Err(failure) => {
                state.failures += 1;
                state.failure = failure;
                // Asked again after a while, not by every request.
                if let Some(known) = &mut state.known {
                    known.asked = Instant::now();
                }
            }
        }
        state.asking = false;
        self.answered.notify_all();
    }

    fn provide(
        &self,
        region: Option<Region>,
        profile: Option<String>,
    ) -> std::result::Result<Credentials, String> {
        if self.source.get().is_none() {
            let runtime = runtime()?;
            let source = match profile {
                Some(name) => {
                    let config = ProviderConfig::default().with_region(region);
                    let builder = ProfileFileCredentialsProvider::builder();
                    Source::Profile(builder.configure(&config).profile_name(name).build())
                }
                None => {
                    let builder = DefaultCredentialsChain::builder().region(region);
                    Source::Chain(runtime.block_on(builder.build()))
                }
            };
            // One thread asks at a time, so it is still unset.
            let _ = self.source.set((runtime, source));
        }
        let (runtime, source) = self.source.get().ok_or("no source of credentials")?;
        let provided = match source {
            Source::Chain(chain) => runtime.block_on(chain.provide_credentials()),
            Source::Profile(profile) => runtime.block_on(profile.provide_credentials()),
        };
        provided.map_err(|error| describe(&error))
    }
}

fn find_place(options: &Options) -> std::result::Result<Place, Misuse> {
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
    if let Some(profile) = profile::selected(options, complete)? {
        place.region = place.region.or_else(|| profile.get("region").map(ToOwned::to_owned));
        let endpoint = profile.get("endpoint_url").map(ToOwned::to_owned);
        place.endpoint_url = place.endpoint_url.or_else(|| endpoint.filter(|_| !ignored));
    }
    match &place.region {
        Some(region) if !is_region(region) => Err(Misuse {
            what: format!("region {region}"),
            why: "no region has such a name; write one such as eu-west-1".to_owned(),
        }),
        _ => Ok(place),
    }
}

/// Whether a name can be a region's: it becomes a part of a host's name, and must not make it another host's.
pub(super) fn is_region(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('-')
}

/// A variable that is set to something.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Keys in variables come first in the chain, unless a profile is asked for by an option.
pub(super) fn from_variables(options: &Options) -> Option<Credentials> {
    if options.profile.is_some() {
        return None;
    }
    let key = variable("AWS_ACCESS_KEY_ID")?;
    let secret = variable("AWS_SECRET_ACCESS_KEY")?;
    Some(Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment"))
}

/// A runtime for one caller at a time.
pub(super) fn runtime() -> std::result::Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// An error with its causes in one line: the chain's outermost message says nothing by itself.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
