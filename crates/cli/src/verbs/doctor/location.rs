//! Checks a location with the first part of `probe`. Makes a finding for each right, for the region
//! and the clock, and for how a directory on NFS is mounted. Called by `doctor`.

use std::borrow::Cow;

use firstbyte_location::{Location, redacted};
use firstbyte_probe::{AccessReport, ProbeRights, Right};
use firstbyte_store::{Error as StoreError, Outages};

use super::network::{PATIENCE, SKEW};
use super::{DoctorFinding, nfs};
use crate::globals::Globals;
use crate::render::error::Result;

pub(super) fn look(location: &Location, globals: &Globals) -> Result<Vec<DoctorFinding>> {
    let mut options = globals.options().store;
    options.read_deadline = options.read_deadline.min(PATIENCE);
    options.connect_deadline = options.connect_deadline.min(PATIENCE);
    options.outages = Outages::FailFast;
    options.retries = 0;
    let access = firstbyte_probe::access(&globals.store_of(options)?, location, ProbeRights::ReadOnly);
    let mut found = findings(&access);
    if let Location::Local(path) = location {
        found.extend(nfs::look(path));
    }
    Ok(found)
}

fn findings(access: &AccessReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if !access.single {
        let missing = access
            .list_failed
            .filter(|kind| kind.is_absence())
            .and_then(|_| StoreError::NotFound { location: access.location.clone(), trace: None }.advice());
        let advice = missing.unwrap_or_else(|| "give this user the right to list, or name one object".into());
        findings.push(right("list", &access.list, advice));
    }
    findings.push(match access.empty {
        true => {
            DoctorFinding::warn("read", "not tried: found no file with content", "name a place with data")
        }
        false => right("read", &access.read, read_advice(access)),
    });
    if let Some(endpoint) = &access.endpoint {
        findings.push(DoctorFinding::ok("endpoint", redacted(endpoint)));
        findings.push(match &access.region {
            Some(region) => DoctorFinding::ok("region", region),
            None => DoctorFinding::ok("region", "not set: that of the bucket is found"),
        });
    }
    if let Some(ahead) = access.clock_ahead {
        let found = format!("{ahead:+} s from this machine's");
        findings.push(match ahead.abs() > SKEW {
            true => {
                DoctorFinding::warn("clock", found, "set the clock (NTP): signatures expire after 15 minutes")
            }
            false => DoctorFinding::ok("clock", found),
        });
    }
    findings
}

/// Returns advice about the right to read. Testing it needs the name of an object, which a failed
/// listing does not give.
fn read_advice(access: &AccessReport) -> &'static str {
    match (&access.read, &access.list) {
        (Right::NotTried, Right::Refused(_)) => "name an object to test reading",
        _ => "give this user the right to read",
    }
}

fn right(what: &'static str, right: &Right, advice: impl Into<Cow<'static, str>>) -> DoctorFinding {
    match right {
        Right::Granted => DoctorFinding::ok(what, "yes"),
        Right::Refused(why) => DoctorFinding::fail(what, why, advice),
        Right::NotTried => DoctorFinding::warn(what, "not tried", advice),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn a_refused_right_fails_and_an_empty_place_is_a_warning() {
        let refused =
            AccessReport { list: Right::Refused("s3://b/: access denied".into()), ..AccessReport::default() };
        let found = findings(&refused);
        assert_eq!((found[0].what, found[0].status), ("list", CheckStatus::Fail));
        let empty = AccessReport { list: Right::Granted, empty: true, ..AccessReport::default() };
        let statuses: Vec<CheckStatus> = findings(&empty).iter().map(|finding| finding.status).collect();
        assert_eq!(statuses, [CheckStatus::Ok, CheckStatus::Warn]);
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning() {
        let access = AccessReport {
            single: true,
            read: Right::Granted,
            clock_ahead: Some(-300),
            ..AccessReport::default()
        };
        let clock = findings(&access).pop().unwrap();
        assert_eq!((clock.status, clock.found.as_str()), (CheckStatus::Warn, "-300 s from this machine's"));
    }
}
