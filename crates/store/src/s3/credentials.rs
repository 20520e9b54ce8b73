//! Credentials: from the options, else from the AWS credential chain.
//!
//! `aws-config` reads the environment: variables, profiles, SSO, `credential_process`, web
//! identity, container and instance roles. It is asynchronous and runs in its own runtime on its
//! own thread, because the caller may be in a runtime too and must be able to stop waiting when it
//! is cancelled. Concurrent callers share one request.
//!
//! Keys in variables are used without the chain, which takes milliseconds to build, longer than
//! reading a small object. A profile given by name is the only source of credentials: if it is
//! incomplete, that is an error.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_types::region::Region;
use tokio::runtime::Runtime;

use super::endpoints::EndpointSettings;
use super::environment::{describe, from_variables, runtime};
use super::profile::{self, Misuse};
use super::provider_client::{ProviderClient, Silence};
use super::settings::{ServiceSettings, Variants};
use crate::wire::Client;
use crate::{Cancel, Error, LOOK, Options, Result, Signing};

/// Credentials are renewed when less than this is left: longer than any request, shorter than the
/// shortest AWS session (15 minutes).
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);

/// Time between attempts to renew, if the source fails or returns the same credentials. An attempt
/// may start a process or take a round trip, during which requests wait.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Finds credentials once and renews them before they expire.
pub(super) struct Identity {
    /// The named endpoint that it is for.
    endpoint: Option<EndpointSettings>,
    settings: OnceLock<std::result::Result<ServiceSettings, Misuse>>,
    asked: Arc<Asked>,
}

/// State shared with the thread that runs the chain.
struct Asked {
    client: ProviderClient,
    state: Mutex<State>,
    /// Signalled when the chain has returned.
    answered: Condvar,
    source: OnceLock<(Runtime, Source)>,
}

/// The source of credentials that are not in the options.
enum Source {
    /// AWS's default chain.
    Chain(DefaultCredentialsChain),
    /// One profile and those it refers to.
    Profile(ProfileFileCredentialsProvider),
}

/// The service that credentials are for, as far as their sources depend on it.
struct Service {
    region: Option<String>,
    variants: Variants,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// True while a thread runs the chain.
    asking: bool,
    /// The number of failures of the chain; `failure` is the last one.
    failures: u64,
    failure: Failure,
}

/// The cause of a failure of the chain.
#[derive(Clone, Default)]
struct Failure {
    detail: String,
    /// The service that did not answer.
    silence: Option<Silence>,
}

impl From<String> for Failure {
    fn from(detail: String) -> Self {
        Self { detail, silence: None }
    }
}

/// Credentials, and when they were last requested.
struct Known {
    credentials: Credentials,
    asked: Instant,
}

impl Known {
    /// True if they can be used without renewal.
    fn serves(&self) -> bool {
        self.live(RENEW_BEFORE) || (self.live(ASK_AGAIN) && self.asked.elapsed() < ASK_AGAIN)
    }

    /// True if they are valid for longer than `margin`.
    fn live(&self, margin: Duration) -> bool {
        self.credentials.expiry().is_none_or(|expiry| SystemTime::now() + margin < expiry)
    }
}

impl Identity {
    /// The identity for plain `s3://`, or for a named endpoint.
    pub(super) fn new(client: &Client, endpoint: Option<EndpointSettings>) -> Self {
        let asked = Asked {
            client: ProviderClient::new(client),
            state: Mutex::default(),
            answered: Condvar::new(),
            source: OnceLock::new(),
        };
        Self { endpoint, settings: OnceLock::new(), asked: Arc::new(asked) }
    }

    /// Endpoint, region and form of addresses.
    pub(super) fn settings(&self, options: &Options) -> Result<&ServiceSettings> {
        let find = || match &self.endpoint {
            None => ServiceSettings::find(options),
            Some(endpoint) => ServiceSettings::of_endpoint(options, endpoint),
        };
        let settings = self.settings.get_or_init(find);
        settings.as_ref().map_err(|misuse| misuse.clone().into())
    }

    /// Valid credentials, or `None` for unsigned requests.
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
        let refused = |failure: Failure| {
            let location = location.to_owned();
            match failure.silence {
                Some((service, after)) => Error::CredentialsTimedOut { location, service, after },
                None => Error::Credentials { location, detail: failure.detail, trace: None },
            }
        };
        let mut state = self.asked.state();
        if let Some(known) = state.known.as_ref().filter(|known| known.serves()) {
            return Ok(Some(known.credentials.clone()));
        }
        if let Some(credentials) = from_variables(options) {
            return Ok(Some(state.learn(credentials)));
        }
        profile::check_identity(options)?;
        let failures = state.failures;
        let settings = self.settings(options)?;
        let service = Service { region: settings.region.clone(), variants: settings.variants };
        if !state.asking {
            state.asking = true;
            let (asked, profile) = (Arc::clone(&self.asked), profile::named(options));
            let thread = std::thread::Builder::new().name("credentials".into());
            if let Err(error) = thread.spawn(move || asked.ask(&service, profile)) {
                state.asking = false;
                return Err(refused(error.to_string().into()));
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
            // The old credentials are still valid: renewal is retried later.
            Some(known) if known.live(Duration::ZERO) => Ok(Some(known.credentials.clone())),
            Some(known) if state.failures == failures => Ok(Some(known.credentials.clone())),
            _ => Err(refused(state.failure.clone())),
        }
    }

    /// Drops credentials that the service has rejected as expired.
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

    /// Runs the chain and wakes all waiting callers.
    fn ask(&self, service: &Service, profile: Option<String>) {
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.provide(service, profile)));
        let mut state = self.state();
        match asked.unwrap_or_else(|_| Err("the credential chain failed".to_owned().into())) {
            Ok(credentials) => drop(state.learn(credentials)),
            Err(failure) => {
                state.failures += 1;
                state.failure = failure;
                // Retried after `ASK_AGAIN`, not by every request.
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
        service: &Service,
        profile: Option<String>,
    ) -> std::result::Result<Credentials, Failure> {
        if self.source.get().is_none() {
            let runtime = runtime()?;
            let region = service.region.clone().map(Region::new);
            let config = ProviderConfig::default()
                .with_region(region.clone())
                .with_use_fips(Some(service.variants.fips))
                .with_use_dual_stack(Some(service.variants.dual_stack))
                .with_http_client(self.client.clone());
            let source = match profile {
                Some(name) => {
                    let builder = ProfileFileCredentialsProvider::builder();
                    Source::Profile(builder.configure(&config).profile_name(name).build())
                }
                None => {
                    let builder = DefaultCredentialsChain::builder().configure(config).region(region);
                    Source::Chain(runtime.block_on(builder.build()))
                }
            };
            // Cannot fail: one thread at a time runs the chain.
            let _ = self.source.set((runtime, source));
        }
        let (runtime, source) = self.source.get().ok_or_else(|| "no source of credentials".to_owned())?;
        drop(self.client.take_silence());
        let provided = match source {
            Source::Chain(chain) => runtime.block_on(chain.provide_credentials()),
            Source::Profile(profile) => runtime.block_on(profile.provide_credentials()),
        };
        provided.map_err(|error| Failure { detail: describe(&error), silence: self.client.take_silence() })
    }
}
