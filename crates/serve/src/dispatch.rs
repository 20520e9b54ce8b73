//! Turns a request into a response: removes the base path, checks the origin, chooses the route,
//! checks access and calls the handler. Called by the connection loop.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CONTENT_TYPE, ORIGIN, VARY,
};
use http::{Method, StatusCode};

use crate::config::Cors;
use crate::page;
use crate::request::Request;
use crate::response::{Body, Response};
use crate::root::EntryPath;
use crate::route::{Route, route, split_bucket};
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
    let origin = request.header(ORIGIN).map(str::to_owned);
    let allowed = origin.filter(|origin| allows_origin(&site.config.cors, origin));
    let sent_path = match strip_base(site, &mut request) {
        Ok(sent) => sent,
        Err(refused) => {
            let response = sandbox::confine(site, "", *refused);
            return Outcome { response, route: Route::Plain, who: "-".to_owned() };
        }
    };
    let route = route(&request);
    let named = sandbox::named_type(&request.path);
    let (response, who) = if let Err(reason) = site.check_origin(&request) {
        (Response::text(StatusCode::FORBIDDEN, reason), None)
    } else if request.method == Method::OPTIONS {
        (preflight(), None)
    } else if route == Route::S3 {
        s3::answer(site, request, sent_path).await
    } else {
        match site.access(&request) {
            Ok(access) => (unsigned(site, request, route, &access).await, Some(access.name().to_owned())),
            Err(wait) => (refusal::too_many_attempts(wait), None),
        }
    };
    let mut response = sandbox::confine(site, named, response);
    if let Some(origin) = allowed {
        let origin = if site.config.cors == Cors::Any { "*".to_owned() } else { origin };
        response = response
            .with_header(ACCESS_CONTROL_ALLOW_ORIGIN, origin)
            .with_header(ACCESS_CONTROL_EXPOSE_HEADERS, "etag, content-length, content-range, last-modified")
            .with_header(VARY, "origin");
    }
    Outcome { response, route, who: who.unwrap_or_else(|| "-".to_owned()) }
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

fn allows_origin(cors: &Cors, origin: &str) -> bool {
    match cors {
        Cors::SameOrigin => false,
        Cors::Any => true,
        Cors::Origins(origins) => origins.iter().any(|item| item == origin),
    }
}

fn preflight() -> Response {
    Response::new(StatusCode::NO_CONTENT)
        .with_header(ALLOW, "GET, HEAD, PUT, POST, DELETE, OPTIONS")
        .with_header(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, PUT, POST, DELETE")
        .with_header(
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, range, if-match, if-none-match, x-amz-*",
        )
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
