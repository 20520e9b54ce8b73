//! Removes passwords, signatures and tokens from URLs.
//!
//! Applies to everything that is shown or stored: messages, logs, receipts, journals, cache maps,
//! process titles. `http://user:password@host/x?X-Amz-Signature=...` becomes
//! `http://***@host/x?X-Amz-Signature=***`. Parameters that accompany a signature (date,
//! credential) are removed, so that all signed URLs of an object give the same text: journals and
//! caches use it as the object's name. The rule is idempotent.

use std::borrow::Cow;

/// Replaces a secret.
const HIDDEN: &str = "***";

/// Parameters that hold a signature: of AWS and Google (version 4 and before), CloudFront and
/// Azure.
const SIGNATURES: [&str; 4] = ["x-amz-signature", "x-goog-signature", "signature", "sig"];
/// Parameters that accompany a signature and differ between signatures, besides those of
/// [`SIGNED`].
const COMPANIONS: [&str; 23] = [
    "awsaccesskeyid",
    "googleaccessid",
    "expires",
    "policy",
    "key-pair-id",
    "sv",
    "st",
    "se",
    "sr",
    "sp",
    "spr",
    "sip",
    "ss",
    "srt",
    "skoid",
    "sktid",
    "skt",
    "ske",
    "sks",
    "skv",
    "saoid",
    "suoid",
    "scid",
];
/// Parameters of AWS and Google signatures, without the prefix `x-amz-` or `x-goog-`.
const SIGNED: [&str; 6] = ["algorithm", "credential", "date", "expires", "signedheaders", "security-token"];
/// Parameters that are secret also without a signature.
const TOKENS: [&str; 18] = [
    "access_token",
    "accesstoken",
    "api_key",
    "api-key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "client_secret",
    "id_token",
    "jwt",
    "passwd",
    "password",
    "private_token",
    "refresh_token",
    "secret",
    "token",
    "x-amz-security-token",
];

/// `text` without the secrets of any URL in it.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        let end = url.find(ends_url).unwrap_or(url.len());
        out.push_str(before);
        match scheme_of(&rest[..at]) {
            // Keys and paths hold no secrets.
            "s3" | "gs" | "az" | "file" => out.push_str(&url[..end]),
            "sftp" if !has_password(&url[..end]) => out.push_str(&url[..end]),
            _ => out.push_str(&behind_scheme(&url[..end])),
        }
        rest = &url[end..];
    }
    out.push_str(rest);
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// The scheme at the end of a text.
fn scheme_of(before: &str) -> &str {
    let start = before.rfind(|symbol: char| !symbol.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    // After a character of several bytes, `start` is not a character boundary, and no known scheme
    // precedes.
    before.get(start..).unwrap_or_default()
}

/// Whether an `sftp` URL has more before its host than a user's name, which is no secret.
fn has_password(url: &str) -> bool {
    let authority = url.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let port = host.rsplit_once(':').filter(|_| !host.starts_with('[')).map_or("", |(_, port)| port);
    user.contains(':') || !port.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for characters that end a URL within a text.
fn ends_url(symbol: char) -> bool {
    symbol.is_whitespace() || symbol.is_control() || "\"<>`'".contains(symbol)
}

/// Redacts the rest of a URL after `://`: authority, path and query.
pub(crate) fn behind_scheme(url: &str) -> Cow<'_, str> {
    let cut = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, target) = url.split_at(cut);
    // Some passwords contain an unencoded slash. An authority with a colon and no numeric port is
    // therefore taken for a user and the start of a password.
    if !authority.contains('@')
        && authority.contains(':')
        && authority.rsplit(':').next().is_some_and(|port| port.bytes().any(|byte| !byte.is_ascii_digit()))
        && !authority.contains('[')
        && let Some((_, behind)) = url.split_once('@')
    {
        let behind = behind_scheme(behind);
        let behind = behind.strip_prefix(HIDDEN).and_then(|rest| rest.strip_prefix('@')).unwrap_or(&behind);
        return Cow::Owned(format!("{HIDDEN}@{behind}"));
    }
    match (authority_shown(authority), target_shown(target)) {
        (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(url),
        (authority, target) => Cow::Owned(authority.into_owned() + &target),
    }
}

/// Redacts `user:password@host`.
fn authority_shown(authority: &str) -> Cow<'_, str> {
    match authority.rsplit_once('@') {
        Some((HIDDEN, _)) | None => Cow::Borrowed(authority),
        Some((_, host)) => Cow::Owned(format!("{HIDDEN}@{host}")),
    }
}

/// Redacts path and query.
fn target_shown(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    let (query, fragment) = query.split_once('#').map_or((query, None), |(query, rest)| (query, Some(rest)));
    let names: Vec<String> = query.split('&').map(name_of).collect();
    let signed = names.iter().any(|name| SIGNATURES.contains(&name.as_str()));
    if !signed && !names.iter().any(|name| TOKENS.contains(&name.as_str()) || is_signed(name)) {
        return Cow::Borrowed(target);
    }
    let mut shown: Vec<Cow<'_, str>> = Vec::new();
    for (part, name) in query.split('&').zip(&names) {
        let hidden = || Cow::Owned(format!("{}={HIDDEN}", part.split('=').next().unwrap_or_default()));
        match name.as_str() {
            name if SIGNATURES.contains(&name) => shown.push(hidden()),
            name if signed && (is_signed(name) || COMPANIONS.contains(&name)) => {}
            name if TOKENS.contains(&name) || is_signed(name) => shown.push(hidden()),
            _ => shown.push(Cow::Borrowed(part)),
        }
    }
    let query = shown.join("&");
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Cow::Owned(format!("{path}?{query}{fragment}"))
}

/// True if a parameter belongs to an AWS or Google signature.
fn is_signed(name: &str) -> bool {
    let part = name.strip_prefix("x-amz-").or_else(|| name.strip_prefix("x-goog-"));
    part.is_some_and(|part| SIGNED.contains(&part))
}

/// A parameter's name, decoded and in lower case.
fn name_of(part: &str) -> String {
    let name = part.split('=').next().unwrap_or_default();
    percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn users_passwords_signatures_and_tokens_are_hidden_and_nothing_else() {
        for (text, shown) in [
            ("http://user:pass@host:1/x", "http://***@host:1/x"),
            ("https://token@host", "https://***@host"),
            ("http://u:p@ss@host/a@b?c=d@e", "http://***@host/a@b?c=d@e"),
            ("http://u:p/w@host/x", "http://***@host/x"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("http://host:80/a@b", "http://host:80/a@b"),
            (
                "http://h/x?v=1&X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Expires=9&X-Amz-SignedHeaders=h&X-Amz-Signature=S&x-id=G",
                "http://h/x?v=1&X-Amz-Signature=***&x-id=G",
            ),
            ("http://h/x?X-Amz-Security-Token=T&y=1", "http://h/x?X-Amz-Security-Token=***&y=1"),
            ("http://h/x?AWSAccessKeyId=A&Expires=1&Signature=S", "http://h/x?Signature=***"),
            ("http://h/x?sv=1&se=2&sig=S&comp=list", "http://h/x?sig=***&comp=list"),
            ("http://h/x?expires=1&policy=2&key=k", "http://h/x?expires=1&policy=2&key=k"),
            ("http://h/x?a=1&Access%5FToken=t#f", "http://h/x?a=1&Access%5FToken=***#f"),
            ("s3://bucket/a@b?token=1", "s3://bucket/a@b?token=1"),
            ("no url: a@b?sig=1", "no url: a@b?sig=1"),
            (
                "two: http://u:p@h/1, 'ftp://u:p@h/2?sig=1' and `x://u:p@h`",
                "two: http://***@h/1, 'ftp://***@h/2?sig=***' and `x://***@h`",
            ),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    proptest! {
        #[test]
        fn redacting_is_idempotent(text in "[a-z]{0,4}(://)?[a-z:@/?&=%# ]{0,30}(sig=x|token=y)?[&@a-z]{0,5}") {
            let once = redacted(&text).into_owned();
            prop_assert_eq!(redacted(&once), once.as_str());
        }
    }
}
