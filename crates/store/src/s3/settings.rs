//! Finds the configured service: endpoint, region, addressing.
//!
//! Options take precedence over environment variables, and variables over the profile. For a named
//! endpoint, its own table replaces the variables. In variables and in the profile, a setting for
//! S3 takes precedence over one for all services. Dual-stack endpoints are an exception: they are
//! used if either of the two settings asks for them. `profile` finds settings as AWS's own clients
//! do, so a file has the same effect here. A setting that cannot be honoured is an error that names
//! the setting, because the bytes of a private service must not go elsewhere.

use std::path::PathBuf;

use super::dialect::{Addressing, ListVersion, is_region};
use super::endpoints::EndpointSettings;
use super::environment::{Setting, SettingSource, stated, variable};
use super::profile::{self, Profiles};
use super::unusable_setting::UnusableSetting;
use crate::options::StoreOptions;

const SERVICE: &str = "s3";

/// The setting that gave the S3 endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointSource {
    /// No setting: the endpoint is AWS's own.
    #[default]
    Aws,
    /// The option [`StoreOptions::endpoint_url`].
    Options,
    /// The environment variable of this name.
    Variable(&'static str),
    /// The `[services]` section that the profile names.
    Services,
    /// The setting `endpoint_url` of the profile.
    Profile,
    /// The setting `url` of a named endpoint.
    Named,
}

impl EndpointSource {
    /// Returns the name of the setting for errors, or `None` for AWS's own endpoint. `given` is the
    /// name of the option.
    #[must_use]
    pub fn setting(self, given: &'static str) -> Option<&'static str> {
        match self {
            Self::Aws => None,
            Self::Options => Some(given),
            Self::Variable(name) => Some(name),
            Self::Services => Some("endpoint_url in the [services] section of the profile"),
            Self::Profile => Some("endpoint_url of the profile"),
            Self::Named => Some("config.toml"),
        }
    }
}

/// The variants of AWS's endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variants {
    /// True for endpoints with cryptography validated by FIPS 140.
    pub(super) fips: bool,
    /// True for endpoints that have IPv6 addresses in addition to IPv4.
    pub(super) dual_stack: bool,
}

/// The settings of a service, combined from the options, the environment and the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceSettings {
    pub(super) endpoint_url: Option<String>,
    pub(super) endpoint_source: EndpointSource,
    pub(super) region: Option<String>,
    pub(super) addressing: Addressing,
    pub(super) variants: Variants,
    /// The version of the listing request. `None`: version 2, unless the service supports only
    /// version 1.
    pub(super) list_version: Option<ListVersion>,
    pub(super) checksums: ChecksumHeaders,
}

/// Whether writes send checksum headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChecksumHeaders {
    /// Checksum headers are sent, unless the service refuses them.
    #[default]
    Supported,
    /// Checksum headers are never sent.
    Off,
}

impl ServiceSettings {
    /// Returns the settings of a named endpoint. Settings missing in the endpoint's table come only
    /// from the profile, because environment variables are for plain `s3://`.
    pub(super) fn of_endpoint(
        options: &StoreOptions,
        endpoint: &EndpointSettings,
    ) -> Result<Self, UnusableSetting> {
        let lookup = Lookup { variables: Vec::new(), profiles: profile::read(options)? };
        let (endpoint_url, endpoint_source) = match &endpoint.url {
            Some(url) => (Some(url.clone()), EndpointSource::Named),
            None => lookup.endpoint(options)?,
        };
        let variants = lookup.variants()?;
        let settings = Self {
            region: endpoint.region.clone().or_else(|| lookup.in_profile("region")),
            addressing: match endpoint.addressing {
                Addressing::Auto => lookup.addressing()?,
                given => given,
            },
            // The variants exist only for AWS's own endpoints.
            variants: if endpoint_url.is_some() { Variants::default() } else { variants },
            list_version: endpoint.list_version,
            checksums: if endpoint.checksums { lookup.checksums()? } else { ChecksumHeaders::Off },
            endpoint_url,
            endpoint_source,
        };
        settings.check(&lookup)
    }

    /// Reads the settings from options, environment variables and files.
    pub(super) fn find(options: &StoreOptions) -> Result<Self, UnusableSetting> {
        let lookup = Lookup::new(options)?;
        let (endpoint_url, endpoint_source) = lookup.endpoint(options)?;
        let region = options.region.clone().or_else(|| variable("AWS_REGION"));
        let region =
            region.or_else(|| variable("AWS_DEFAULT_REGION")).or_else(|| lookup.in_profile("region"));
        let settings = Self {
            endpoint_url,
            endpoint_source,
            region,
            addressing: lookup.addressing()?,
            variants: lookup.variants()?,
            list_version: None,
            checksums: lookup.checksums()?,
        };
        settings.check(&lookup)
    }

    fn check(self, lookup: &Lookup) -> Result<Self, UnusableSetting> {
        let refuse = |what: String, why: &str| Err(UnusableSetting { what, why: why.to_owned() });
        if let Some(region) = self.region.as_ref().filter(|region| !is_region(region)) {
            return refuse(format!("region {region}"), "not a region; write one such as eu-west-1");
        }
        if self.endpoint_url.is_some() {
            const BOTH: &str = "exists for AWS's own endpoints only, and another endpoint is configured; \
                                set one of them";
            if self.variants.fips {
                return refuse("use_fips_endpoint".to_owned(), BOTH);
            }
            if self.variants.dual_stack {
                return refuse("use_dualstack_endpoint".to_owned(), BOTH);
            }
        }
        if lookup.nested_flag("use_accelerate_endpoint")? {
            return refuse("use_accelerate_endpoint".to_owned(), "not supported; remove it from the profile");
        }
        match lookup.nested("signature_version") {
            Some(version) if version != "s3v4" => {
                refuse(format!("signature_version {version}"), "not supported; requests are signed by s3v4")
            }
            _ => Ok(self),
        }
    }
}

/// Returns the file with certificate authorities that the profile names. Also `None` if the files
/// cannot be read: requests that need the files report that.
pub(crate) fn ca_bundle(options: &StoreOptions) -> Option<PathBuf> {
    Lookup::new(options).ok()?.in_profile("ca_bundle").map(PathBuf::from)
}

/// The sources of settings other than the options.
struct Lookup {
    variables: Vec<(String, String)>,
    profiles: Option<Profiles>,
}

impl Lookup {
    fn new(options: &StoreOptions) -> Result<Self, UnusableSetting> {
        // An empty variable counts as not set.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, stated(value.into_string().ok()?)?)))
            .filter(|(name, _)| name.starts_with("AWS_"))
            .collect();
        Ok(Self { variables, profiles: profile::read(options)? })
    }

    /// Finds a setting and its source.
    fn find(&self, variable: Option<&'static str>, key: &'static str) -> Option<(String, SettingSource)> {
        profile::find(Setting { variable, key }, &self.variables, self.profiles.as_ref())
    }

    fn in_profile(&self, key: &str) -> Option<String> {
        self.profiles.as_ref()?.get(key).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Returns a value below `s3 =` in the profile.
    fn nested(&self, key: &str) -> Option<String> {
        let block = self.in_profile(SERVICE)?;
        let mut pairs = block.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    }

    fn flag(&self, variable: &'static str, key: &'static str) -> Result<bool, UnusableSetting> {
        match self.find(Some(variable), key) {
            Some((text, _)) => parse_flag(key, &text),
            None => Ok(false),
        }
    }

    fn nested_flag(&self, key: &'static str) -> Result<bool, UnusableSetting> {
        self.nested(key).map_or(Ok(false), |text| parse_flag(key, &text))
    }

    fn endpoint(&self, options: &StoreOptions) -> Result<(Option<String>, EndpointSource), UnusableSetting> {
        self.check_services()?;
        if let Some(url) = &options.endpoint_url {
            return Ok((Some(url.clone()), EndpointSource::Options));
        }
        if self.flag("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls")? {
            return Ok((None, EndpointSource::Aws));
        }
        const KEY: &str = "endpoint_url";
        // Stores document this setting below `s3 =`, where aws-cli's plugin for endpoints has it
        // (https://github.com/wbingli/awscli-plugin-endpoint, as of 28 November 2026).
        let nested = self.nested(KEY).filter(|url| !url.is_empty());
        let Some((url, place)) = most_specific(self.find(Some("AWS_ENDPOINT_URL"), KEY), nested) else {
            return Ok((None, EndpointSource::Aws));
        };
        let source = match place {
            SettingSource::ServiceVariable => EndpointSource::Variable("AWS_ENDPOINT_URL_S3"),
            SettingSource::Variable => EndpointSource::Variable("AWS_ENDPOINT_URL"),
            SettingSource::Services => EndpointSource::Services,
            SettingSource::Profile => EndpointSource::Profile,
        };
        Ok((Some(url), source))
    }

    /// Returns an error if the profile names a section that does not exist.
    fn check_services(&self) -> Result<(), UnusableSetting> {
        match self.in_profile("services") {
            Some(name) if !profile::has_services_section(&name) => Err(profile::unusable_setting(
                &format!("[services {name}]"),
                "the profile names it, and it is not in",
            )),
            _ => Ok(()),
        }
    }

    fn variants(&self) -> Result<Variants, UnusableSetting> {
        Ok(Variants {
            fips: self.flag("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")?,
            dual_stack: self.flag("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")?
                || self.nested_flag("use_dualstack_endpoint")?,
        })
    }

    /// Returns whether checksums are sent
    /// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html>).
    fn checksums(&self) -> Result<ChecksumHeaders, UnusableSetting> {
        const KEY: &str = "request_checksum_calculation";
        let set =
            self.find(Some("AWS_REQUEST_CHECKSUM_CALCULATION"), KEY).map(|(text, _)| text.to_lowercase());
        match set.as_deref() {
            None | Some("when_supported") => Ok(ChecksumHeaders::Supported),
            Some("when_required") => Ok(ChecksumHeaders::Off),
            Some(other) => Err(UnusableSetting {
                what: format!("{KEY} {other}"),
                why: "write when_supported or when_required".to_owned(),
            }),
        }
    }

    fn addressing(&self) -> Result<Addressing, UnusableSetting> {
        const KEY: &str = "addressing_style";
        let style = most_specific(self.find(None, KEY), self.nested(KEY)).map(|(style, _)| style);
        match style.as_deref() {
            None | Some("auto" | "") => Ok(Addressing::Auto),
            Some("path") => Ok(Addressing::Path),
            Some("virtual") => Ok(Addressing::Virtual),
            Some(other) => Err(UnusableSetting {
                what: format!("{KEY} {other}"),
                why: "write auto, path or virtual".to_owned(),
            }),
        }
    }
}

/// Chooses between the value that [`Lookup::find`] returns for a setting and the value below `s3 =`
/// in the profile. The second takes precedence only over the profile's value for all services.
fn most_specific(
    found: Option<(String, SettingSource)>,
    nested: Option<String>,
) -> Option<(String, SettingSource)> {
    match (found, nested) {
        (None | Some((_, SettingSource::Profile)), Some(nested)) => Some((nested, SettingSource::Profile)),
        (found, _) => found,
    }
}

fn parse_flag(key: &str, text: &str) -> Result<bool, UnusableSetting> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(UnusableSetting { what: format!("{key} {text}"), why: "write true or false".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_below_s3_takes_precedence_over_one_of_the_profile_for_all_services() {
        let chosen = |found: Option<SettingSource>, nested: Option<&str>| {
            most_specific(found.map(|source| ("found".to_owned(), source)), nested.map(str::to_owned))
        };
        for (found, nested, wanted) in [
            (None, None, None),
            (None, Some("nested"), Some("nested")),
            (Some(SettingSource::Profile), None, Some("found")),
            (Some(SettingSource::Profile), Some("nested"), Some("nested")),
            (Some(SettingSource::Services), Some("nested"), Some("found")),
            (Some(SettingSource::Variable), Some("nested"), Some("found")),
        ] {
            let chosen = chosen(found, nested).map(|(value, _)| value);
            assert_eq!(chosen.as_deref(), wanted, "{found:?} {nested:?}");
        }
    }
}
