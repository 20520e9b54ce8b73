//! Finds credentials: in the options, otherwise by the AWS credential chain.
//!
//! The chain ([`CredentialChain`]) runs on a separate thread, because a cancelled caller must be
//! able to stop waiting. Concurrent callers share one run of the chain.
//!
//! Keys in environment variables are used without the chain, because building it takes
//! milliseconds, longer than reading a small object. A profile given by name is the only source of
//! credentials: if it is incomplete, that is an error.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix_futex_sync::{Condvar, Mutex};

use super::chain::{ChainFailure, CredentialChain, CredentialService};
use super::endpoint::FIRST_REGION;
use super::endpoints::EndpointSettings;
use super::environment::from_variables;
use super::key::AccessKey;
use super::profile;
use super::settings::ServiceSettings;
use super::unusable_setting::UnusableSetting;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::POLL_INTERVAL;
use crate::options::StoreOptions;
use crate::signing::Signing;
use crate::wire::WireClient;

/// Remaining validity below which credentials are renewed. It is longer than any request, and
/// shorter than the shortest AWS session (15 minutes).
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);

/// Pause between attempts to renew, if the source fails or returns the same credentials. The pause
/// is long, because requests wait during an attempt, which may start a process or take a round
/// trip.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// Finds credentials when they are first used, and again when they are used less than
/// [`RENEW_BEFORE`] before their end.
pub(super) struct S3Credentials {
    /// The named endpoint; `None` for plain `s3://`.
    endpoint: Option<EndpointSettings>,
    settings: OnceLock<std::result::Result<ServiceSettings, UnusableSetting>>,
    asked: Arc<ChainState>,
}

/// State shared with the thread that runs the chain.
struct ChainState {
    chain: CredentialChain,
    state: Mutex<CredentialState>,
    /// Signalled when the chain has returned.
    answered: Condvar,
}

#[derive(Default)]
struct CredentialState {
    known: Option<KnownCredentials>,
    /// True while a thread runs the chain.
    is_chain_running: bool,
    /// Number of times that the chain has failed. `failure` is the last failure.
    failures: u64,
    failure: ChainFailure,
}

/// Credentials, and the time at which they were last requested.
struct KnownCredentials {
    credentials: AccessKey,
    asked: Instant,
}

impl KnownCredentials {
    /// Returns true if the credentials can be used without a renewal.
    fn is_usable(&self) -> bool {
        self.is_valid_for(RENEW_BEFORE)
            || (self.is_valid_for(RENEWAL_PAUSE) && self.asked.elapsed() < RENEWAL_PAUSE)
    }

    /// Returns true if the credentials stay valid for longer than `margin`.
    fn is_valid_for(&self, margin: Duration) -> bool {
        self.credentials.expiry.is_none_or(|expiry| SystemTime::now() + margin < expiry)
    }
}

impl S3Credentials {
    /// Makes the credentials of plain `s3://` or, if `endpoint` is given, of a named endpoint. They
    /// are looked up when they are first used.
    pub(super) fn new(client: &WireClient, endpoint: Option<EndpointSettings>) -> Self {
        let asked = ChainState {
            chain: CredentialChain::new(client),
            state: Mutex::default(),
            answered: Condvar::new(),
        };
        Self { endpoint, settings: OnceLock::new(), asked: Arc::new(asked) }
    }

    /// Returns the endpoint, region and addressing.
    pub(super) fn settings(&self, options: &StoreOptions) -> Result<&ServiceSettings> {
        let find = || match &self.endpoint {
            None => ServiceSettings::find(options),
            Some(endpoint) => ServiceSettings::of_endpoint(options, endpoint),
        };
        let settings = self.settings.get_or_init(find);
        settings.as_ref().map_err(|unusable| unusable.clone().into())
    }

    /// Returns valid credentials, or `None` if requests are not to be signed.
    pub(super) fn credentials(
        &self,
        location: &str,
        options: &StoreOptions,
        cancel: &Cancel,
    ) -> Result<Option<AccessKey>> {
        match &options.signing {
            Signing::Anonymous => return Ok(None),
            Signing::Keys(keys) => {
                return Ok(Some(AccessKey {
                    id: keys.access_key_id.clone(),
                    secret: keys.secret_access_key.clone(),
                    session_token: keys.session_token.clone(),
                    expiry: None,
                }));
            }
            Signing::Chain => {}
        }
        let refused = |failure: ChainFailure| {
            let location = location.to_owned();
            match failure.silence {
                Some((service, after)) => Error::CredentialsTimedOut { location, service, after },
                None => Error::Credentials { location, detail: failure.detail, trace: None },
            }
        };
        let mut state = self.asked.state.lock();
        if let Some(known) = state.known.as_ref().filter(|known| known.is_usable()) {
            return Ok(Some(known.credentials.clone()));
        }
        if let Some(credentials) = from_variables(options) {
            return Ok(Some(state.learn(credentials)));
        }
        profile::check_identity(options)?;
        let failures = state.failures;
        let settings = self.settings(options)?;
        // Without a configured region, aws-cli asks STS in the first one. The chain would fail
        // (https://github.com/paws-r/paws/issues/730, as of 28 November 2026).
        let region = settings.region.as_deref().unwrap_or(FIRST_REGION).to_owned();
        let service = CredentialService { region, variants: settings.variants };
        if !state.is_chain_running {
            state.is_chain_running = true;
            let (asked, profile) = (Arc::clone(&self.asked), profile::named(options));
            let thread = std::thread::Builder::new().name("credentials".into());
            if let Err(error) = thread.spawn(move || asked.ask(&service, profile)) {
                state.is_chain_running = false;
                return Err(refused(error.to_string().into()));
            }
        }
        while state.is_chain_running {
            state = self.asked.answered.wait_timeout(state, POLL_INTERVAL).0;
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
        match &state.known {
            // The renewal failed, but the old credentials are still valid. A later request tries
            // again.
            Some(known) if known.is_valid_for(Duration::ZERO) => Ok(Some(known.credentials.clone())),
            Some(known) if state.failures == failures => Ok(Some(known.credentials.clone())),
            _ => Err(refused(state.failure.clone())),
        }
    }

    /// Drops credentials that the service has rejected as expired. The configuration files are then
    /// read again, because another program may have written new credentials to them. aws-sdk-go
    /// does so too, and users of other clients ask for it
    /// (<https://github.com/aws/aws-sdk-go-v2/issues/2135>,
    /// <https://github.com/s3fs-fuse/s3fs-fuse/issues/1290>, as of 28 November 2026).
    pub(super) fn forget(&self) {
        self.asked.state.lock().known = None;
        self.asked.chain.forget();
    }
}

impl CredentialState {
    fn learn(&mut self, credentials: AccessKey) -> AccessKey {
        self.known = Some(KnownCredentials { credentials: credentials.clone(), asked: Instant::now() });
        credentials
    }
}

impl ChainState {
    /// Runs the chain and wakes all waiting callers.
    fn ask(&self, service: &CredentialService, profile: Option<String>) {
        let asked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.chain.provide(service, profile)));
        let mut state = self.state.lock();
        match asked.unwrap_or_else(|_| Err("the credential chain failed".to_owned().into())) {
            Ok(credentials) => drop(state.learn(credentials)),
            Err(failure) => {
                state.failures += 1;
                state.failure = failure;
                // A failure counts as an attempt, so the next attempt follows only after
                // `RENEWAL_PAUSE`.
                if let Some(known) = &mut state.known {
                    known.asked = Instant::now();
                }
            }
        }
        state.is_chain_running = false;
        self.answered.notify_all();
    }
}
