//! Records the keys of a request: the key whose secret was compared, and the key that the signature
//! proved.
//!
//! s3s asks for a key's secret in one place for every kind of signature: header, URL and form,
//! versions 2 and 4. [`KeyFile`] answers: it records the key, and refuses a key that is guessed too
//! often. So a wrong signature counts for the key whose secret was compared. A right signature
//! resets the count of the key that it proved, whatever other keys the request names. The records
//! belong to the task in which s3s runs.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use rustix_futex_sync::Mutex;
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::access::attempts::Attempts;
use crate::access::keys::ServerKeys;

tokio::task_local! {
    static CURRENT: KeyAttempt;
}

/// Records about the key of a request.
#[derive(Clone, Debug)]
pub(super) struct KeyAttempt {
    from: IpAddr,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Debug, Default)]
struct Notes {
    compared: Option<String>,
    proved: Option<String>,
}

impl KeyAttempt {
    /// Creates an empty record for a request from this address.
    pub(super) fn new(from: IpAddr) -> Self {
        Self { from, notes: Arc::default() }
    }

    pub(super) fn address(&self) -> IpAddr {
        self.from
    }

    /// Forgets the compared key, because the comparison was not a guess.
    pub(super) fn forget(&self) {
        self.notes.lock().compared = None;
    }

    /// Runs `work`, which calls s3s, with these records.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// Returns the key whose secret was compared.
    pub(super) fn compared_key(&self) -> Option<String> {
        self.notes.lock().compared.clone()
    }

    /// Returns the key that the signature proved.
    pub(super) fn proved_key(&self) -> Option<String> {
        self.notes.lock().proved.clone()
    }
}

/// Records the key that the signature of the current request proved.
pub(super) fn record_proved_key(access_key: &str) {
    // Outside a request there is no record to change.
    let _ = CURRENT.try_with(|attempt| attempt.notes.lock().proved = Some(access_key.to_owned()));
}

/// Gives s3s the secrets to check signatures.
#[derive(Debug)]
pub(super) struct KeyFile {
    pub(super) keys: ServerKeys,
    pub(super) attempts: Arc<Attempts>,
}

#[async_trait::async_trait]
impl S3Auth for KeyFile {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let key = self.keys.get(access_key);
        let counted = if key.is_some() { access_key } else { "" };
        let wait = CURRENT.try_with(|attempt| {
            let wait = self.attempts.remaining_delay(attempt.from, counted);
            if wait.is_none() {
                attempt.notes.lock().compared = Some(access_key.to_owned());
            }
            wait
        });
        if let Ok(Some(wait)) = wait {
            return Err(too_many_attempts(wait));
        }
        let key = key.ok_or_else(|| s3_error!(InvalidAccessKeyId, "this server has no such key"))?;
        Ok(SecretKey::from(key.secret.as_str()))
    }
}

/// Returns the error after too many wrong signatures of a key. Its code makes S3 clients wait.
fn too_many_attempts(wait: Duration) -> S3Error {
    let seconds = wait.as_secs() + 1;
    let message =
        format!("too many wrong secrets of this key came from your address; try again in {seconds} s");
    let mut error = S3Error::with_message(S3ErrorCode::SlowDown, message);
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, seconds.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    error.set_headers(headers);
    error
}
