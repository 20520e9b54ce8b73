//! Turns a request into a response: checks host and origin, removes the base path, chooses the
//! route, checks access and calls the handler. Called by the connection loop.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, StatusCode};

use crate::cors;
use crate::hosts::Addressed;
use crate::page;
use crate::request::Request;
use crate::response::{Body, Response};
use crate::root::EntryPath;
use crate::route::{Route, remove_infrastructure, route, split_bucket};
use crate::site::{Access, Site};
use crate::{files, refusal, s3, sandbox};

/// An answer and what the log and the counters say of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) response: Response,
    pub(crate) route: Route,
    pub(crate) who: String,
}

/// Answers a request.
pub(crate) async fn answer(site: &Arc<Site>, mut request: Request) -> Outcome {
    remove_infrastructure(&mut request.headers);
    let origin = cors::origin(&request.headers).map(str::to_owned);
    let (method, named) = (request.method.clone(), sandbox::named_type(&request.path));
    let (response, route, who) = addressed(site, request).await;
    let response = sandbox::confine(site, named, response);
    let response = site.config.cors.finish(origin.as_deref(), &method, response);
    Outcome { response, route, who: who.unwrap_or_else(|| "-".to_owned()) }
}

/// Answers a request for one of the server's names: finds its path and its route.
async fn addressed(site: &Arc<Site>, mut request: Request) -> (Response, Route, Option<String>) {
    let host = request.headers.get(HOST).map_or(Ok(""), |host| host.to_str());
    let addressed = host.map_or(Addressed::Elsewhere, |host| site.hosts.judge(host));
    if addressed == Addressed::Elsewhere {
        let route = route(&request);
        let response = if route == Route::S3 { s3::unknown_host() } else { refusal::unknown_host() };
        return (response, route, None);
    }
    let mut sent_path = match strip_base(site, &mut request) {
        Ok(sent) => sent,
        Err(refused) => return (*refused, Route::Plain, None),
    };
    let route = match addressed {
        Addressed::Bucket(bucket) => {
            let path = format!("/{bucket}{}", request.path);
            let sent = std::mem::replace(&mut request.path, path);
            sent_path.get_or_insert(sent);
            Route::S3
        }
        _ => route(&request),
    };
    let is_read = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_read && let Err(reason) = cors::check_write(&site.config.cors, &request.headers, site.scheme()) {
        return (Response::text(StatusCode::FORBIDDEN, reason), route, None);
    }
    let (response, who) = if request.method == Method::OPTIONS {
        (site.config.cors.preflight(&request.headers), None)
    } else if route == Route::S3 {
        s3::answer(site, request, sent_path).await
    } else {
        match site.access(&request) {
            Ok(access) => {
                let mut response = unsigned(site, request, route, &access).await;
                if matches!(access, Access::Key(_)) {
                    keep_private(&mut response.headers);
                }
                (response, Some(access.name().to_owned()))
            }
            Err(wait) => (refusal::too_many_attempts(wait), None),
        }
    };
    (response, route, who)
}

/// Keeps an answer to the holder of a key from caches that others share. A session is no
/// `Authorization`, by which such caches would know.
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

/// Answers a request that proves its key by password or cookie, if at all.
async fn unsigned(site: &Arc<Site>, mut request: Request, route: Route, access: &Access) -> Response {
    match route {
        Route::Metrics => metrics(site, access),
        Route::Reserved => {
            let rest = request.path.trim_start_matches("/.firstbyte/").to_owned();
            page::reserved(site, request, &rest, access).await
        }
        _ if is_metrics(site, &request).await => metrics(site, access),
        _ => {
            if let Some((bucket, rest)) = split_bucket(&site.config.buckets, &request.path) {
                request.prefix.push_str(bucket);
                request.path = rest.to_owned();
            }
            files::answer(site, request, access).await
        }
    }
}

/// Takes the base path off a request's path; gives the path as it was sent, where there is a base.
fn strip_base(site: &Site, request: &mut Request) -> Result<Option<String>, Box<Response>> {
    let base = &site.config.base_path;
    if base.is_empty() {
        return Ok(None);
    }
    let path = match request.path.strip_prefix(base.as_str()) {
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some("") => "/".to_owned(),
        _ => {
            return Err(Box::new(Response::text(
                StatusCode::NOT_FOUND,
                format_args!("everything here is below {base}/"),
            )));
        }
    };
    request.prefix.clone_from(base);
    Ok(Some(std::mem::replace(&mut request.path, path)))
}

/// Whether `/metrics` means the counters: only when no file or bucket has that name.
async fn is_metrics(site: &Site, request: &Request) -> bool {
    request.path == "/metrics"
        && match EntryPath::parse(b"metrics") {
            Ok(path) => site.root.open_entry(&path).await.is_err(),
            Err(_) => false,
        }
}

fn metrics(site: &Site, access: &Access) -> Response {
    if matches!(access, Access::Nobody) {
        return refusal::unauthorized();
    }
    Response::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, "text/plain; version=0.0.4")
        .with_body(Body::Bytes(site.metrics.render().into()))
}
