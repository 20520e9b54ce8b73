//! Removes passwords, signatures and tokens from URLs.
//!
//! The rule applies to everything that is shown or stored: messages, logs, receipts, journals,
//! cache maps, process titles. `http://user:password@host/x?X-Amz-Signature=...` becomes
//! `http://***@host/x?X-Amz-Signature=***`. Parameters that accompany a signature (date,
//! credential) are removed, so all signed URLs of an object give the same text. Journals and caches
//! use this text as the name of the object. Applying the rule twice changes nothing more.

use std::borrow::Cow;

use crate::service::Service;

/// The text that replaces a secret.
const MASK: &str = "***";

/// Parameters that hold a signature: of AWS and Google (version 4 and earlier), CloudFront and
/// Azure.
const SIGNATURES: [&str; 4] = ["x-amz-signature", "x-goog-signature", "signature", "sig"];
/// Parameters that accompany a signature and differ from one signature to the next, in addition to
/// [`SIGNED_PARAMETERS`].
const SIGNATURE_COMPANIONS: [&str; 23] = [
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
/// Parameters of AWS and Google signatures, without their prefix `x-amz-` or `x-goog-`.
const SIGNED_PARAMETERS: [&str; 6] =
    ["algorithm", "credential", "date", "expires", "signedheaders", "security-token"];
/// Words that mark a parameter as secret, even if the URL has no signature. The word is the whole
/// name, or its last part after a `-`, `_` or `.`: `key`, `api_key`, `Subscription-Key`.
const SECRET_WORDS: [&str; 22] = [
    "assertion",
    "auth",
    "authorization",
    "code",
    "credential",
    "credentials",
    "hdnea",
    "hdnts",
    "hmac",
    "jwt",
    "key",
    "otp",
    "pass",
    "passphrase",
    "pwd",
    "session",
    "sid",
    "passwd",
    "sig",
    "signature",
    "ticket",
    "verifier",
];
/// Endings that mark a parameter as secret if its name is written as one word: `accesstoken`,
/// `sessionid`.
const SECRET_ENDS: [&str; 6] = ["token", "secret", "password", "apikey", "accesskey", "sessionid"];

/// Schemes whose URLs are recognised even with only one slash.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "sftp", "ftp", "ftps"];

/// Removes the secrets from every URL in `text`. White space, control characters, quotes and `<` or
/// `>` end a URL.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    without_secrets(text, end_in_text)
}

/// Removes the secrets from an operand or from the value of an option. Everything after the scheme
/// is one URL, whatever characters it has.
#[must_use]
pub fn redacted_operand(text: &str) -> Cow<'_, str> {
    without_secrets(text, str::len)
}

/// Removes the secrets from the URLs in `text`. `end` receives the text after a scheme, and returns
/// the length of the URL there.
fn without_secrets(text: &str, end: fn(&str) -> usize) -> Cow<'_, str> {
    if !text.contains(":/") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(":/") {
        let slashes = rest[at + 1..].bytes().take_while(|byte| *byte == b'/').count();
        let (before, behind) = rest.split_at(at + 1 + slashes);
        out.push_str(before);
        let scheme = scheme_of(&rest[..at]);
        let is_web = WEB_SCHEMES.iter().any(|web| scheme.eq_ignore_ascii_case(web));
        let (url, behind) = behind.split_at(if slashes > 1 || is_web { end(behind) } else { 0 });
        // Keys and paths hold no secrets.
        let is_plain = scheme == "file" || Service::of_scheme(scheme).is_some();
        if is_plain || (scheme == "sftp" && !has_password(url)) {
            out.push_str(url);
        } else {
            out.push_str(&redact_after_scheme(url));
        }
        rest = behind;
    }
    out.push_str(rest);
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Returns the length of the URL at the start of `text`. The characters of [`ends_url`] end the
/// URL, except within what looks like a password: a password ends at the next `@` of the line.
/// Colons and commas at the end belong to the sentence.
fn end_in_text(text: &str) -> usize {
    let end = text.find(ends_url).unwrap_or(text.len());
    let authority = text[..end].split(['/', '?', '#']).next().unwrap_or_default();
    if text[..end].contains('@') || !begins_password(authority) {
        return text[..end].trim_end_matches([':', ',']).len();
    }
    let rest = text[end..].split('\n').next().and_then(|line| line.split("://").next()).unwrap_or_default();
    match rest.find('@') {
        None => end,
        Some(at) => {
            let host = end + at + 1;
            host + text[host..].find(ends_url).unwrap_or(text.len() - host)
        }
    }
}

/// Returns true if an authority is `user:` and the beginning of a password, that is, if no port
/// follows its colon.
fn begins_password(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    !authority.contains('[') && port.is_some_and(|port| port.bytes().any(|byte| !byte.is_ascii_digit()))
}

/// Returns the scheme at the end of `before`.
fn scheme_of(before: &str) -> &str {
    let behind = |ends: fn(char) -> bool| {
        let start = before.rfind(ends).map_or(0, |at| at + 1);
        // Within a character of several bytes, `start` is not a character boundary. The scheme then
        // counts as unknown.
        before.get(start..).unwrap_or_default()
    };
    // The name of an endpoint is part of its scheme.
    let long = behind(|symbol| !symbol.is_ascii_alphanumeric() && !"+-".contains(symbol));
    match Service::of_scheme(long) {
        Some(_) => long,
        None => behind(|symbol| !symbol.is_ascii_alphanumeric()),
    }
}

/// Returns true if an `sftp` URL has a password before its host. A user name alone is not secret.
fn has_password(url: &str) -> bool {
    let authority = url.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let port = host.rsplit_once(':').filter(|_| !host.starts_with('[')).map_or("", |(_, port)| port);
    user.contains(':') || !port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for characters that end a URL within a text.
fn ends_url(symbol: char) -> bool {
    symbol.is_whitespace() || symbol.is_control() || "\"<>`'".contains(symbol)
}

/// Redacts the part of a URL after `://`: authority, path and query.
pub(crate) fn redact_after_scheme(url: &str) -> Cow<'_, str> {
    let cut = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, target) = url.split_at(cut);
    // Some passwords contain an unencoded slash. So an authority with a colon but no numeric port
    // is taken for a user and the start of a password.
    if !authority.contains('@')
        && begins_password(authority)
        && let Some((_, behind)) = url.split_once('@')
    {
        let behind = redact_after_scheme(behind);
        let behind = behind.strip_prefix(MASK).and_then(|rest| rest.strip_prefix('@')).unwrap_or(&behind);
        return Cow::Owned(format!("{MASK}@{behind}"));
    }
    match (redact_authority(authority), redact_target(target)) {
        (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(url),
        (authority, target) => Cow::Owned(authority.into_owned() + &target),
    }
}

/// Redacts `user:password@host`.
fn redact_authority(authority: &str) -> Cow<'_, str> {
    match authority.rsplit_once('@') {
        Some((MASK, _)) | None => Cow::Borrowed(authority),
        Some((_, host)) => Cow::Owned(format!("{MASK}@{host}")),
    }
}

/// Redacts a path with its query and fragment.
fn redact_target(target: &str) -> Cow<'_, str> {
    let (rest, fragment) = target.split_once('#').map_or((target, None), |(rest, it)| (rest, Some(it)));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let mut shown = redact_path_parameters(path);
    if let Some(query) = query {
        shown = format!("{shown}?{}", redact_fields(query));
    }
    if let Some(fragment) = fragment {
        shown = format!("{shown}#{}", redact_fields(fragment));
    }
    if shown == target { Cow::Borrowed(target) } else { Cow::Owned(shown) }
}

/// Redacts the secret parameters of a query or a fragment, and leaves out those that accompany a
/// signature. Web applications pass tokens in fragments.
fn redact_fields(fields: &str) -> String {
    let names: Vec<String> = fields.split('&').map(name_of).collect();
    let signed = names.iter().any(|name| SIGNATURES.contains(&name.as_str()));
    let mut shown = Vec::new();
    for (part, name) in fields.split('&').zip(&names) {
        match name.as_str() {
            name if SIGNATURES.contains(&name) => shown.push(hide_value(part)),
            name if signed && (belongs_to_signature(name) || SIGNATURE_COMPANIONS.contains(&name)) => {}
            name if is_secret(name) || belongs_to_signature(name) => shown.push(hide_value(part)),
            _ => shown.push(redact_path_parameters(part)),
        }
    }
    shown.join("&")
}

/// Redacts the secret parameters after each `;` in a path or a query.
fn redact_path_parameters(text: &str) -> String {
    let is_hidden = |part: &str| part.contains('=') && is_secret(&name_of(part));
    let mut parts = text.split(';');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The path continues after the parameter.
        let (field, rest) = part.split_at(part.find('/').unwrap_or(part.len()));
        let field = if is_hidden(field) { hide_value(field) } else { field.to_owned() };
        shown = format!("{shown};{field}{rest}");
    }
    shown
}

/// Replaces the value of a parameter. Adds the replacement if the parameter has no value.
fn hide_value(part: &str) -> String {
    match part.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None => format!("{part}={MASK}"),
    }
}

/// Returns true if the query of a target has a signature.
pub(crate) fn is_signed_query(target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').map(name_of).any(|name| SIGNATURES.contains(&name.as_str()))
}

/// Returns true if a parameter belongs to an AWS or Google signature.
fn belongs_to_signature(name: &str) -> bool {
    let part = name.strip_prefix("x-amz-").or_else(|| name.strip_prefix("x-goog-"));
    part.is_some_and(|part| SIGNED_PARAMETERS.contains(&part))
}

/// Returns true if a parameter is secret even in a URL without a signature.
fn is_secret(name: &str) -> bool {
    let word = name.rsplit(['-', '_', '.']).next().unwrap_or_default();
    SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(end))
}

/// Returns the name of a parameter, decoded and in lower case.
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
            ("http://h/x?expires=1&policy=2&monkey=k", "http://h/x?expires=1&policy=2&monkey=k"),
            ("http://h/x?key=1&n=2&code=3", "http://h/x?key=***&n=2&code=***"),
            ("http://h/x?pwd=1&sessionid=2&session-id=3", "http://h/x?pwd=***&sessionid=***&session-id=3"),
            (
                "http://h/x?Ocp-Subscription-Key=1&authToken=2",
                "http://h/x?Ocp-Subscription-Key=***&authToken=***",
            ),
            ("http:/u:p@h/x?sig=1 and ./a:/b?sig=1", "http:/***@h/x?sig=*** and ./a:/b?sig=1"),
            ("https:///u:p@h/x", "https:///***@h/x"),
            ("'http://u:p w@h/x' fails", "'http://***@h/x' fails"),
            ("http://h:80 fails for a@b", "http://h:80 fails for a@b"),
            (
                "http://h/x?sig=1: not found, http://h/y?sig=2, too",
                "http://h/x?sig=***: not found, http://h/y?sig=***, too",
            ),
            ("s3+lab://bucket/a@b?token=1", "s3+lab://bucket/a@b?token=1"),
            ("http://h/x?a=1&Access%5FToken=t#f", "http://h/x?a=1&Access%5FToken=***#f"),
            ("s3://bucket/a@b?token=1", "s3://bucket/a@b?token=1"),
            ("http://h/x;jsessionid=1/y;v=2?a=1;token=2", "http://h/x;jsessionid=***/y;v=2?a=1;token=***"),
            ("http://h/x#access_token=1&n=2", "http://h/x#access_token=***&n=2"),
            ("http://h/x?ticket=1&hdnts=2#part", "http://h/x?ticket=***&hdnts=***#part"),
            ("no url: a@b?sig=1", "no url: a@b?sig=1"),
            (
                "two: http://u:p@h/1, 'ftp://u:p@h/2?sig=1' and `x://u:p@h`",
                "two: http://***@h/1, 'ftp://***@h/2?sig=***' and `x://***@h`",
            ),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn an_operand_is_one_url_whatever_characters_it_has() {
        for (text, shown) in [
            ("http://u:12 3@h/x", "http://***@h/x"),
            ("http://h/x?token=a b&n=1", "http://h/x?token=***&n=1"),
            ("--url=https:/u:p'w@h", "--url=https:/***@h"),
            ("a b?token=1", "a b?token=1"),
        ] {
            assert_eq!(redacted_operand(text), shown);
        }
    }

    proptest! {
        #[test]
        fn redacting_is_idempotent(text in "[a-z]{0,4}(https?|s3[+]x)?(:///?|:/)?[a-z:@/?&=%# ]{0,30}(sig=x|token=y)?[&@a-z]{0,5}") {
            let once = redacted(&text).into_owned();
            prop_assert_eq!(redacted(&once), once.as_str());
            let once = redacted_operand(&text).into_owned();
            prop_assert_eq!(redacted_operand(&once), once.as_str());
        }
    }
}
