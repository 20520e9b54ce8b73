//! Finds a profile in the AWS configuration files, and checks that it has credentials.
//!
//! A profile that was named must exist and have a source of credentials, as in aws-cli. Otherwise
//! requests would be sent under the role of the machine, which is not the requested identity. Only
//! the profile `default` may be missing or lack credentials.

use aws_config::profile::{Profile, ProfileSet};
use aws_runtime::env_config::EnvConfigValue;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::origin::Origin;
use aws_types::os_shim_internal::{Env, Fs};

use super::config_files::{self, identifier};
use super::environment::{Setting, SettingSource, from_variables, variable};
use super::key::AccessKey;
use super::runtime::{describe, runtime};
use super::unusable_setting::UnusableSetting;
use crate::error::Result;
use crate::options::StoreOptions;
use crate::signing::Signing;

/// The name of S3 in environment variables and in `[services]` sections.
const SERVICE: &str = "s3";

/// Settings each of which is a complete source of credentials.
const SUFFICIENT_SETTINGS: [&str; 5] =
    ["credential_process", "sso_session", "sso_start_url", "web_identity_token_file", "login_session"];

/// Maximum number of profiles that refer to each other by `source_profile`.
const MAX_SOURCES: usize = 16;

/// Returns the name of the profile, if an option or an environment variable gives one.
pub(super) fn named(options: &StoreOptions) -> Option<String> {
    options.profile.clone().or_else(|| variable("AWS_PROFILE")).or_else(|| variable("AWS_DEFAULT_PROFILE"))
}

/// Reads the files, and selects the profile for settings. Returns `None` if no profile was named
/// and there are no files. Only the profile `default` may be missing.
pub(super) fn read(options: &StoreOptions) -> std::result::Result<Option<Profiles>, UnusableSetting> {
    let named = named(options);
    if named.is_none() && !config_files::paths().iter().any(|file| file.exists()) {
        return Ok(None);
    }
    let profiles = load(named.as_deref(), &config_files::contents()).map_err(|why| {
        let is_faulty = |files: &EnvConfigFiles| load(named.as_deref(), files).is_err();
        let file = config_files::each_file().into_iter().find(|(_, files)| is_faulty(files));
        let place = file.map(|(path, _)| format!("{}: ", path.display())).unwrap_or_default();
        UnusableSetting { what: "AWS configuration".to_owned(), why: format!("{place}{why}") }
    })?;
    match named.filter(|name| name != "default" && profiles.get_profile(&identifier(name)).is_none()) {
        Some(name) => Err(unusable_profile(&name, "is not in")),
        None => Ok(Some(Profiles(profiles))),
    }
}

/// The configuration files, with one profile selected.
pub(super) struct Profiles(ProfileSet);

impl Profiles {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }
}

/// Finds a setting in environment variables, otherwise in the profile. In both, a setting for S3
/// takes precedence over one for all services.
pub(super) fn find(
    setting: Setting,
    variables: &[(String, String)],
    profiles: Option<&Profiles>,
) -> Option<(String, SettingSource)> {
    let pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let value = EnvConfigValue::new().profile(setting.key).service_id(SERVICE);
    let value = match setting.variable {
        Some(variable) => value.env(variable),
        None => value,
    };
    let as_it_is = |text: &str| Ok::<_, std::fmt::Error>(text.to_owned());
    let environment = Env::from_slice(&pairs);
    let found = value.validate_and_return_origin(&environment, profiles.map(|it| &it.0), as_it_is);
    let Ok((Some(text), origin)) = found else { return None };
    let source = if origin == Origin::service_environment_variable() {
        SettingSource::ServiceVariable
    } else if origin == Origin::shared_environment_variable() {
        SettingSource::Variable
    } else if origin == Origin::service_profile_file() {
        SettingSource::Services
    } else {
        SettingSource::Profile
    };
    Some((text, source))
}

/// Returns true if the configuration file has the section `[services NAME]`.
pub(super) fn has_services_section(name: &str) -> bool {
    config_files::has_section("services", name)
}

/// Returns the error for a setting that refers to something missing.
pub(super) fn unusable_setting(what: &str, why: &str) -> UnusableSetting {
    let [config, _] = config_files::paths();
    UnusableSetting { what: what.to_owned(), why: format!("{why} {}", config.display()) }
}

/// Checks that the files can be read, that no role needs a code from a device, and that a profile
/// other than `default` has credentials.
pub(super) fn check_identity(options: &StoreOptions) -> Result<()> {
    if options.signing != Signing::Chain || from_variables(options).is_some() {
        return Ok(());
    }
    let name = named(options).unwrap_or_else(|| "default".to_owned());
    let Some(profiles) = read(options)? else { return Ok(()) };
    let Some(profile) = profiles.0.get_profile(&identifier(&name)) else { return Ok(()) };
    check_codes(&name, profile, &profiles.0)?;
    // The profile `default` may lack credentials: the chain then tries its other sources.
    if name == "default" { Ok(()) } else { Ok(check_credentials(&name, profile, &profiles.0)?) }
}

/// Refuses a role that requires a code from a device, in a profile or in a profile that it refers
/// to. The chain of `aws-config` ignores `mfa_serial`, and AWS would answer only that access is
/// denied.
fn check_codes(name: &str, profile: &Profile, all: &ProfileSet) -> std::result::Result<(), UnusableSetting> {
    let has = |profile: &Profile, key| profile.get(key).is_some_and(|value| !value.is_empty());
    let mut reached = Some((name, profile));
    // A profile may refer to itself.
    for _ in 0..MAX_SOURCES {
        let Some((of, profile)) = reached else { break };
        if has(profile, "role_arn") && has(profile, "mfa_serial") {
            let why = format!(
                "its role needs a code of the device in mfa_serial, which is not asked for here; run \
                 eval \"$(aws configure export-credentials --profile {name} --format env)\" first, and leave the \
                 profile out"
            );
            return Err(UnusableSetting { what: format!("profile {of}"), why });
        }
        let source = profile.get("source_profile");
        reached = source.and_then(|source| Some((source, all.get_profile(source)?)));
    }
    Ok(())
}

/// Checks that a profile has a complete source of credentials.
fn check_credentials(
    name: &str,
    profile: &Profile,
    all: &ProfileSet,
) -> std::result::Result<(), UnusableSetting> {
    let has = |key: &str| profile.get(key).is_some_and(|value| !value.is_empty());
    if has("role_arn") {
        return match profile.get("source_profile") {
            Some(source) if all.get_profile(source).is_none() => {
                Err(unusable_profile(name, &format!("has the source_profile `{source}`, which is not in")))
            }
            None if !has("credential_source") && !has("web_identity_token_file") => Err(unusable_profile(
                name,
                "has a role_arn and neither source_profile nor credential_source, in",
            )),
            _ => Ok(()),
        };
    }
    match (has("aws_access_key_id"), has("aws_secret_access_key")) {
        (true, true) => Ok(()),
        (true, false) => {
            Err(unusable_profile(name, "has an aws_access_key_id and no aws_secret_access_key, in"))
        }
        (false, true) => {
            Err(unusable_profile(name, "has an aws_secret_access_key and no aws_access_key_id, in"))
        }
        _ if SUFFICIENT_SETTINGS.into_iter().any(has) => Ok(()),
        _ => Err(unusable_profile(name, "has no credentials and no source of credentials, in")),
    }
}

/// Returns the error for a profile that is missing or has no credentials.
fn unusable_profile(name: &str, why: &str) -> UnusableSetting {
    let files = config_files::paths().map(|file| file.display().to_string());
    UnusableSetting { what: format!("profile {name}"), why: format!("it {why} {}", files.join(" and ")) }
}

/// Returns the keys that the credentials file has for a profile with a `credential_process`. They
/// take precedence over the process, as in botocore (`credentials.create_credential_resolver`).
pub(super) fn keys_before_process(name: &str) -> Option<AccessKey> {
    let all = load(Some(name), &config_files::contents()).ok()?;
    let profile = all.get_profile(&identifier(name))?;
    let earlier = ["role_arn", "web_identity_token_file", "sso_session", "sso_start_url"];
    if profile.get("credential_process").is_none() || earlier.iter().any(|key| profile.get(key).is_some()) {
        return None;
    }
    let [_, (_, credentials)] = config_files::each_file();
    let file = load(Some(name), &credentials).ok()?;
    let keys = file.get_profile(&identifier(name))?;
    let get = |key: &str| keys.get(key).filter(|value| !value.is_empty()).map(ToOwned::to_owned);
    Some(AccessKey {
        id: get("aws_access_key_id")?,
        secret: get("aws_secret_access_key")?,
        session_token: get("aws_session_token"),
        expiry: None,
    })
}

fn load(name: Option<&str>, files: &EnvConfigFiles) -> std::result::Result<ProfileSet, String> {
    // An empty AWS_PROFILE names no profile. So the name is always passed explicitly.
    let name = Some(identifier(name.unwrap_or("default")).into_owned().into());
    let load = || {
        let (fs, env) = (Fs::real(), Env::real());
        let load = async { aws_config::profile::load(&fs, &env, files, name).await };
        runtime()?.block_on(load).map_err(|error| describe(&error))
    };
    let unreadable = || "they cannot be read".to_owned();
    let loaded = std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, load) {
        Ok(thread) => thread.join().unwrap_or_else(|_| Err(unreadable())),
        Err(error) => Err(format!("{}: no thread: {error}", unreadable())),
    });
    loaded.map_err(|why| why.split_whitespace().collect::<Vec<_>>().join(" "))
}
