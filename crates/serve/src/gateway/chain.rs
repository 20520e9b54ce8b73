//! Detects loops: a gateway whose origin leads back to the gateway itself.
//!
//! Every request to an origin has a `Via` header (RFC 9110, 7.6.3) with the name of this gateway
//! and the names of all gateways that sent it requests within the last minute. The list is not made
//! per request, because one fetch serves many requests. If the `Via` of a request names the gateway
//! that receives it, the request has passed that gateway before and is refused.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use firstbyte_store::Via;
use http::HeaderMap;
use http::header::VIA;
use rustix_futex_sync::Mutex;

use super::error::GatewayRefusal;
use crate::token::random_token;

/// Prefix of the gateways' names in `Via`.
const NAME_PREFIX: &str = "firstbyte-";

/// Time after a gateway's last request for which `Via` names it.
const ASKER_LIFETIME: Duration = Duration::from_secs(60);

/// Maximum number of gateways that `Via` names. No real chain is longer.
const MAX_NAMED_GATEWAYS: usize = 16;

/// The name of this gateway, and the names of the gateways that send it requests.
#[derive(Debug)]
pub(super) struct GatewayChain {
    own_name: String,
    askers: Mutex<HashMap<String, Instant>>,
    via: Via,
}

impl GatewayChain {
    /// Makes a random name for this gateway. `via` adds it to every request to the origin.
    pub(super) fn new(via: Via) -> Self {
        let chain =
            Self { own_name: format!("{NAME_PREFIX}{}", random_token()), askers: Mutex::default(), via };
        chain.announce(&HashMap::new());
        chain
    }

    /// Refuses a request whose `Via` names this gateway. Otherwise remembers the gateways that
    /// `Via` names.
    pub(super) fn check(&self, headers: &HeaderMap, now: Instant) -> Result<(), GatewayRefusal> {
        let named: Vec<&str> = headers.get_all(VIA).iter().filter_map(|value| value.to_str().ok()).collect();
        let named = named.iter().flat_map(|value| value.split(',')).filter_map(pseudonym);
        let mut others = named.peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let mut askers = self.askers.lock();
        let mut is_new = false;
        for name in others.take(MAX_NAMED_GATEWAYS) {
            if name == self.own_name {
                return Err(GatewayRefusal::Loop);
            }
            is_new |= askers.insert(name.to_owned(), now).is_none();
        }
        let before = askers.len();
        askers.retain(|_, asked| now.duration_since(*asked) < ASKER_LIFETIME);
        while askers.len() > MAX_NAMED_GATEWAYS {
            let oldest = askers.iter().min_by_key(|(_, asked)| **asked).map(|(name, _)| name.clone());
            oldest.and_then(|name| askers.remove(&name));
        }
        if is_new || askers.len() != before {
            self.announce(&askers);
        }
        Ok(())
    }

    fn announce(&self, askers: &HashMap<String, Instant>) {
        let names = std::iter::once(&self.own_name).chain(askers.keys());
        let text = names.map(|name| format!("1.1 {name}")).collect::<Vec<_>>().join(", ");
        if let Err(why) = self.via.set(text) {
            tracing::error!("the header `via` {why}: loops are not detected");
        }
    }
}

/// Parses the name of a gateway from one element of `Via`.
fn pseudonym(element: &str) -> Option<&str> {
    let name = element.split_whitespace().nth(1)?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (name.starts_with(NAME_PREFIX) && name.len() <= 80 && name.bytes().all(is_word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(via: &str) -> HeaderMap {
        HeaderMap::from_iter([(VIA, via.parse().unwrap())])
    }

    #[test]
    fn a_request_that_comes_back_is_refused_over_any_number_of_gateways() {
        let (one, two, three) = (Via::default(), Via::default(), Via::default());
        let chains = [&one, &two, &three].map(|via| GatewayChain::new(via.clone()));
        let now = Instant::now();
        assert!(chains[1].check(&headers(&one.value().unwrap()), now).is_ok());
        assert!(chains[2].check(&headers(&two.value().unwrap()), now).is_ok());
        assert!(matches!(chains[0].check(&headers(&three.value().unwrap()), now), Err(GatewayRefusal::Loop)));
        assert!(matches!(chains[1].check(&headers(&two.value().unwrap()), now), Err(GatewayRefusal::Loop)));
    }

    #[test]
    fn other_proxies_are_ignored_and_old_gateways_are_forgotten() {
        let via = Via::default();
        let chain = GatewayChain::new(via.clone());
        let (alone, now) = (via.value(), Instant::now());
        assert!(chain.check(&headers("1.1 varnish, HTTP/2 cdn (firstbyte-x)"), now).is_ok());
        assert_eq!(via.value(), alone);
        assert!(chain.check(&headers("1.1 firstbyte-x"), now).is_ok());
        assert_ne!(via.value(), alone);
        assert!(chain.check(&headers("1.1 firstbyte-y"), now + ASKER_LIFETIME).is_ok());
        assert!(!via.value().unwrap().contains("firstbyte-x"));
        (0..100).for_each(|n| assert!(chain.check(&headers(&format!("1.1 firstbyte-{n}")), now).is_ok()));
        assert!(via.value().unwrap().split(',').count() <= MAX_NAMED_GATEWAYS + 1);
    }
}
