//! Reads ranges of objects through gateways: caches near this machine that divide the objects among
//! themselves.
//!
//! Each segment of a version has one owner among the gateways ([`owner`]), which every client
//! computes in the same way. So gateways need not know each other, and a gateway that comes or goes
//! moves only its own segments. If a request is late, a second request goes to the next gateway or
//! to the origin ([`hedge`]). A gateway that fails, is repeatedly late or sends wrong bytes gets no
//! requests for a while. So a faulty gateway never makes a read fail. Descriptions and listings
//! always come from the origin. [`Store::get`](crate::Store::get) calls this module.

pub(crate) mod frames;
mod hedge;
pub(crate) mod member;
mod owner;

use std::sync::Arc;
use std::time::Duration;

use firstbyte_location::{ByteRange, Location, ObjectLocation, Service, Strength};

use self::hedge::{HedgeWatch, SecondRequest};
use self::member::Member;
pub use self::owner::SEGMENT;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::deferred::DeferredSetting;
use crate::error::{Error, FailureKind, Result};
use crate::options::{Outages, Proxies, StoreOptions};
use crate::query::{Get, Integrity};
use crate::signing::{Signing, SigningKeys};
use crate::via::Gateways;

/// Longest time for which a gateway may leave all requests unanswered. This time is longer than a
/// gateway's read from the origin takes, and a fraction of a read's deadline.
const MAX_SILENCE: Duration = Duration::from_secs(3);

/// Time limit for connecting to a gateway. Gateways are near.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// Number of gateways tried for a segment before the origin: the owner of the segment, and the next
/// in order.
const GATEWAYS_PER_SEGMENT: usize = 2;

/// Reads from one gateway or from the origin. [`Store`](crate::Store) implements this trait for
/// both.
pub(crate) trait GatewayReader: Send + Sync {
    fn get(&self, location: &Location, get: &Get) -> Result<Body>;
}

/// Constructor of a gateway's reader from the reader's options.
pub(crate) type MakeReader = fn(StoreOptions) -> Result<Arc<dyn GatewayReader>>;

/// The gateways of one store.
pub(crate) struct Ring {
    members: Vec<Gateway>,
    watch: HedgeWatch,
}

/// A gateway and its reader. The gateway that runs in this process has no reader.
type Gateway = (Arc<Member>, Option<Arc<dyn GatewayReader>>);

impl Ring {
    /// Returns the gateways that the options name, or `None` if they name none.
    ///
    /// # Errors
    /// The errors of `make`, and malformed gateway options.
    pub(crate) fn new(options: &StoreOptions, make: MakeReader) -> Result<Option<Self>> {
        let Gateways { own, keys, .. } = &options.gateways;
        let urls = options.gateways.checked()?;
        if urls.is_empty() {
            return Ok(None);
        }
        let keys = keys.as_ref().map(DeferredSetting::get).transpose()?;
        let member = |url: &String| {
            let reader = match own.as_ref() == Some(url) {
                true => None,
                false => Some(make(gateway_options(options, url, keys.cloned()))?),
            };
            Ok((Arc::new(Member::new(url.clone())), reader))
        };
        let members = urls.iter().map(member).collect::<Result<Vec<_>>>()?;
        Ok(Some(Self { members, watch: HedgeWatch::default() }))
    }

    /// Requests a range from a gateway, but at most up to the end of its segment. If the gateways
    /// are late, requests it from `origin` too. Returns `None` if no gateway can serve the range.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn get(
        &self,
        location: &Location,
        get: &Get,
        origin: &Arc<dyn GatewayReader>,
    ) -> Result<Option<Body>> {
        let Some(request) = GatewayRequest::of(location, get) else { return Ok(None) };
        let request = Arc::new(request);
        let candidates = self.candidates(&request.segment);
        for (place, (member, reader)) in candidates.iter().enumerate() {
            let second = match candidates.get(place + 1) {
                Some(next) => request.second(next.clone()),
                None => request.at_origin(location, origin),
            };
            let first = |cancel: &Cancel| request.ask(reader.as_ref(), cancel);
            let (answer, other) = self.watch.race(&get.cancel, member, first, second);
            match answer {
                Ok(body) if body.is_framed() => {
                    member.record_response();
                    return Ok(Some(body.watched_by(member)));
                }
                Ok(_) => member.record_failure(NO_FRAMES),
                Err(Error::Cancelled) if get.cancel.is_cancelled() => return Err(Error::Cancelled),
                Err(Error::Cancelled) => member.record_silence(),
                Err(error) if concerns_object(&error) => {}
                Err(error) => member.record_failure(&error),
            }
            if other.is_some() {
                return Ok(other);
            }
        }
        Ok(None)
    }

    /// Returns the gateways to try for a segment, in order. If the gateway in this process is among
    /// them, the list stops before it, because that gateway reads from the origin itself.
    fn candidates(&self, segment: &owner::Segment) -> Vec<(Arc<Member>, Arc<dyn GatewayReader>)> {
        let urls = self.members.iter().map(|(member, _)| member.url.as_str());
        let order = owner::order(urls, segment).into_iter().take(GATEWAYS_PER_SEGMENT);
        let members = order.map(|index| &self.members[index]);
        let others = members.map_while(|(member, reader)| Some((Arc::clone(member), reader.clone()?)));
        others.filter(|(member, _)| member.gets_requests()).collect()
    }
}

/// Returns true if a gateway's refusal is about this object only, so that the gateway may serve
/// others: the gateway knows another version, may not serve the object, or its origin refuses or
/// delays it.
fn concerns_object(refusal: &Error) -> bool {
    matches!(
        refusal.kind(),
        FailureKind::Changed
            | FailureKind::NotFound
            | FailureKind::NoSuchBucket
            | FailureKind::Archived
            | FailureKind::Throttled
            | FailureKind::Refused
    )
}

/// Returns the options of the store that reads from one gateway.
fn gateway_options(options: &StoreOptions, url: &str, keys: Option<SigningKeys>) -> StoreOptions {
    StoreOptions {
        endpoint_url: Some(url.to_owned()),
        config_file: None,
        profile: None,
        region: Some("us-east-1".to_owned()),
        signing: keys.map_or(Signing::Anonymous, Signing::Keys),
        request_payer: false,
        customer_key: None,
        gateways: Gateways::default(),
        proxies: Proxies::default(),
        read_deadline: MAX_SILENCE,
        connect_deadline: CONNECT_DEADLINE,
        retries: 0,
        outages: Outages::FailFast,
        ..options.clone()
    }
}

/// The failure of a gateway whose response has no block checksums.
const NO_FRAMES: &str = "it sends no checksums with its blocks: another version, or no gateway";

/// The part of a read that gateways can serve.
struct GatewayRequest {
    location: Location,
    get: Get,
    segment: owner::Segment,
}

impl GatewayRequest {
    /// Returns the part of a read that gateways can serve: whole blocks, up to the end of the
    /// segment, of an object with a strong version. `None` for other reads.
    fn of(location: &Location, get: &Get) -> Option<Self> {
        let Location::Object(object) = location else { return None };
        let (range, version) = (get.range?, get.version.as_ref()?);
        let size = version.size?;
        let is_whole_blocks = frames::is_aligned(range, size);
        if !is_whole_blocks || version.strength() != Strength::Strong || object.key.is_empty() {
            return None;
        }
        let segment = owner::Segment::new(object, version, range.start);
        let range = ByteRange::new(range.start, range.end.min(segment.end()).min(size));
        let get = Get { range: Some(range), checksum: false, integrity: Integrity::Blocks, ..get.clone() };
        // Gateways speak S3, whatever the origin speaks.
        let object = ObjectLocation { service: Service::S3, ..object.clone() };
        Some(Self { location: Location::Object(object), get, segment })
    }

    fn ask(&self, reader: &dyn GatewayReader, cancel: &Cancel) -> Result<Body> {
        reader.get(&self.location, &Get { cancel: cancel.clone(), ..self.get.clone() })
    }

    /// Returns the second request, which goes to the next gateway if this one is late.
    fn second(self: &Arc<Self>, (member, reader): (Arc<Member>, Arc<dyn GatewayReader>)) -> SecondRequest {
        let request = Arc::clone(self);
        Box::new(move |cancel| match request.ask(reader.as_ref(), cancel)? {
            body if body.is_framed() => {
                member.record_response();
                Ok(body.watched_by(&member))
            }
            // The failure is not recorded here. This gateway is the next in order, so it gets the
            // request again, and the failure is recorded then.
            _ => Err(Error::Cancelled),
        })
    }

    /// Returns the second request, which goes to the origin if the last gateway is late.
    fn at_origin(&self, location: &Location, origin: &Arc<dyn GatewayReader>) -> SecondRequest {
        let (location, origin) = (location.clone(), Arc::clone(origin));
        let get = Get { integrity: Integrity::None, ..self.get.clone() };
        Box::new(move |cancel| origin.get(&location, &Get { cancel: cancel.clone(), ..get }))
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_location::Version;

    use super::*;

    /// Refuses every read, in a way that depends on the key.
    struct Refusing;

    impl GatewayReader for Refusing {
        fn get(&self, location: &Location, _: &Get) -> Result<Body> {
            let location = location.to_string();
            let server = |status, code: &str| Error::Server {
                location: location.clone(),
                status,
                code: code.to_owned(),
                message: String::new(),
                trace: None,
            };
            Err(match location.as_str() {
                "s3://b/slow" => {
                    Error::SlowDown { location: location.clone(), retry_after: None, trace: None }
                }
                "s3://b/refused" => server(400, "InvalidRequest"),
                "s3://b/absent" => Error::NotFound { location: location.clone(), trace: None },
                _ => server(502, "BadGateway"),
            })
        }
    }

    #[test]
    fn only_a_failure_of_the_gateway_itself_excludes_it() {
        let options = StoreOptions {
            gateways: Gateways {
                urls: DeferredSetting::new("--via", || Ok(vec!["http://127.0.0.1:9".to_owned()])),
                ..Gateways::default()
            },
            ..StoreOptions::default()
        };
        let ring = Ring::new(&options, |_| Ok(Arc::new(Refusing))).unwrap().unwrap();
        let origin: Arc<dyn GatewayReader> = Arc::new(Refusing);
        let version = Version { size: Some(10), etag: Some("\"a\"".to_owned()), ..Version::default() };
        let get = Get { range: Some(ByteRange::new(0, 10)), version: Some(version), ..Get::default() };
        for (key, is_asked_again) in [("slow", true), ("refused", true), ("absent", true), ("broken", false)]
        {
            let location = Location::parse(format!("s3://b/{key}").as_ref()).unwrap();
            assert!(ring.get(&location, &get, &origin).unwrap().is_none(), "{key}");
            assert_eq!(ring.members[0].0.gets_requests(), is_asked_again, "{key}");
        }
    }
}
