//! Defines the two kinds of gateways in the options of a store: gateways on whose behalf it sends
//! requests, and gateways through which it reads.

use std::sync::Arc;

use firstbyte_location::redacted_operand;
use rustix_futex_sync::RwLock;

use crate::deferred::DeferredSetting;
use crate::error::{Error, Result};
use crate::header_text::check_header_value;
use crate::origin::Origin;
use crate::signing::SigningKeys;

/// The header `Via` (RFC 9110, 7.6.3) in all requests of a store. It names the gateways on whose
/// behalf the requests are sent. So a gateway recognises its own requests if they come back to it.
/// Clones share the header, which may change while the store is in use. The header is not signed.
#[derive(Clone, Debug, Default)]
pub struct Via(Arc<RwLock<Option<String>>>);

impl Via {
    /// Sets the value of the header.
    ///
    /// # Errors
    /// The reason why a header cannot have this text.
    pub fn set(&self, text: String) -> std::result::Result<(), &'static str> {
        check_header_value(&text)?;
        *self.0.write() = Some(text);
        Ok(())
    }

    /// Returns the value of the header. `None` if requests are sent on behalf of no gateway; they
    /// then have no such header.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        self.0.read().clone()
    }
}

/// The gateways through which a store reads. There may be none.
#[derive(Clone, Debug, Default)]
pub struct Gateways {
    /// The URLs of the gateways, without repetitions. All clients must spell them alike.
    pub urls: DeferredSetting<Vec<String>>,
    /// The URL of the gateway in this process. Its segments are read from the origin.
    pub own: Option<String>,
    /// The access key for all gateways. `None`: requests are not signed.
    pub keys: Option<DeferredSetting<SigningKeys>>,
}

impl Gateways {
    /// Returns the URLs after checking them.
    ///
    /// # Errors
    /// An invalid or repeated URL.
    pub(crate) fn checked(&self) -> Result<&[String]> {
        let urls = self.urls.get()?;
        let refuse = |why: String| Err(Error::Options { what: "--via".to_owned(), why });
        for (place, url) in urls.iter().enumerate() {
            let shown = redacted_operand(url);
            let Some(origin) = Origin::parse_url(url) else {
                return refuse(format!(
                    "`{shown}` is no gateway; write http(s)://HOST:PORT, separated by commas"
                ));
            };
            if urls[..place].iter().any(|other| Origin::parse_url(other).as_ref() == Some(&origin)) {
                return refuse(format!("{shown} is there twice; name each gateway once"));
            }
        }
        Ok(urls)
    }
}
