//! Resolves the targets of redirects, and remembers the cookies that redirects set.
//!
//! A portal that requires a login redirects to its login page and back, and sets a cookie on the
//! way. Without the cookie, the next request would be redirected again. Cookies live as long as the
//! store. A cookie is sent only to the host that set it, whatever domain it names.

use std::time::SystemTime;

use firstbyte_location::HttpUrl;
use rustix_futex_sync::Mutex;
use url::Url;

use crate::dates::parse_http_date;
use crate::origin::Origin;
use crate::wire::ResponseHead;

/// Maximum number of cookies in a store; the oldest are dropped first. RFC 6265, 6.1 requires at
/// least 50 per host.
const MAX_COOKIES: usize = 200;

/// Resolves the URL of a `Location` header by the rules of browsers and of curl
/// (<https://url.spec.whatwg.org/>). The result has the credentials of `base` only if the host is
/// the same.
pub(super) fn resolve(base: &HttpUrl, target: &str) -> Option<HttpUrl> {
    let scheme = if base.tls { "https" } else { "http" };
    let whole = format!("{scheme}://{}{}", base.authority, base.target);
    let mut url = Url::parse(&whole).ok()?.join(target).ok()?;
    // Fragments are not sent to servers.
    url.set_fragment(None);
    let tls = match url.scheme() {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let mut authority = url.authority().to_owned();
    let origin = |tls, authority: &str| Origin::parse(tls, authority);
    if origin(tls, &authority)? == origin(base.tls, &base.authority)? {
        authority.clone_from(&base.authority);
    }
    let target = url[url::Position::BeforePath..].to_owned();
    Some(HttpUrl { tls, authority, target })
}

struct Cookie {
    origin: Origin,
    /// True if the cookie is sent only with TLS.
    needs_tls: bool,
    path: String,
    name: String,
    value: String,
}

/// The cookies that all hosts have set in a store.
#[derive(Default)]
pub(super) struct Cookies(Mutex<Vec<Cookie>>);

impl Cookies {
    /// Stores the cookies that a redirect from `at` sets.
    pub(super) fn store_cookies(&self, at: &HttpUrl, head: &ResponseHead) {
        let Some(origin) = Origin::parse(at.tls, &at.authority) else { return };
        let mut cookies = self.0.lock();
        for (_, line) in head.headers().filter(|(name, _)| *name == "set-cookie") {
            let Some((cookie, ends)) = parse(&origin, &at.target, line) else { continue };
            cookies.retain(|it| {
                (&it.origin.host, &it.path, &it.name) != (&cookie.origin.host, &cookie.path, &cookie.name)
            });
            if !ends {
                cookies.push(cookie);
            }
        }
        let surplus = cookies.len().saturating_sub(MAX_COOKIES);
        cookies.drain(..surplus);
    }

    /// Returns the `Cookie` header for a request to `at`, or `None` if no cookie applies.
    pub(super) fn header(&self, at: &HttpUrl) -> Option<(String, String)> {
        let cookies = self.0.lock();
        if cookies.is_empty() {
            return None;
        }
        let origin = Origin::parse(at.tls, &at.authority)?;
        let path = at.target.split('?').next().unwrap_or_default();
        let own = cookies.iter().filter(|it| {
            it.origin.host == origin.host && (at.tls || !it.needs_tls) && is_below(path, &it.path)
        });
        let value = own.map(|it| format!("{}={}", it.name, it.value)).collect::<Vec<_>>().join("; ");
        (!value.is_empty()).then(|| ("cookie".to_owned(), value))
    }
}

/// Parses a `Set-Cookie` header (RFC 6265, 5.2). Returns the cookie, and true if it has expired.
fn parse(origin: &Origin, target: &str, line: &str) -> Option<(Cookie, bool)> {
    let mut parts = line.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
    // A cookie's default path is the directory of the request (RFC 6265, 5.1.4).
    let asked = target.split('?').next().unwrap_or_default();
    let default = match asked.rfind('/') {
        Some(slash) if slash > 0 => &asked[..slash],
        _ => "/",
    };
    let mut cookie =
        Cookie { origin: origin.clone(), needs_tls: false, path: default.to_owned(), name, value };
    let (mut max_age, mut expires) = (None, None);
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        match attribute.trim().to_ascii_lowercase().as_str() {
            "secure" => cookie.needs_tls = true,
            "path" if value.starts_with('/') => value.trim().clone_into(&mut cookie.path),
            "max-age" => max_age = value.trim().parse::<i64>().ok().or(max_age),
            "expires" => expires = parse_http_date(value).or(expires),
            _ => {}
        }
    }
    // `Max-Age` has precedence (RFC 6265, 5.3).
    let has_expired = max_age
        .map(|seconds| seconds <= 0)
        .or_else(|| expires.map(|date| date <= SystemTime::now()))
        .unwrap_or(false);
    (!cookie.name.is_empty()).then_some((cookie, has_expired))
}

/// Returns true if the path of a cookie matches the path of a request (RFC 6265, 5.1.4).
fn is_below(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        match firstbyte_location::Location::parse(text.as_ref()).unwrap() {
            firstbyte_location::Location::Http(url) => url,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_redirect_is_resolved_as_browsers_do() {
        let base = url("http://me:secret@h:81/d/e/file?old=1");
        let to = |target: &str| {
            resolve(&base, target).map(|url| (url.tls, url.authority.clone(), url.target.clone()))
        };
        let here = |target: &str| Some((false, "me:secret@h:81".to_owned(), target.to_owned()));
        for (target, expected) in [
            ("?code=7", here("/d/e/file?code=7")),
            ("../x", here("/d/x")),
            ("./y#part", here("/d/e/y")),
            ("", here("/d/e/file?old=1")),
            ("#part", here("/d/e/file?old=1")),
            ("../../../../z", here("/z")),
            ("/a b", here("/a%20b")),
            ("/a%2Fb%20c", here("/a%2Fb%20c")),
            ("http://H:81/x", here("/x")),
            ("//other/x", Some((false, "other".to_owned(), "/x".to_owned()))),
            ("https://h:81/x", Some((true, "h:81".to_owned(), "/x".to_owned()))),
            ("https://you:own@other/x", Some((true, "you:own@other".to_owned(), "/x".to_owned()))),
            ("ftp://h/x", None),
            ("http://", None),
        ] {
            assert_eq!(to(target), expected, "{target}");
        }
    }

    #[test]
    fn a_cookie_goes_back_to_its_host_and_path_alone() {
        let cookies = Cookies::default();
        let set = |at: &str, line: &str| {
            cookies.store_cookies(
                &url(at),
                &ResponseHead::from_text(&format!("HTTP/1.1 302 Found\r\nSet-Cookie: {line}\r\n\r\n")),
            );
        };
        let sent = |at: &str| cookies.header(&url(at)).map(|(_, value)| value);
        set("http://h/d/login?x", "a=1; Domain=.example.org; Path=/d");
        set("http://h/d/login", "b=2");
        set("https://h/", "s=3; Secure; Path=/");
        assert_eq!(sent("http://h/d/x").as_deref(), Some("a=1; b=2"));
        assert_eq!(sent("https://h/d").as_deref(), Some("a=1; b=2; s=3"));
        assert_eq!((sent("http://h/dx"), sent("http://www.example.org/d/x")), (None, None));
        set("http://h/d/login", "a=; Path=/d; Max-Age=0");
        assert_eq!(sent("http://h/d/x").as_deref(), Some("b=2"));
        set("http://h/d/login", "c=3; Expires=Fri, 01-Jan-2100 00:00:00 GMT");
        set("http://h/d/login", "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(sent("http://h/d/x").as_deref(), Some("c=3"));
        set("http://h/d/login", "c=4; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(sent("http://h/d/x").as_deref(), Some("c=4"));
    }
}
