//! Signs requests with the account's key (Shared Key authorization): an HMAC over the headers of
//! the request and the resource that the request names
//! (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>).

use std::time::SystemTime;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::account::AzureAccount;
use crate::dates::format_http_date;
use crate::rest::RestCall;

/// Adds the date and the signature to the headers of a call.
pub(super) fn sign(
    call: &RestCall<'_>,
    account: &AzureAccount,
    key: &[u8],
    headers: &mut Vec<(String, String)>,
) {
    headers.push(("x-ms-date".to_owned(), format_http_date(SystemTime::now())));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let signature = hmac::sign(&key, text(call, account, headers).as_bytes());
    let signature = BASE64_STANDARD.encode(signature.as_ref());
    headers.push(("authorization".to_owned(), format!("SharedKey {}:{signature}", account.name)));
}

fn text(call: &RestCall<'_>, account: &AzureAccount, headers: &[(String, String)]) -> String {
    let value = |name: &str| headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let length = match call.payload.length() {
        0 => String::new(),
        length => length.to_string(),
    };
    let mut text = format!("{}\n", call.method.as_str());
    for line in [
        value("content-encoding"),
        value("content-language"),
        &length,
        value("content-md5"),
        value("content-type"),
        // The signed text has an empty line for the header `Date`, because `x-ms-date` is sent
        // instead.
        "",
        value("if-modified-since"),
        value("if-match"),
        value("if-none-match"),
        value("if-unmodified-since"),
        value("range"),
    ] {
        text.push_str(line);
        text.push('\n');
    }
    let mut own: Vec<_> = headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort();
    for (name, value) in own {
        text.push_str(&format!("{name}:{}\n", value.trim()));
    }
    text.push_str(&format!("/{}{}{}", account.name, account.path, call.path));
    let mut query: Vec<_> = call.query.iter().collect();
    query.sort();
    for (name, value) in query {
        text.push_str(&format!("\n{name}:{value}"));
    }
    text
}
