//! Turns a request into a response: checks host and origin, removes the base path, chooses the API,
//! checks access and calls the API. Every response passes through [`sandbox`]. Called by the
//! connection loop.

mod choose;
mod cors;
mod sandbox;

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, StatusCode};

use crate::access::keys::RequestRights;
use crate::http::connection::{LoggedResponse, RequestHandler};
use crate::http::head::RequestHeadError;
use crate::http::hosts::HostTarget;
use crate::http::metrics::RequestRoute;
use crate::http::refusal;
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::page;
use crate::path::EntryPath;
use crate::route::choose::{remove_infrastructure, route};
use crate::state::{ServedSource, ServerState};
use crate::{plain, s3};

/// Chooses the API that answers a request.
#[derive(Debug)]
pub(crate) struct RequestRouter {
    state: Arc<ServerState>,
    served: ServedSource,
    s3: s3::S3Frontend,
}

impl RequestRouter {
    pub(crate) fn new(state: Arc<ServerState>, served: ServedSource) -> Self {
        Self { s3: s3::S3Frontend::new(&state, &served), state, served }
    }

    /// Isolates the document in `response`, if it has one. `named` is the content type derived from
    /// the file name in the requested path.
    fn confine(&self, named: &str, response: HttpResponse) -> HttpResponse {
        sandbox::confine(&self.state, named, response)
    }

    /// Checks the host, the loop of gateways and the origin of a request, and answers the request.
    /// Also returns its route, and the access key that the request proved.
    async fn dispatch(&self, mut request: HttpRequest) -> (HttpResponse, RequestRoute, Option<String>) {
        let state = &self.state;
        let host = request.headers.get(HOST).map_or(Ok(""), |host| host.to_str());
        let addressed = host.as_ref().map_or(HostTarget::Elsewhere, |host| state.hosts.judge(host));
        if addressed == HostTarget::Elsewhere {
            let route = route(&request);
            let host = host.unwrap_or_default();
            let response =
                if route == RequestRoute::S3 { s3::unknown_host(host) } else { refusal::unknown_host(host) };
            return (response, route, None);
        }
        let mut sent_path = match strip_base(state, &mut request) {
            Ok(sent) => sent,
            Err(refused) => return (*refused, RequestRoute::Plain, None),
        };
        let route = match addressed {
            HostTarget::Bucket(bucket) => {
                let path = format!("/{bucket}{}", request.path);
                let sent = std::mem::replace(&mut request.path, path);
                sent_path.get_or_insert(sent);
                RequestRoute::S3
            }
            _ => route(&request),
        };
        if let ServedSource::Gateway(gateway) = &self.served
            && let Err(refused) = gateway.check_loop(&request)
        {
            return (plain::refusal_response(&refused), route, None);
        }
        let is_read = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if !is_read
            && let Err(reason) = cors::check_write(&state.config.cors, &request.headers, state.scheme())
        {
            return (HttpResponse::text(StatusCode::FORBIDDEN, reason), route, None);
        }
        let (response, who) = if request.method == Method::OPTIONS {
            (state.config.cors.preflight(&request.headers), None)
        } else if route == RequestRoute::S3 {
            s3::answer(&self.s3, state, request, sent_path).await
        } else {
            match state.access(&request) {
                Ok(access) => {
                    let mut response = self.answer_unsigned(request, route, &access).await;
                    if matches!(access, RequestRights::Key(_)) {
                        keep_private(&mut response.headers);
                    }
                    (response, Some(access.name().to_owned()))
                }
                Err(wait) => (refusal::too_many_attempts(wait), None),
            }
        };
        (response, route, who)
    }
}

impl RequestRouter {
    /// Answers a request with a password, with a cookie, or without credentials.
    async fn answer_unsigned(
        &self,
        mut request: HttpRequest,
        route: RequestRoute,
        access: &RequestRights,
    ) -> HttpResponse {
        let state = &self.state;
        match route {
            RequestRoute::Metrics => self.metrics(access),
            RequestRoute::Reserved => {
                let rest = request.path.trim_start_matches("/.firstbyte/").to_owned();
                match &self.served {
                    ServedSource::Directory(directory) => {
                        page::answer_reserved(directory, request, &rest, access).await
                    }
                    ServedSource::Gateway(_) => page::answer_account(state, None, request, &rest).await,
                }
            }
            _ if self.is_metrics(&request).await => self.metrics(access),
            _ => {
                if let Some((bucket, rest)) = state.config.buckets.split(&request.path) {
                    request.prefix.push_str(bucket);
                    request.path = rest.to_owned();
                }
                plain::with_vary(match &self.served {
                    ServedSource::Directory(directory) => plain::answer(directory, request, access).await,
                    ServedSource::Gateway(gateway) => plain::remote(state, gateway, request, access).await,
                })
            }
        }
    }

    /// True if `/metrics` means the counters. For a directory, that is so only if no file or bucket
    /// has that name. For a gateway it is always so, because the origin is not asked.
    async fn is_metrics(&self, request: &HttpRequest) -> bool {
        let ServedSource::Directory(directory) = &self.served else { return request.path == "/metrics" };
        request.path == "/metrics"
            && match EntryPath::parse(b"metrics") {
                Ok(path) => directory.root.open_entry(&path).await.is_err(),
                Err(_) => false,
            }
    }

    fn metrics(&self, access: &RequestRights) -> HttpResponse {
        if matches!(access, RequestRights::Nobody) {
            return refusal::unauthorized();
        }
        let mut text = self.state.metrics.render();
        if let ServedSource::Gateway(gateway) = &self.served {
            text.push_str(&gateway.render_metrics());
        }
        HttpResponse::new(StatusCode::OK)
            .with_header(CONTENT_TYPE, "text/plain; version=0.0.4")
            .with_body(ResponseBody::Bytes(text.into()))
    }
}

impl RequestHandler for RequestRouter {
    async fn answer(&self, mut request: HttpRequest) -> LoggedResponse {
        remove_infrastructure(&mut request.headers);
        let origin = cors::origin(&request.headers).map(str::to_owned);
        let (method, named) = (request.method.clone(), sandbox::type_from_name(&request.path));
        let (response, route, who) = self.dispatch(request).await;
        let response = self.confine(named, response);
        let response = self.state.config.cors.finish(origin.as_deref(), &method, response);
        LoggedResponse { response, route, who: who.unwrap_or_else(|| "-".to_owned()) }
    }

    fn refuse(&self, refused: &RequestHeadError) -> LoggedResponse {
        let response = self.confine("", HttpResponse::text(refused.status(), refused));
        LoggedResponse { response, route: RequestRoute::Plain, who: "-".to_owned() }
    }
}

/// Forbids shared caches to store a response to a key's holder. Caches do not recognise a session
/// cookie as credentials, because it is not in the header `Authorization`.
fn keep_private(headers: &mut HeaderMap) {
    let said = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_shared = |directive: &&str| {
        let name = directive.split('=').next().unwrap_or_default().trim();
        ["public", "s-maxage", "private"].iter().any(|shared| name.eq_ignore_ascii_case(shared))
    };
    let kept = said.split(',').map(str::trim).filter(|text| !text.is_empty() && !is_shared(text));
    let value = std::iter::once("private").chain(kept).collect::<Vec<_>>().join(", ");
    if let Ok(value) = value.parse() {
        headers.insert(CACHE_CONTROL, value);
    }
}

/// Removes the base path from a request's path. Returns the original path if there is a base path.
fn strip_base(state: &ServerState, request: &mut HttpRequest) -> Result<Option<String>, Box<HttpResponse>> {
    let base = &state.config.base_path;
    if base.is_empty() {
        return Ok(None);
    }
    let path = match request.path.strip_prefix(base.as_str()) {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some("") => "/".to_owned(),
        _ => {
            return Err(Box::new(HttpResponse::text(
                StatusCode::NOT_FOUND,
                format_args!("everything here is below {base}/"),
            )));
        }
    };
    request.prefix.clone_from(base);
    Ok(Some(std::mem::replace(&mut request.path, path)))
}
