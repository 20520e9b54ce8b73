//! Records how a denied request was authenticated, and advises accordingly.

/// The way in which a denied request was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAuthentication {
    /// An AWS signature.
    Signed,
    /// A Google token.
    Google,
    /// An Azure credential: a key, a shared access signature or a token.
    Azure,
    /// None, because the options forbid signatures.
    Unsigned,
    /// The credentials for a web server, if there are any: from the URL, `.netrc` or a header.
    Web,
    /// A login on an SFTP server.
    Login,
}

impl RequestAuthentication {
    /// Returns advice after a refusal. `detail` begins with an error code or a status.
    pub(super) fn advice(self, detail: &str) -> &'static str {
        let code = detail.split([':', ';', ' ']).next().unwrap_or_default();
        match (self, code) {
            (Self::Signed | Self::Unsigned, "SecondLevelDomainForbidden") => {
                "the service takes the bucket in the host name: set addressing = \"host\" for a named endpoint, or \
                 addressing_style = virtual in the profile"
            }
            (Self::Google, _) => {
                "check that this account has a role such as Storage Object User, or use --no-sign-request for a public bucket"
            }
            (Self::Azure, "AuthenticationFailed") => {
                "check that AZURE_STORAGE_KEY or the signature belongs to the account and has not expired, and this \
                 machine's clock"
            }
            (Self::Azure, _) => {
                "check AZURE_STORAGE_KEY, the permissions of the signature or the role of this identity, or use \
                 --no-sign-request for a public container"
            }
            (Self::Web, "401") => {
                "the server requires a login: add the host to ~/.netrc, put USER:PASSWORD@ before the host, or use \
                 --header 'Authorization: ...'"
            }
            (Self::Web, "407") => {
                "the proxy requires a login: put USER:PASSWORD@ into HTTP_PROXY or HTTPS_PROXY"
            }
            (Self::Web, _) => {
                "the server denies it to this user, or to everyone: check the address and the credentials"
            }
            (Self::Login, _) => {
                "the remote user has no permission: check the user name, and the mode of the file"
            }
            (Self::Unsigned, _) => "it is not public: leave --no-sign-request out, and set credentials",
            (Self::Signed, "SignatureDoesNotMatch") => {
                "check that the secret belongs to the access key, this machine's clock, and that --endpoint-url has no \
                 bucket in it (buckets are in the path)"
            }
            (Self::Signed, "InvalidAccessKeyId") => {
                "the service does not know this access key: check --profile, AWS_ACCESS_KEY_ID and --endpoint-url"
            }
            (Self::Signed, "RequestTimeTooSkewed") => "set this machine's clock",
            (Self::Signed, _) => "check the policy, --profile, or use --no-sign-request for a public bucket",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Error;
    use super::*;

    #[test]
    fn advice_after_a_refusal_depends_on_the_authentication_and_the_code() {
        let advice = |request, detail: &str| {
            let (location, detail) = ("s3://b/k".to_owned(), detail.to_owned());
            Error::Denied { location, detail, request, trace: None }.advice().unwrap()
        };
        assert!(
            advice(RequestAuthentication::Signed, "SignatureDoesNotMatch: The request").contains("clock")
        );
        assert!(
            advice(RequestAuthentication::Signed, "AccessDenied; the policy").contains("--no-sign-request")
        );
        assert!(
            advice(RequestAuthentication::Unsigned, "AccessDenied").contains("leave --no-sign-request out")
        );
        assert!(advice(RequestAuthentication::Web, "401 Unauthorized").contains("USER:PASSWORD"));
        assert!(!advice(RequestAuthentication::Web, "403 Forbidden").contains("policy"));
    }
}
