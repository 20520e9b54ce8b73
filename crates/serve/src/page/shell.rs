//! Renders the pages: one HTML shell with its style and scripts inside, so that a page is one
//! request.
//!
//! No content comes from other servers. The content security policy has the hashes of exactly these
//! scripts and this style, so scripts that a file name or a file injects do not run.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use sha2::{Digest as _, Sha256};

use super::rows::{PageRow, ROWS_WITHOUT_SCRIPTS};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::page::html::{escape, fill, human_size, url_path, visible};
use crate::path::EntryPath;

const CSS: &str = include_str!("assets/page.css");
const HEAD: &str = include_str!("assets/head.html");
const PAGE: &str = include_str!("assets/page.html");
const LISTING_SCRIPT: &str = include_str!("assets/listing.js");
const UPLOAD_SCRIPT: &str = include_str!("assets/upload.js");
const ACTIONS_SCRIPT: &str = include_str!("assets/actions.js");
const LINKS_SCRIPT: &str = include_str!("assets/links.js");
const LINK_TIME: &str = include_str!("assets/link-time.html");
const MISSING: &str = include_str!("assets/missing.html");
const CHANGE_SCRIPT: &str = include_str!("assets/change.js");
const CHANGE_BUTTONS: &str = include_str!("assets/change-buttons.html");
const CHANGE_DIALOG: &str = include_str!("assets/change-dialog.html");
const UPLOAD_BUTTONS: &str = include_str!("assets/upload-buttons.html");
const UPLOAD_PANEL: &str = include_str!("assets/upload-panel.html");
const LOGIN: &str = include_str!("assets/login.html");
const SIGN_OUT: &str = include_str!("assets/sign-out.html");
/// The worker that sends parts, the only script that a page loads by URL.
pub(super) const UPLOAD_WORKER: &str = include_str!("assets/upload-worker.js");

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    let scripts = [LISTING_SCRIPT, ACTIONS_SCRIPT, LINKS_SCRIPT, CHANGE_SCRIPT, UPLOAD_SCRIPT]
        .map(|script| format!("'sha256-{}'", hash(script)));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src {}; worker-src 'self'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        hash(CSS),
        scripts.join(" ")
    )
});

/// The page's offer to upload, rename and delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageWriting {
    /// The page offers to upload, rename and delete.
    Offered {
        /// Time for which deleted entries stay in the trash.
        kept: Duration,
    },
    /// The server is read-only, or the visitor may not write here.
    Hidden,
}

/// The content of a directory page.
#[derive(Debug)]
pub(super) struct DirectoryPage<'a> {
    /// Path prefix of a reverse proxy, such as `/data`; empty for none.
    pub(super) base: &'a str,
    /// Prefix of links to files and directories: the base, and the name of the only bucket if the
    /// request has it.
    pub(super) links: &'a str,
    /// The directory's path below the served directory.
    pub(super) path: &'a EntryPath,
    /// The offer to upload, rename and delete.
    pub(super) writing: PageWriting,
    /// The signed-in user, if any.
    pub(super) account: Option<&'a str>,
    /// The first [`ROWS_WITHOUT_SCRIPTS`] entries, directories first.
    pub(super) rows: &'a [PageRow],
}

/// Makes the page of a directory. Its script loads the entries, so the page has the same size for
/// one entry and for a million.
pub(super) fn directory(of: &DirectoryPage<'_>) -> HttpResponse {
    let trail = of.path.as_bytes();
    let name = trail.rsplit(|b| *b == b'/').next().filter(|name| !name.is_empty());
    let title = name.map_or_else(|| "/".into(), visible);
    let path = if trail.is_empty() { "/".into() } else { format!("/{}/", url_path(trail)) };
    let kept = match of.writing {
        PageWriting::Offered { kept } => Some(kept),
        PageWriting::Hidden => None,
    };
    let offered = |text: &'static str| if kept.is_some() { text } else { "" };
    let html = fill(PAGE, |place| match place {
        "head" => head(&title).into(),
        "base" => escape(of.base).into(),
        "path" => path.clone().into(),
        "crumbs" => crumbs(of.links, trail).into(),
        "actions_js" => ACTIONS_SCRIPT.into(),
        "links_js" => LINKS_SCRIPT.into(),
        "link_time" if of.account.is_some() => LINK_TIME.into(),
        "kept" => kept.map_or(Cow::Borrowed(""), |kept| format_duration(kept).into()),
        "change_buttons" => offered(CHANGE_BUTTONS).into(),
        "change_dialog" => offered(CHANGE_DIALOG).into(),
        "upload_buttons" => offered(UPLOAD_BUTTONS).into(),
        "upload_panel" => offered(UPLOAD_PANEL).into(),
        "account" => of.account.map_or(Cow::Borrowed(""), |account| sign_out(of.base, account).into()),
        "listing_js" => LISTING_SCRIPT.into(),
        "write_js" if kept.is_some() => {
            format!("<script>{CHANGE_SCRIPT}</script>\n<script>{UPLOAD_SCRIPT}</script>").into()
        }
        "rows" => rows(&format!("{}{path}", of.links), of.rows).into(),
        _ => "".into(),
    });
    page(StatusCode::OK, html)
}

/// Makes the sign-in form. `next` is the page to show afterwards, and `home` the start page of the
/// visitor's present key, if there is one.
pub(super) fn login(base: &str, next: &str, problem: Option<&str>, home: Option<&str>) -> HttpResponse {
    let status = StatusCode::UNAUTHORIZED;
    let html = fill(LOGIN, |place| match place {
        "head" => head("Sign in").into(),
        "action" => format!("{}/.firstbyte/login", escape(base)).into(),
        "next" => escape(next).into(),
        "problem" => problem.map_or(Cow::Borrowed(""), |why| {
            let home = home.map_or_else(String::new, |home| {
                format!(" <a href=\"{}{}\">To what it opens</a>", escape(base), escape(home))
            });
            format!("<p class=\"bad\" role=\"alert\">{}{home}</p>", escape(why)).into()
        }),
        _ => "".into(),
    });
    page(status, html)
}

/// Makes the page for a name that does not exist.
pub(super) fn missing(base: &str, path: &str) -> HttpResponse {
    let html = fill(MISSING, |place| match place {
        "head" => head("Not found").into(),
        "home" => format!("{}/", escape(base)).into(),
        "path" => escape(&visible(path.as_bytes())).into(),
        _ => "".into(),
    });
    page(StatusCode::NOT_FOUND, html)
}

/// Makes the HTML head of a page with this title.
fn head(title: &str) -> String {
    fill(HEAD, |place| if place == "title" { escape(title).into() } else { CSS.into() })
}

fn page(status: StatusCode, html: String) -> HttpResponse {
    HttpResponse::new(status)
        .with_header(CONTENT_TYPE, "text/html; charset=utf-8")
        .with_header(CONTENT_SECURITY_POLICY, &*POLICY)
        .with_header(REFERRER_POLICY, "same-origin")
        // The page depends on the user and on the server's configuration, so it must not be reused
        // unchecked.
        .with_header(CACHE_CONTROL, "no-cache, private")
        .with_body(ResponseBody::Bytes(html.into()))
}

/// Formats a duration for display, in the largest unit (days, hours, seconds) of which it has at
/// least one.
fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        86_400.. => (seconds / 86_400, "day"),
        3600.. => (seconds / 3600, "hour"),
        _ => (seconds, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

fn sign_out(base: &str, account: &str) -> String {
    fill(SIGN_OUT, |place| match place {
        "action" => format!("{}/.firstbyte/logout", escape(base)).into(),
        "account" => escape(account).into(),
        _ => "".into(),
    })
}

/// Makes links to every parent directory, outermost first.
fn crumbs(base: &str, trail: &[u8]) -> String {
    if trail.is_empty() {
        return "<h1 aria-current=\"page\">Home</h1>".into();
    }
    let mut out = format!("<a href=\"{}/\">Home</a>", escape(base));
    let mut end = 0;
    for name in trail.split(|b| *b == b'/') {
        end += name.len();
        let text = escape(&visible(name));
        out.push_str("<span class=\"slash\" aria-hidden=\"true\">/</span>");
        if end == trail.len() {
            out.push_str(&format!("<h1 aria-current=\"page\"><bdi>{text}</bdi></h1>"));
        } else {
            out.push_str(&format!(
                "<a href=\"{}/{}/\"><bdi>{text}</bdi></a>",
                escape(base),
                url_path(&trail[..end])
            ));
        }
        end += 1;
    }
    out
}

fn rows(directory: &str, rows: &[PageRow]) -> String {
    let mut out = String::new();
    for row in rows {
        let slash = if row.is_file { "" } else { "/" };
        let size = row.size.map_or_else(String::new, human_size);
        let (href, text) = (url_path(&row.name), escape(&visible(&row.name)));
        out.push_str(&format!(
            "<li><a href=\"{directory}{href}{slash}\"><bdi>{text}</bdi>{slash}</a> <span>{size}</span></li>\n"
        ));
    }
    if rows.len() >= ROWS_WITHOUT_SCRIPTS {
        out.push_str("<li>Further entries may follow: allow scripts, or read the <a href=\"?format=ndjson\">NDJSON listing</a>.</li>\n");
    }
    out
}
