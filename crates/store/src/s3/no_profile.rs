//! Replaces the AWS configuration files in a build without the feature `aws-config`. A named
//! profile is refused, because its endpoint or its keys would be missing.

use std::convert::Infallible;

use super::environment::{Setting, SettingSource, variable};
use super::unusable_setting::UnusableSetting;
use crate::error::Result;
use crate::options::StoreOptions;

/// The configuration files. No value of this type exists, because this build never reads the files.
pub(super) struct Profiles(Infallible);

impl Profiles {
    pub(super) fn get(&self, _: &str) -> Option<&str> {
        match self.0 {}
    }
}

/// Returns the name of the profile, if an option or an environment variable gives one.
pub(super) fn named(options: &StoreOptions) -> Option<String> {
    options.profile.clone().or_else(|| variable("AWS_PROFILE")).or_else(|| variable("AWS_DEFAULT_PROFILE"))
}

pub(super) fn read(options: &StoreOptions) -> std::result::Result<Option<Profiles>, UnusableSetting> {
    match named(options).filter(|name| name != "default") {
        None => Ok(None),
        Some(name) => Err(UnusableSetting {
            what: format!("profile {name}"),
            why: "AWS configuration files are not read: the feature `aws-config` was left out".to_owned(),
        }),
    }
}

/// Finds a setting in environment variables: first in the one for S3, then in the one for all
/// services.
pub(super) fn find(
    setting: Setting,
    variables: &[(String, String)],
    _: Option<&Profiles>,
) -> Option<(String, SettingSource)> {
    let get = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let variable = setting.variable?;
    get(&format!("{variable}_S3"))
        .map(|value| (value, SettingSource::ServiceVariable))
        .or_else(|| Some((get(variable)?, SettingSource::Variable)))
}

pub(super) fn has_services_section(_: &str) -> bool {
    false
}

pub(super) fn unusable_setting(what: &str, why: &str) -> UnusableSetting {
    UnusableSetting { what: what.to_owned(), why: why.to_owned() }
}

pub(super) fn check_identity(_: &StoreOptions) -> Result<()> {
    Ok(())
}
