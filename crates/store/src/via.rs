//! Gateways, as options of a store: those that requests come from, and those that reads go through.

use std::sync::Arc;

use firstbyte_location::redacted_operand;
use rustix_futex_sync::RwLock;

use crate::deferred::Deferred;
use crate::error::{Error, Result};
use crate::header_text::header_value;
use crate::origin::Origin;
use crate::signing::Keys;

/// The header `Via` (RFC 9110, 7.6.3) of all requests of a store: the gateways that they come from,
/// so that each of them recognises a request that comes back to it. Clones share it, and it can
/// change while the store is in use. It is not signed.
#[derive(Clone, Debug, Default)]
pub struct Via(Arc<RwLock<Option<String>>>);

impl Via {
    /// Sets the value of the header.
    ///
    /// # Errors
    /// The text cannot be the value of a header.
    pub fn set(&self, text: String) -> std::result::Result<(), &'static str> {
        header_value(&text)?;
        *self.0.write() = Some(text);
        Ok(())
    }

    /// The value. `None`: requests come from no gateway, and have no such header.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        self.0.read().clone()
    }
}

/// The gateways that a store reads through. Empty: none.
#[derive(Clone, Debug, Default)]
pub struct Gateways {
    /// Their URLs, each once, as all clients write them.
    pub urls: Deferred<Vec<String>>,
    /// The one that runs in this process: its segments are read from the origin.
    pub own: Option<String>,
    /// The key for all of them. `None`: requests are not signed.
    pub keys: Option<Deferred<Keys>>,
}

impl Gateways {
    /// The URLs.
    ///
    /// # Errors
    /// One that is no URL, or is there twice.
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
